"""Tests how samples of threads are added up, with a kernel side and names that a test makes up."""

from __future__ import annotations

import struct
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from stalltop.model.evidence import HOST_GAP as GAP_NAME
from stalltop.model.evidence import HOST_LAYER
from stalltop.model.row_key import RowKey
from stalltop.model.stacks.stack import StackCount, StackFrame
from stalltop.model.stacks.sums import added_stacks
from stalltop.model.window import SPLITS
from stalltop.probes.layout import HOST_GAP, How
from stalltop.probes.maps.samples import RawSample, WaitTime
from stalltop.probes.maps.slots import SlotKey
from stalltop.probes.stack_reading.sample_reader import NAMED_SECONDS, SampleReader
from stalltop.probes.stack_reading.stack_names import StackNames
from stalltop.probes.stacks.code_objects import PythonFrame
from stalltop.probes.stacks.layout import SAMPLE_NS, PythonEnd, StackOf

PID = 100
GIL = 0x5000
MS = 1_000_000


@dataclass
class MadeUp:
    """Samples, the times of their waits by TID, and what is known of threads and frames."""

    samples: list[RawSample] = field(default_factory=list)
    times: dict[int, WaitTime | None] = field(default_factory=dict)
    failure: str = ""
    asked: int = 0

    @property
    def names(self) -> StackNames:
        return cast(StackNames, self)

    def is_gil(self, pid: int, futex: int) -> bool:
        return (pid, futex) == (PID, GIL)

    def why_cut(self, stack: RawSample, frames: Sequence[StackFrame]) -> str:
        return ""

    def read(self) -> list[RawSample]:
        found, self.samples = self.samples, []
        return found

    def waited(self, sample: RawSample, now_ns: int) -> WaitTime | None:
        return self.times.get(sample.tid)

    def lines(self, pid: int, frames: Sequence[PythonFrame]) -> dict[PythonFrame, StackFrame]:
        self.asked += 1
        return {frame: StackFrame("step", "/a.py", frame.instruction, "python") for frame in frames}

    def native(
        self, pid: int, stacks: Collection[tuple[int, ...]]
    ) -> dict[tuple[int, ...], tuple[StackFrame, ...]]:
        return {stack: (StackFrame(f"x.so+{stack[0]:#x}", "/lib/x.so", 0, "native"),) for stack in stacks}


def reader(made_up: MadeUp) -> SampleReader:
    return SampleReader(made_up, made_up)


def sample(
    of: StackOf,
    line: int,
    ns: int,
    *,
    part: str = "running",
    futex: int = 0,
    how: How = How.PLAIN,
    tid: int = 1,
) -> RawSample:
    return RawSample(
        of,
        SlotKey(7, PID, HOST_GAP, False),
        *(tid, time.monotonic_ns(), ns, SPLITS.index(cast(Any, part)), how, futex, 0, 1, PythonEnd.WHOLE),
        struct.pack("<QQQ", 1, line, 2),
        struct.pack("<Q", 16 * line),
    )


def leaving(line: int, waits: int, part: str, **more: Any) -> RawSample:
    return sample(StackOf.LEAVING, line, waits, part=part, **more)


def row_of(key: SlotKey) -> RowKey:
    return RowKey("box", "docker:aa", key.tgid, "train", HOST_LAYER, GAP_NAME, key.nested)


def taken(one: SampleReader) -> tuple[StackCount, ...]:
    one.look()
    return added_stacks([one.take(row_of)])


def found(one: SampleReader) -> dict[tuple[str, int], tuple[int, int]]:
    """Return calls and ns by reason and line."""
    return {(stack.reason, stack.python[0].line): (stack.calls, stack.ns) for stack in taken(one)}


def test_samples_of_cpu_time_with_one_stack_are_added_up() -> None:
    made_up = MadeUp([sample(StackOf.RUNNING, 5, SAMPLE_NS) for _ in range(3)])
    made_up.samples.append(sample(StackOf.RUNNING, 6, 4 * SAMPLE_NS))
    one = reader(made_up)
    stacks = taken(one)
    assert [(stack.calls, stack.ns) for stack in stacks] == [(4, 4 * SAMPLE_NS), (3, 3 * SAMPLE_NS)]
    assert stacks[0].frames[0] == StackFrame("x.so", "/lib/x.so", 0, "native"), "without the offset"
    assert (stacks[0].operation, stacks[0].cut) == (GAP_NAME, "")
    assert taken(one) == ()


def test_a_wait_counts_when_it_is_over_for_the_waits_that_it_stands_for() -> None:
    made_up = MadeUp([leaving(8, 4, "disk")], {1: WaitTime(3 * MS, MS, over=True)})
    assert found(reader(made_up)) == {("disk", 8): (4, 12 * MS), ("runqueue", 8): (0, 4 * MS)}


def test_a_wait_that_lasts_counts_in_each_window_and_once_in_all() -> None:
    made_up = MadeUp([leaving(8, 1, "sleep")], {1: WaitTime(700 * MS, 0, over=False)})
    one = reader(made_up)
    assert found(one) == {("sleep", 8): (1, 700 * MS)}
    made_up.times[1] = WaitTime(1_500 * MS, 0, over=True)
    assert found(one) == {("sleep", 8): (0, 800 * MS)}
    assert found(one) == {}


def test_a_long_wait_among_many_short_ones_is_not_multiplied() -> None:
    made_up = MadeUp([leaving(8, 1_000, "lock")], {1: WaitTime(2_000 * MS, 0, over=True)})
    assert found(reader(made_up)) == {("lock", 8): (1_000, 2_000 * MS)}


def test_a_wait_whose_time_is_lost_does_not_count() -> None:
    assert found(reader(MadeUp([leaving(8, 1, "disk")]))) == {}


def test_the_gil_and_those_who_hold_it_are_told_from_other_locks() -> None:
    waking = (
        sample(StackOf.WAKING, 1, MS, part="lock", futex=GIL),
        sample(StackOf.WAKING, 2, MS, part="lock", futex=9, how=How.HELD),
        sample(StackOf.WAKING, 3, MS, part="network"),
    )
    made_up = MadeUp([*waking, leaving(4, 1, "lock", futex=GIL), leaving(5, 1, "lock", futex=9, tid=2)])
    made_up.times = dict.fromkeys((1, 2), WaitTime(MS, 0, over=True))
    assert found(reader(made_up)).keys() == {
        *(("gil", 4), ("holds_gil", 1), ("holds_lock", 2), ("hands_over", 3), ("lock", 5)),
    }


def test_names_are_asked_for_once_and_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up, now = MadeUp(), 1_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    one = reader(made_up)
    for seconds, asked in ((0.0, 1), (1.0, 1), (NAMED_SECONDS, 2)):
        now += seconds
        made_up.samples = [sample(StackOf.RUNNING, 5, SAMPLE_NS)]
        one.look()
        assert made_up.asked == asked
    one.forget(PID)
    made_up.samples = [sample(StackOf.RUNNING, 5, SAMPLE_NS)]
    one.look()
    assert made_up.asked == 3


def test_native_code_at_another_instruction_asks_for_no_lines() -> None:
    made_up = MadeUp()
    one = reader(made_up)
    for address in range(16, 160, 16):
        made_up.samples = [
            sample(StackOf.RUNNING, 5, SAMPLE_NS)._replace(native_bytes=struct.pack("<Q", address))
        ]
        (stack,) = taken(one)
        assert [frame.line for frame in stack.python] == [5]
    assert made_up.asked == 1


def test_the_depth_of_each_sample_is_told() -> None:
    told: list[int] = []
    made_up = MadeUp([sample(StackOf.RUNNING, 5, SAMPLE_NS)] * 2)
    made_up.samples[1] = made_up.samples[1]._replace(python_bytes=b"")
    SampleReader(made_up, made_up, told.extend).look()
    assert told == [1, 0]


def test_a_kernel_without_clocks_is_reported() -> None:
    (gap,) = reader(MadeUp(failure="the kernel refused clocks of threads: Permission denied")).missing()
    assert gap.reason.endswith("Permission denied")
    assert reader(MadeUp()).missing() == ()


def test_stacks_without_frames_are_left_out() -> None:
    empty = sample(StackOf.RUNNING, 5, SAMPLE_NS)._replace(python_bytes=b"", native_bytes=b"")
    made_up = MadeUp([empty])
    made_up.native = lambda pid, stacks: {}  # type: ignore[method-assign]
    assert taken(reader(made_up)) == ()


def test_stacks_are_counts_of_their_row() -> None:
    (stack,) = taken(reader(MadeUp([sample(StackOf.RUNNING, 5, SAMPLE_NS)])))
    assert isinstance(stack, StackCount)
    assert stack.row == ("docker:aa", PID, "train", HOST_LAYER, GAP_NAME, False, "")
