"""Tests stacks in the windows of a monitor: of slow calls, of calls that hang, and none if none is wanted."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from stalltop.demo.build import Built
from stalltop.demo.latencies import TABLE_VARIABLE, Latency, write_table
from stalltop.model.stacks.stack import StackCount
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions, StackMode
from tests.kernel.harness import Workplace, wait_until

PROGRAM = """
import ctypes, sys

def wait():
    library.cuCtxSynchronize()

def hang():
    library.cuStreamSynchronize(0)

library = ctypes.CDLL(sys.argv[1])
for line in sys.stdin:
    if line.strip() == "hang":
        hang()
    for _ in range(100):
        wait()
"""
WAIT = [("wait", 5), ("<module>", 15)]
HANG = [("hang", 8), ("<module>", 13)]


@contextlib.contextmanager
def running(built: Built, workplace: Workplace, hold: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a program that makes slow calls, and one that lasts as long as the file ``hold`` exists."""
    program = workplace.folder / "program.py"
    program.write_text(PROGRAM)
    slow = Latency("sleep", "uniform", 1e6, 3e6)
    table = write_table(
        {"cuCtxSynchronize": slow, "cuStreamSynchronize": Latency("hold", path=hold)},
        workplace.folder / "table",
    )
    process = subprocess.Popen(
        [sys.executable, "-I", program, built.folder / "libcuda.so.1"],
        stdin=subprocess.PIPE,
        text=True,
        env={**os.environ, TABLE_VARIABLE: str(table)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def monitoring(stacks: StackMode) -> Iterator[Monitor]:
    monitor = Monitor(MonitorOptions(budget=None, stacks=stacks))
    try:
        assert monitor.cannot_trace is None
        yield monitor
    finally:
        monitor.close()


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def lines(stack: StackCount) -> list[tuple[str, int]]:
    return [(frame.function, frame.line) for frame in stack.python]


def test_windows_have_the_lines_of_slow_calls_and_of_a_hang(built: Built, workplace: Workplace) -> None:
    hold = workplace.folder / "hold"
    hold.touch()
    with running(built, workplace, hold) as process, monitoring("slow") as monitor:

        def found(reason: str) -> list[StackCount]:
            window = monitor.read()
            return [one for one in window.stacks if one.pid == process.pid and one.reason == reason]

        def slow() -> list[StackCount]:
            tell(process, "call")
            return [stack for stack in found("slow") if stack.python]

        stacks = wait_until(slow, step=0.3, what="the stack of a slow call")
        assert all(lines(stack) == WAIT for stack in stacks)
        assert {stack.operation for stack in stacks} == {"cuCtxSynchronize"}
        assert stacks[0].python[0].file == str(workplace.folder / "program.py")
        # The call was made by libffi, which ctypes uses.
        native = [frame for frame in stacks[0].frames if frame.language != "python"]
        assert native
        assert "ffi" in native[0].file
        tell(process, "hang")
        (hanging,) = wait_until(lambda: found("open"), step=0.3, what="the stack of a call that hangs")
        assert lines(hanging) == HANG
        assert (hanging.operation, hanging.calls) == ("cuStreamSynchronize", 1)
        assert hanging.ns > 2e9
        hold.unlink()


def test_without_stacks_none_is_read(built: Built, workplace: Workplace) -> None:
    with running(built, workplace, workplace.folder / "none") as process, monitoring("off") as monitor:

        def captured() -> bool:
            tell(process, "call")
            window = monitor.read()
            assert window.stacks == ()
            return any(call.pid == process.pid and call.why == "slow" for call in window.calls.kept)

        wait_until(captured, step=0.3, what="a slow call")
