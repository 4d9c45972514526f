"""Calls the library of native/worked.c, and records the true stack of each call. Runs in every interpreter
that is tested, with nothing but its standard library.

Arguments: the library, the file of recorded stacks, and the number of rounds.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

worked = ctypes.CDLL(sys.argv[1]).worked
recorded: list[tuple[int, int, list[tuple[str, str, int]], int]] = []
MADE = "def made_of():\n\n    call(100_000)\nmade_of()"
made = [compile(MADE, f"made {number}.py", "exec") for number in range(3)]
own = threading.local()


def get_tid() -> int:
    """Return the TID of this thread in the PID namespace of /proc, which may not be the thread's own."""
    if not hasattr(own, "tid"):
        try:
            own.tid = int(os.readlink("/proc/thread-self").rpartition("/")[2])
        except OSError:
            own.tid = threading.get_native_id()
    return int(own.tid)


def stack_of(frame: FrameType | None) -> list[tuple[str, str, int]]:
    found: list[tuple[str, str, int]] = []
    while frame is not None and len(found) < 64:
        code = frame.f_code
        found.append((getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found


def call(ns: int) -> None:
    # In one line, so that the recorded line is that of the call; elements are evaluated in their order.
    recorded.append((get_tid(), time.monotonic_ns(), stack_of(sys._getframe()), worked(ns)))


def recursive(depth: int, ns: int) -> None:
    if depth:
        recursive(
            depth - 1,
            ns,
        )
    else:
        call(ns)


def generated(ns: int) -> Iterator[int]:
    for depth in range(3):
        recursive(depth, ns)
        yield depth


async def awaited(ns: int) -> None:
    call(ns)


async def nested(ns: int) -> None:
    await asyncio.sleep(0)
    await asyncio.gather(awaited(ns), awaited(ns))


def decorated(function: Callable[[int], None]) -> Callable[[int], None]:
    @functools.wraps(function)
    def wrapper(ns: int) -> None:
        with contextlib.nullcontext():
            return function(ns)

    return wrapper


@decorated
@decorated
def wrapped(ns: int) -> None:
    call(ns)


class Made:
    def __init__(self) -> None:
        call(50_000)


class Loader:
    @property
    def batch(self) -> list[int]:
        return (lambda: [number for number in generated(300_000) if number < 0])()

    def run(self) -> None:
        for number in range(int(sys.argv[3])):
            assert not self.batch
            call(200_000)
            Made()
            exec(made[number % 3], globals())
            with contextlib.suppress(StopIteration):
                awaited(100_000).send(None)
            wrapped(100_000)
            if number % 16 == 0:
                asyncio.run(nested(100_000))
                recursive(200, 100_000)
                # This code is gone before its names can be read, and soon other code is at its place.
                exec(compile(MADE, f"gone {number}.py", "exec"), globals())


call(1000)  # from now on, all calls are captured
print("ready", flush=True)
sys.stdin.readline()
sys.setrecursionlimit(11_000)
for _ in range(10):
    recursive(10_000, 100_000)
threads = [threading.Thread(target=Loader().run) for _ in range(3)]
for thread in threads:
    thread.start()
Loader().run()
for thread in threads:
    thread.join()
with open(sys.argv[2], "w") as file:
    json.dump(recorded, file)
print("over", flush=True)
sys.stdin.readline()
