"""Demangles C++ names with the platform's own library, as the process that ``Demangler`` starts.

Names come from the programs that are watched. A crafted one makes the library build 2^n characters from n,
and a fault in the library may let it do worse. So this process has a limit on memory and one on time, no
capabilities, no descriptors but its pipes and no way to get others. It runs as a file of its own
(``python -I -S``) and imports nothing of stalltop, which keeps it small. It ends with its input: whoever
started it holds the other end of that pipe.

It says first whether there is a library (one byte), then answers each name: both are a length (two bytes)
and as many bytes. An answer without bytes stands for a name that the library does not understand.
"""

import ctypes
import os
import resource
import signal
import struct

LIBRARIES = ("libstdc++.so.6", "libc++abi.so.1")
MEMORY_BYTES = 32 << 20
"""Address space for the work on names, beside what the process has when it starts."""
CPU_SECONDS = 0.2
"""For one name. Usual ones take some microseconds."""
MOST_ANSWER = 8192
"""Bytes of an answer; longer ones are cut. Fewer are ever shown."""
_PR_SET_NO_NEW_PRIVS = 38
"""Of linux/prctl.h."""
_CAPABILITY_VERSION_3 = 0x20080522
"""Of linux/capability.h."""
_NOBODY = 65534


def main() -> None:
    """Answer names until the input ends."""
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
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)  # SIGPROF ends the process
            found = demangle(waiting[at + 2 : end], None, None, None)
            signal.setitimer(signal.ITIMER_PROF, 0)
            text = ctypes.string_at(found, libc.strnlen(found, MOST_ANSWER)) if found else b""
            libc.free(found)
            # Each at once: the next name may end this process.
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
    """Give up what work on names does not need. What this user may not give up stays."""
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    try:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    except OSError:
        pass  # not root, or a user namespace without that user
    libc.capset(struct.pack("Ii", _CAPABILITY_VERSION_3, 0), bytes(24))
    with open("/proc/self/statm", "rb") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    for limit in (resource.RLIMIT_CORE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC):
        resource.setrlimit(limit, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY_BYTES, now + MEMORY_BYTES))


if __name__ == "__main__":
    main()
