"""Tests stacks in the windows of a monitor: of slow calls, of calls that hang, and none if none is wanted."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from stalltop.demo.build import Built
from stalltop.demo.latencies import TABLE_VARIABLE, Latency
from stalltop.model.stacks.stack import StackCount
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions, StackMode
from stalltop.probes.stacks.frames_outside import MOST_FRAMES
from tests.kernel.harness import Workplace, wait_until

PROGRAM = """
import ctypes, sys

def wait():
    library.cuCtxSynchronize()

def hang():
    library.cuStreamSynchronize(0)

def step():
    hang()

def deep(frames):
    deep(frames - 1) if frames else hang()

library = ctypes.CDLL(sys.argv[1])
for line in sys.stdin:
    if line.strip() == "hang":
        hang()
    if line.strip() == "step":
        step()
    if line.strip() == "deep":
        deep(100)
    if line.strip() == "here":
        library.cuStreamSynchronize(0)
    for _ in range(100):
        wait()
"""


def _frames(*code: tuple[str, str]) -> list[tuple[str, int]]:
    """Return frames as (function, line), given as (function, its line of code), innermost first."""
    numbers = {line: number for number, line in enumerate(PROGRAM.split("\n"), 1)}
    return [(function, numbers[line]) for function, line in code]


WAIT = _frames(("wait", "    library.cuCtxSynchronize()"), ("<module>", "        wait()"))
HANG = _frames(("hang", "    library.cuStreamSynchronize(0)"), ("<module>", "        hang()"))
STEP = _frames(
    ("hang", "    library.cuStreamSynchronize(0)"), ("step", "    hang()"), ("<module>", "        step()")
)
DEEP = _frames(
    ("hang", "    library.cuStreamSynchronize(0)"),
    *[("deep", "    deep(frames - 1) if frames else hang()")] * (MOST_FRAMES - 1),
)
HERE = _frames(("<module>", "        library.cuStreamSynchronize(0)"))


@contextlib.contextmanager
def running(built: Built, workplace: Workplace, hold: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a program that makes slow calls, and one that lasts as long as the file ``hold`` exists."""
    program = workplace.folder / "program.py"
    if not program.exists():  # Others that were started before may be reading it.
        program.write_text(PROGRAM)
    slow = Latency("sleep", "uniform", 1e6, 3e6)
    table = workplace.table({"cuCtxSynchronize": slow, "cuStreamSynchronize": Latency("hold", path=hold)})
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


def test_every_rank_that_hangs_has_its_own_line(built: Built, workplace: Workplace) -> None:
    hold = workplace.folder / "hold"
    hold.touch()
    places = {"hang": HANG, "step": STEP, "here": HERE, "deep": DEEP}
    with contextlib.ExitStack() as stack:
        ranks = {word: stack.enter_context(running(built, workplace, hold)) for word in places}
        monitor = stack.enter_context(monitoring("slow"))
        traced: set[int] = set()

        def all_traced() -> bool:
            for rank in ranks.values():
                tell(rank, "call")
            traced.update(key.pid for key in monitor.read().rows.keys)
            return {rank.pid for rank in ranks.values()} <= traced

        wait_until(all_traced, step=0.3, what="calls of all ranks")
        for word, rank in ranks.items():
            tell(rank, word)
        found: dict[int, StackCount] = {}

        def all_found() -> bool:
            # On a busy machine a code object may be named only in a later window.
            hanging = (one for one in monitor.read().stacks if one.reason == "open" and one.python)
            found.update({one.pid: one for one in hanging if all(frame.file for frame in one.python)})
            return {rank.pid for rank in ranks.values()} <= set(found)

        wait_until(all_found, step=0.3, what="the stacks of all calls that hang")
        assert {word: lines(found[rank.pid]) for word, rank in ranks.items()} == places
        cut = {word: found[rank.pid].cut for word, rank in ranks.items()}
        assert cut == {**dict.fromkeys(places, ""), "deep": "more outer frames than are kept"}
        hold.unlink()


def test_without_stacks_none_is_read(built: Built, workplace: Workplace) -> None:
    with running(built, workplace, workplace.folder / "none") as process, monitoring("off") as monitor:

        def captured() -> bool:
            tell(process, "call")
            window = monitor.read()
            assert window.stacks == ()
            return any(call.pid == process.pid and call.why == "slow" for call in window.calls.kept)

        wait_until(captured, step=0.3, what="a slow call")
