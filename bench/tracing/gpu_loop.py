"""Runs a loop of CUDA calls through ctypes, in a process of its own: ``gpu_loop.py LIBCUDART``.

Reads a number of rounds from each line of stdin, runs them, and prints how many ns they took. A round is like
a small training step in eager mode: 16 launches (memsets, which run as CUDA kernels), two copies, one wait.
"""

from __future__ import annotations

import ctypes
import sys
import time
from typing import Final

LAUNCHES: Final = 16
_SIZE_BYTES: Final = 1 << 16
_HOST_TO_DEVICE: Final = 1


def main() -> None:
    """Answers requests until stdin ends."""
    runtime = ctypes.CDLL(sys.argv[1])
    memory, host = ctypes.c_void_p(), ctypes.create_string_buffer(_SIZE_BYTES)
    size = ctypes.c_size_t(_SIZE_BYTES)
    if runtime.cudaMalloc(ctypes.byref(memory), size) != 0:
        sys.exit("no GPU answers")
    print("ready", flush=True)
    for line in sys.stdin:
        began = time.perf_counter_ns()
        for _ in range(int(line)):
            for value in range(LAUNCHES):
                runtime.cudaMemsetAsync(memory, value, size, None)
            runtime.cudaMemcpyAsync(memory, host, size, _HOST_TO_DEVICE, None)
            runtime.cudaMemcpyAsync(memory, host, size, _HOST_TO_DEVICE, None)
            runtime.cudaStreamSynchronize(None)
        print(time.perf_counter_ns() - began, flush=True)


if __name__ == "__main__":
    main()
