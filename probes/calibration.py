"""A function of our own to trace: it proves that counting works here, and what one counted call costs."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import threading
import time
from dataclasses import dataclass
from typing import Final

_CODE: Final = {
    # caller(n): push rbx; mov rbx, rdi; 1: call function; dec rbx; jnz 1b; pop rbx; ret
    # function(): push rbp; xor eax, eax; pop rbp; ret (at 0x20: it begins as most of CUDA's functions do)
    "x86_64": (
        bytes.fromhex("53 4889fb e817000000 48ffcb 75f6 5b c3").ljust(0x20, b"\x90")
        + bytes.fromhex("55 31c0 5d c3")
    ),
    # caller(n): stp x29, x30, [sp, -32]!; str x19, [sp, 16]; mov x19, x0; 1: bl function; subs x19, x19, 1;
    #            b.ne 1b; ldr x19, [sp, 16]; ldp x29, x30, [sp], 32; ret
    # function(): nop; mov w0, 0; ret (at 0x28)
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
            0xD503201F,
            0x52800000,
            0xD65F03C0,
        )
    ),
}
_FUNCTION_AT: Final = {"x86_64": 0x20, "aarch64": 0x28}


@dataclass(frozen=True, slots=True)
class Measured:
    """Calls that were made, in a thread of their own that has ended since."""

    tid: int
    calls: int
    ns: float
    """CPU time of one call: the lowest of several rounds."""


class OwnFunction:
    """A function that does nothing, in a file that only this process has: it can be probed and called."""

    def __init__(self) -> None:
        machine = platform.machine()
        self._fd = os.memfd_create("stalltop-calibration")
        os.ftruncate(self._fd, mmap.PAGESIZE)
        os.pwrite(self._fd, _CODE[machine], 0)
        # Private: the kernel puts breakpoints into no shared mapping.
        self._memory = mmap.mmap(self._fd, mmap.PAGESIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
        self.path = f"/proc/self/fd/{self._fd}"
        self.offset = _FUNCTION_AT[machine]
        """Of the function's first instruction in the file, bytes."""
        self._call = ctypes.CFUNCTYPE(None, ctypes.c_ulong)(self._address())

    def _address(self) -> int:
        # ctypes tells the address of writable buffers only; numpy of any, and is loaded anyway.
        import numpy as np

        return int(np.frombuffer(self._memory, np.uint8).ctypes.data)

    def measure(self, calls: int, rounds: int) -> Measured:
        """Make ``rounds`` times ``calls`` calls in a thread that ends with them."""
        tid = 0
        times: list[int] = []

        def work() -> None:
            nonlocal tid
            tid = threading.get_native_id()
            for _ in range(rounds):
                # CPU time: on a busy host the thread often waits for its turn.
                start = time.thread_time_ns()
                self._call(calls)
                times.append(time.thread_time_ns() - start)

        thread = threading.Thread(target=work, name="calibration", daemon=True)
        thread.start()
        thread.join()
        return Measured(tid, calls * rounds, min(times) / calls)

    def close(self) -> None:
        """Give the memory and the file back."""
        os.close(self._fd)
