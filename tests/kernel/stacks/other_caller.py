"""Calls the library of native/worked.c in processes that were forked, or that execute another program, in
greenlets, and in several interpreters, and records the true stack of each call:
``LIBRARY FOLDER ROUNDS fork|exec|greenlets|interpreters``. Runs with the standard library alone, or with
greenlet.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
from threading import get_native_id as get_id
from types import FrameType

worked = ctypes.CDLL(sys.argv[1]).worked
recorded: list[tuple[int, int, list[tuple[str, str, int]], int]] = []


def stack_of(frame: FrameType | None) -> list[tuple[str, str, int]]:
    found: list[tuple[str, str, int]] = []
    while frame is not None and len(found) < 64:
        code = frame.f_code
        found.append((getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found


def call(ns: int) -> None:
    # In one line, so that the recorded line is that of the call; elements are evaluated in their order.
    recorded.append((get_id(), time.monotonic_ns(), stack_of(sys._getframe()), worked(ns)))


def write() -> None:
    with open(os.path.join(sys.argv[2], f"{time.monotonic_ns()}.json"), "w") as file:
        json.dump(recorded, file)


def rounds() -> int:
    return int(sys.argv[3])


def in_child(number: int) -> None:
    recorded.clear()
    for _ in range(rounds()):  # long enough that the new process is known soon
        call(3_000_000)
    write()
    os._exit(0)


def fork() -> None:
    for number in range(4):
        child = os.fork()
        if not child:
            in_child(number)
        for _ in range(rounds() // 4):
            call(100_000)
        os.waitpid(child, 0)


def execute() -> None:
    for _ in range(rounds()):
        call(100_000)
    write()
    os.execv(sys.executable, [sys.executable, "-I", __file__, *sys.argv[1:4], "executed"])


def executed() -> None:
    for _ in range(rounds()):  # long enough that the new program is known soon
        call(3_000_000)


def greenlets() -> None:
    from greenlet import greenlet  # type: ignore[import-untyped]

    def odd() -> None:
        for _ in range(rounds()):
            call(50_000)
            other.switch()

    def even() -> None:
        while True:
            deeper(5)
            one.switch()

    def deeper(depth: int) -> None:
        if depth:
            deeper(depth - 1)
        else:
            call(50_000)

    one, other = greenlet(odd), greenlet(even)
    one.switch()


def interpreters() -> None:
    """Run code in interpreters of their own, one after the other in the main thread and at the same time in
    other threads; then, and before, code in the main interpreter alone."""
    threads = [threading.Thread(target=within_another) for _ in range(2)]
    for _ in range(rounds()):
        call(100_000)
    within_another()
    for thread in threads:
        thread.start()
    for _ in range(rounds()):
        call(100_000)
    for thread in threads:
        thread.join()
    for _ in range(rounds()):
        call(100_000)


def within_another() -> None:
    try:
        import _interpreters as module  # type: ignore[import-not-found]  # 3.13 and later

        made = module.create("legacy")
    except ImportError:
        import _xxsubinterpreters as module  # type: ignore[import-not-found]

        made = module.create(isolated=False)
    module.run_string(
        made,
        f"import runpy, sys; sys.argv[:] = {sys.argv!r}; runpy.run_path({__file__!r})['calls_of_another']()",
    )
    module.destroy(made)


def calls_of_another() -> None:
    for _ in range(rounds()):
        call(100_000)
    write()


def main() -> None:
    if sys.argv[4] != "executed":
        call(1_000)  # from now on, all calls are captured
        print("ready", flush=True)
        sys.stdin.readline()
    {
        "fork": fork,
        "exec": execute,
        "executed": executed,
        "greenlets": greenlets,
        "interpreters": interpreters,
    }[sys.argv[4]]()
    write()
    print("over", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
