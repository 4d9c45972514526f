"""Demangles C++ names with the platform's own library, as the process that ``Demangler`` starts.

Names come from the programs that are traced. A malicious name of n characters can make the library build 2^n
characters, and a fault in the library may allow worse. So this process has limits on memory and time. It has
no capabilities, no descriptors except its pipes, and no way to open others. It runs from its own file
(``python -I -S``) and imports nothing of stalltop, which keeps it small. It ends when its stdin is closed.

The process first writes one byte (1 if the library was found), and then an answer to each name. A name and an
answer each consist of a length (two bytes) and of that many bytes. An empty answer means that the library
does not understand the name.
"""

import ctypes
import os
import resource
import signal
import struct

LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1")
MEMORY_BYTES = 32 << 20
"""Limit of the address space for demangling, bytes; it is added to what the process has when it starts."""
CPU_SECONDS = 0.2
"""Limit of the CPU time for one name, s. A usual name takes some microseconds."""
MOST_ANSWER = 8192
"""Maximum size of an answer, bytes; longer answers are cut. stalltop shows fewer characters than this."""
_PR_SET_NO_NEW_PRIVS = 38
"""Defined in linux/prctl.h."""
_CAPABILITY_VERSION_3 = 0x20080522
"""Defined in linux/capability.h."""
_NOBODY = 65534


def main() -> None:
    """Answers names until stdin is closed."""
    library = _library()
    os.write(1, b"\1" if library is not None else b"\0")
    if library is None:
        return
    libc = ctypes.CDLL(None)
    libc.free.argtypes = [ctypes.c_void_p]
    libc.strnlen.argtypes, libc.strnlen.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_size_t
    demangle = library["__cxa_demangle"]
    demangle.restype = ctypes.c_void_p
    _confine(libc)
    waiting = b""
    while came := os.read(0, 1 << 16):
        waiting += came
        at = 0
        while len(waiting) >= at + 2:
            end = at + 2 + int.from_bytes(waiting[at : at + 2], "big")
            if len(waiting) < end:
                break
            # When the timer expires, SIGPROF ends the process.
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            found = demangle(waiting[at + 2 : end], None, None, None)
            signal.setitimer(signal.ITIMER_PROF, 0)
            text = ctypes.string_at(found, libc.strnlen(found, MOST_ANSWER)) if found else b""
            libc.free(found)
            # Each answer is written at once, because the next name may end this process.
            _write(len(text).to_bytes(2, "big") + text)
            at = end
        waiting = waiting[at:]


def _library() -> ctypes.CDLL | None:
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _write(answer: bytes) -> None:
    while answer:
        answer = answer[os.write(1, answer) :]


def _confine(libc: ctypes.CDLL) -> None:
    """Gives up all rights that demangling does not need. Rights that this user cannot give up stay."""
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    try:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    except OSError:
        pass  # This process is not root, or its user namespace has no such user.
    libc.capset(struct.pack("Ii", _CAPABILITY_VERSION_3, 0), bytes(24))
    with open("/proc/self/statm", "rb") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    for limit in (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC):
        resource.setrlimit(limit, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY_BYTES, now + MEMORY_BYTES))


if __name__ == "__main__":
    main()
