"""Calls a function of a library from a stack of a given depth: ``LIBRARY DEPTH``.

Reads commands from stdin, and answers each with a line: ``call N`` makes N calls, ``sleep N`` sleeps for 1 ms
before each of N calls, ``run S`` computes for S seconds of CPU time.
"""

from __future__ import annotations

import ctypes
import sys
import time


def deep(depth: int) -> None:
    """Serves commands with ``depth`` frames of this function on the stack."""
    if depth > 1:
        deep(depth - 1)
        return
    call, pause = ctypes.CDLL(sys.argv[1]).cuCtxSynchronize, time.sleep
    print("ready", flush=True)
    for line in sys.stdin:
        command, number = line.split()
        if command == "call":
            for _ in range(int(number)):
                call()
        elif command == "sleep":
            for _ in range(int(number)):
                pause(0.001)
                call()
        else:
            end = time.thread_time() + float(number)
            while time.thread_time() < end:
                sum(range(1000))
        print("done", flush=True)


sys.setrecursionlimit(10_000)
deep(int(sys.argv[2]))
