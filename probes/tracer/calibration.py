"""Provides a function that is traced to find out whether counting works on this host, and what one counted
call costs."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import struct
import threading
import time
from dataclasses import dataclass
from typing import Final

_CODE: Final = {
    # Machine code of four functions.
    # caller(n): push rbx; mov rbx, rdi; 1: call function; dec rbx; jnz 1b; pop rbx; ret
    # function(): push rbp; xor eax, eax; pop rbp; ret (at 0x20: it begins as most of CUDA's functions do)
    # sandboxed(filter): push rbx; mov rbx, rdi; fork(); test eax, eax; jnz 1f; prctl(PR_SET_DUMPABLE, 0);
    #           prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, rbx);
    #           mov ebx, eax; call function; exit_group(ebx); 1: pop rbx; ret
    #           (at 0x40; the child never returns into the program that it is a copy of)
    # pausing(n, duration, ticks): push rbx; push r12; push r13; mov rbx, rdi; mov r12, rsi; mov r13, rdx;
    #           1: rdtsc; shl rdx, 32; or rax, rdx; mov [r13], rax; call function;
    #           rdtsc; shl rdx, 32; or rax, rdx; mov [r13+8], rax; add r13, 16; nanosleep(r12, NULL);
    #           dec rbx; jnz 1b; rdtsc; shl rdx, 32; or rax, rdx; mov [r13], rax;
    #           pop r13; pop r12; pop rbx; ret (at 0xa0)
    "x86_64": bytes.fromhex("53 4889fb e817000000 48ffcb 75f6 5b c3").ljust(0x20, b"\x90")
    + bytes.fromhex("55 31c0 5d c3").ljust(0x20, b"\x90")
    + bytes.fromhex(
        "53 4889fb b839000000 0f05 85c0 754b"
        "b89d000000 bf04000000 31f6 0f05"
        "b89d000000 bf26000000 be01000000 31d2 4531d2 4531c0 0f05"
        "b89d000000 bf16000000 be02000000 4889da 0f05"
        "89c3 e88fffffff 89df b8e7000000 0f05 5b c3"
    ).ljust(0x60, b"\x90")
    + bytes.fromhex(
        "53 4154 4155 4889fb 4989f4 4989d5"
        "0f31 48c1e220 4809d0 49894500 e860ffffff"
        "0f31 48c1e220 4809d0 49894508 4983c510 b823000000 4c89e7 31f6 0f05"
        "48ffcb 75cc 0f31 48c1e220 4809d0 49894500"
        "415d 415c 5b c3"
    ),
    # Machine code of three functions.
    # caller(n): stp x29, x30, [sp, -32]!; str x19, [sp, 16]; mov x19, x0; 1: bl function; subs x19, x19, 1;
    #            b.ne 1b; ldr x19, [sp, 16]; ldp x29, x30, [sp], 32; ret
    # function(): stp x29, x30, [sp, -16]!; mov w0, 0; ldp x29, x30, [sp], 16; ret (at 0x28: it begins as the
    #             runtime's functions do; those of the driver begin with adrp, which is cheaper to probe)
    # pausing(n, duration, ticks): stp x29, x30, [sp, -48]!; stp x19, x20, [sp, 16]; str x21, [sp, 32];
    #             mov x19, x0; mov x20, x1; mov x21, x2; 1: isb; mrs x0, cntvct_el0; str x0, [x21], 8;
    #             bl function; isb; mrs x0, cntvct_el0; str x0, [x21], 8; nanosleep(x20, NULL);
    #             subs x19, x19, 1; b.ne 1b; isb; mrs x0, cntvct_el0; str x0, [x21];
    #             ldr x21, [sp, 32]; ldp x19, x20, [sp, 16]; ldp x29, x30, [sp], 48; ret (at 0x38)
    "aarch64": b"".join(
        word.to_bytes(4, "little")
        for word in (
            0xA9BE7BFD,
            0xF9000BF3,
            0xAA0003F3,
            0x94000007,
            0xF1000673,
            0x54FFFFC1,
            0xF9400BF3,
            0xA8C27BFD,
            0xD65F03C0,
            0xD503201F,
            0xA9BF7BFD,
            0x52800000,
            0xA8C17BFD,
            0xD65F03C0,
            0xA9BD7BFD,
            0xA90153F3,
            0xF90013F5,
            0xAA0003F3,
            0xAA0103F4,
            0xAA0203F5,
            0xD5033FDF,
            0xD53BE040,
            0xF80086A0,
            0x97FFFFF3,
            0xD5033FDF,
            0xD53BE040,
            0xF80086A0,
            0xD2800CA8,
            0xAA1403E0,
            0xD2800001,
            0xD4000001,
            0xF1000673,
            0x54FFFE81,
            0xD5033FDF,
            0xD53BE040,
            0xF90002A0,
            0xF94013F5,
            0xA94153F3,
            0xA8C37BFD,
            0xD65F03C0,
        )
    ),
}
_FUNCTION_AT: Final = {"x86_64": 0x20, "aarch64": 0x28}
_PAUSING_AT: Final = {"x86_64": 0xA0, "aarch64": 0x38}
_SANDBOXED_AT: Final = {"x86_64": 0x40}
"""Offset of the function that runs in a sandbox. It is needed only on x86-64, where a return probe uses the
system call ``_URETPROBE`` (asm/unistd_64.h, Linux 6.11 and later)."""
_URETPROBE: Final = 335
_FILTER: Final = b"".join(
    struct.pack("=HBBI", *instruction)
    for instruction in (
        (
            0x20,
            0,
            0,
            0,
        ),  # BPF_LD | BPF_W | BPF_ABS: load the number of the system call from struct seccomp_data.
        (0x15, 0, 1, _URETPROBE),  # BPF_JMP | BPF_JEQ | BPF_K: compare it.
        (0x06, 0, 0, 0x00050001),  # BPF_RET | BPF_K: deny it with EPERM, as container runtimes do.
        (0x06, 0, 0, 0x7FFF0000),  # BPF_RET | BPF_K: allow it.
    )
)
"""Seccomp filter that denies the system call ``_URETPROBE``, as the filters of containers do. It consists of
struct sock_filter (linux/filter.h)."""


PAUSE_NS: Final = 1_000_000
_PAUSE: Final = struct.pack("=qq", 0, PAUSE_NS)  # struct timespec


@dataclass(frozen=True, slots=True)
class Measured:
    """Result of calls that were made in a separate thread, which has ended since."""

    tid: int
    calls: int
    ns: float
    """CPU time of one call, in ns: the lowest of several rounds."""
    paused_ns: float
    """Time of a call after a pause of ``PAUSE_NS``: the median; 0 if there were no pauses."""


class OwnFunction:
    """A function that does nothing, in a file that only this process has. It can be probed and called."""

    def __init__(self) -> None:
        machine = platform.machine()
        self._fd = os.memfd_create("stalltop-calibration")
        os.ftruncate(self._fd, mmap.PAGESIZE)
        os.pwrite(self._fd, _CODE[machine], 0)
        # The mapping is private, because the Linux kernel puts no breakpoints into shared mappings.
        self._memory = mmap.mmap(self._fd, mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
        self.path = f"/proc/self/fd/{self._fd}"
        self.offset = _FUNCTION_AT[machine]
        """Offset of the function's first instruction in the file, bytes."""
        address = self._address()
        self._call = ctypes.CFUNCTYPE(None, ctypes.c_ulong)(address)
        self._pausing = ctypes.CFUNCTYPE(None, ctypes.c_ulong, ctypes.c_char_p, ctypes.c_void_p)(
            address + _PAUSING_AT[machine]
        )
        at = _SANDBOXED_AT.get(machine)
        self._sandboxed = (
            None if at is None else ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address + at)
        )

    def _address(self) -> int:
        # ctypes gives the address only of a writable buffer. numpy gives it for any buffer, and is loaded
        # anyway.
        import numpy as np

        return int(np.frombuffer(self._memory, np.uint8).ctypes.data)

    def measure(self, calls: int, rounds: int, pauses: int = 0) -> Measured:
        """Makes ``calls`` calls, ``rounds`` times, and then ``pauses`` pauses with a call after each, in a
        thread that then ends."""
        tid, paused_ns = 0, 0.0
        times: list[int] = []

        def work() -> None:
            nonlocal tid, paused_ns
            tid = threading.get_native_id()
            for _ in range(rounds):
                # CPU time is measured, because on a busy host the thread often waits for a CPU.
                start = time.thread_time_ns()
                self._call(calls)
                times.append(time.thread_time_ns() - start)
            if pauses:
                paused_ns = self._paused_ns(pauses)

        thread = threading.Thread(target=work, name="calibration", daemon=True)
        thread.start()
        thread.join()
        return Measured(tid, calls * rounds + pauses, min(times) / calls, paused_ns)

    def _paused_ns(self, pauses: int) -> float:
        """Returns the time of a call after a pause. The calls are timed with the CPU's counter of ticks: to
        ask the Linux kernel for the time would bring its code into the caches. The median is returned, so
        that calls in which the thread waited for a CPU do not count."""
        ticks = (ctypes.c_uint64 * (2 * pauses + 1))()
        start = time.perf_counter_ns()
        self._pausing(pauses, _PAUSE, ticks)
        ns_of_tick = (time.perf_counter_ns() - start) / max(ticks[-1] - ticks[0], 1)
        return ns_of_tick * sorted(ticks[at + 1] - ticks[at] for at in range(0, 2 * pauses, 2))[pauses // 2]

    def killed_in_sandbox(self) -> tuple[int, int]:
        """Calls the function once in a child process that has a seccomp filter.

        Returns the child's PID and the signal that ended it (0 for none). Returns 0 and 0 if return probes
        need no system call here. Raises OSError if the test failed.
        """
        if self._sandboxed is None:
            return 0, 0
        instructions = ctypes.create_string_buffer(_FILTER, len(_FILTER))
        program = ctypes.create_string_buffer(
            struct.pack("=HxxxxxxQ", len(_FILTER) // 8, ctypes.addressof(instructions))  # struct sock_fprog
        )
        pid = self._sandboxed(ctypes.addressof(program))
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
        status = os.waitpid(pid, 0)[1]
        if os.WIFSIGNALED(status):
            return pid, os.WTERMSIG(status)
        # The exit status is prctl()'s result as a byte. EINVAL and ENOSYS mean that the Linux kernel has no
        # seccomp filters: then no program is sandboxed.
        failed = -os.WEXITSTATUS(status) & 0xFF
        if failed and failed not in (errno.EINVAL, errno.ENOSYS):
            raise OSError(failed, f"no seccomp filter could be tried: {os.strerror(failed)}")
        return pid, 0

    def close(self) -> None:
        """Closes the memory and the file."""
        os.close(self._fd)
