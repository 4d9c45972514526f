"""Tests that a process counts as active on devices in the ticks in which it is inside a call."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stalltop.demo.cgroups import Cgroups, container_id, container_path
from stalltop.probes.layout import TICKS
from stalltop.probes.maps.activity import TICK_NS
from stalltop.probes.operations import Function
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.relays import Relay
from tests.kernel.traced_program import NATIVE, lost, points, wait_until

pytestmark = pytest.mark.beside

FUNCTIONS = (
    Function(1, "busy", 10, "driver", uses_device=True),
    Function(2, "idle", 20, "driver"),
)
MS = 1_000_000
SOON_NS = 200 * MS
"""Time from sending a schedule to its first call. If the program receives the schedule only after this time,
its calls get shorter."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("busy") / "busy"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-rdynamic"]
    subprocess.run(["gcc", *flags, "-o", made, NATIVE / "busy.c"], check=True, timeout=60)
    return made


@pytest.fixture(scope="module")
def side(program: Path) -> Iterator[KernelSide]:
    kernel = KernelSide(slots=256, threads=256, functions=FUNCTIONS)
    assert not kernel.attach(str(program), points(program, FUNCTIONS)).failed
    yield kernel
    kernel.close()


@pytest.fixture
def kernel(side: KernelSide) -> KernelSide:
    side.read()
    side.evidence.activities()
    side.losses()
    return side


@dataclass
class SeenTicks:
    """The activity that a kernel side has reported so far, in ticks of CLOCK_MONOTONIC."""

    kernel: KernelSide
    ticks: dict[int, set[int]] = field(default_factory=dict)
    cgroups: dict[int, set[int]] = field(default_factory=dict)
    end: int = 0
    late: int = 0
    """Number of ticks that the kernel side could not report because the test did not read it for seconds."""

    def look(self) -> None:
        told = self.kernel.evidence.activities()
        assert not self.end or told.first_tick == self.end
        self.end = told.end_tick
        self.late += told.late_ns // TICK_NS
        for active in told.active:
            assert active.ticks < 1 << (told.end_tick - told.first_tick)
            ticks = self.ticks.setdefault(active.tgid, set())
            ticks |= {told.first_tick + n for n in range(active.ticks.bit_length()) if active.ticks >> n & 1}
            self.cgroups.setdefault(active.tgid, set()).add(active.cgroup_id)

    def look_until(self, ns: int) -> None:
        """Call ``look`` until the activity up to ``ns`` is reported."""
        while self.end * TICK_NS <= ns:
            self.look()
            time.sleep(0.05)


def around(calls: list[int]) -> set[int]:
    """Return all ticks that the calls touch, by the caller's clock.

    The probes run between the caller's two clock readings of a call, so they cannot report any other tick.
    """
    pairs = zip(calls[::2], calls[1::2], strict=True)
    return {tick for begin, end in pairs for tick in range(begin // TICK_NS, end // TICK_NS + 1)}


def within(calls: list[int], slack_ns: int = 200 * MS) -> set[int]:
    """Return the ticks that calls certainly fill.

    Leaves out ``slack_ns`` at both ends of a call, since the caller may lose the CPU between reading its
    clock and the call.
    """
    pairs = zip(calls[::2], calls[1::2], strict=True)
    return {
        tick
        for begin, end in pairs
        for tick in range((begin + slack_ns) // TICK_NS + 1, (end - slack_ns) // TICK_NS)
    }


def spent(kernel: KernelSide) -> dict[int, tuple[int, int]]:
    """Return the number of calls that use the device and their time in ns, by process."""
    counts = kernel.read().take(lambda key: key.operation == 10)
    return {
        key.tgid: (calls, total)
        for key, calls, total in zip(
            counts.keys, counts.calls.tolist(), counts.total_ns.tolist(), strict=True
        )
    }


def schedule(*calls: tuple[int, int], name: str = "busy", start: int) -> str:
    return " ".join(f"{name} {start + begin * MS} {start + end * MS}" for begin, end in calls)


def every(period: int, begin: int, end: int, times: int = 5) -> list[tuple[int, int]]:
    return [(period * turn + begin, period * turn + end) for turn in range(times)]


CASES = {
    "in turns": (every(200, 0, 95), every(200, 100, 195)),
    "together": (every(200, 0, 100), every(200, 0, 100)),
    "half": (every(200, 0, 100), every(200, 50, 150)),
    "three, short calls and a long one": (every(20, 0, 1, 50), every(200, 0, 100), [(0, 1000)]),
}


@pytest.mark.parametrize("calls", CASES.values(), ids=CASES)
def test_active_ticks_are_those_of_the_calls(
    kernel: KernelSide, program: Path, calls: tuple[list[tuple[int, int]], ...]
) -> None:
    seen = SeenTicks(kernel)
    with contextlib.ExitStack() as stack:
        cgroups = stack.enter_context(contextlib.closing(Cgroups()))
        groups = [cgroups.make(container_path("docker", container_id())) for _ in calls]
        inodes = [group.stat().st_ino for group in groups]
        programs = [stack.enter_context(Relay(program, cgroup=group)) for group in groups]
        start = time.monotonic_ns() + SOON_NS
        for each, own in zip(programs, calls, strict=True):
            each.send(schedule(*own, start=start))
        seen.look_until(start + 1000 * MS)
        said = [each._answer() for each in programs]
        seen.look_until(max(max(moments) for moments in said))
    made = spent(kernel)
    for each, own, moments, inode in zip(programs, calls, said, inodes, strict=True):
        ticks = seen.ticks[each.pid]
        number, total_ns = made[each.pid]
        assert number == len(own)
        assert ticks <= around(moments)
        # The first and the last tick of a call may be filled only in part, so each call adds up to two ticks.
        assert total_ns // TICK_NS - seen.late <= len(ticks) <= total_ns // TICK_NS + 2 * number
        assert seen.cgroups[each.pid] == {inode}
        kernel.release(each.pid)
    assert not lost(kernel)


def test_a_long_open_call_is_active_in_every_sample(kernel: KernelSide, program: Path) -> None:
    seen = SeenTicks(kernel)
    start = time.monotonic_ns() + SOON_NS
    with Relay(program) as one, Relay(program) as other:
        one.send(schedule((0, 6000), start=start))  # longer than the BPF programs remember activity
        other.send(schedule((0, 6000), start=start, name="idle"))
        seen.look_until(start + 3000 * MS)
        meanwhile = len(seen.ticks.get(one.pid, ()))
        said = one._answer()
        other._answer()
        seen.look_until(said[1])
        number, total_ns = spent(kernel)[one.pid]
    ticks = seen.ticks[one.pid]
    assert number == 1
    assert ticks <= around(said)
    assert total_ns // TICK_NS - seen.late <= len(ticks) <= total_ns // TICK_NS + 2
    assert (meanwhile + seen.late) * TICK_NS >= start + 2500 * MS - said[0]
    assert other.pid not in seen.ticks
    assert not lost(kernel)


def test_ticks_that_were_not_read_in_time_are_reported_as_late(kernel: KernelSide, program: Path) -> None:
    with Relay(program) as one:
        before = kernel.evidence.activities()
        start = time.monotonic_ns()
        said = one(schedule(*every(1000, 0, 500, 6), start=start))
        told = kernel.evidence.activities()
    assert told.first_tick == before.end_tick
    late = told.late_ns // TICK_NS
    assert late >= (said[-1] - start) // TICK_NS - TICKS - 2
    found = {
        told.first_tick + n
        for active in told.active
        if active.tgid == one.pid
        for n in range(active.ticks.bit_length())
        if active.ticks >> n & 1
    }
    assert found <= around(said)
    rest = set(range(told.first_tick + late, told.end_tick))
    assert rest & within(said) <= found <= rest


def test_a_killed_process_is_active_until_its_end(kernel: KernelSide, program: Path) -> None:
    seen = SeenTicks(kernel)
    start = time.monotonic_ns()
    with Relay(program) as one:
        one.send(schedule((0, 600_000), start=start))
        wait_until(lambda: any(call.tgid == one.pid for call in kernel.open_calls()), "the call begun")
        seen.look_until(time.monotonic_ns() + 50 * MS)
        killed = time.monotonic_ns()
        one.end()
    gone = time.monotonic_ns()
    seen.look_until(gone + 50 * MS)
    ticks = set(seen.ticks[one.pid])
    assert killed // TICK_NS - 1 - seen.late <= max(ticks) <= gone // TICK_NS
    assert max(ticks) - min(ticks) + 1 <= len(ticks) + seen.late
    kernel.release(one.pid)
    seen.look()
    assert seen.ticks[one.pid] == ticks


def test_records_of_processes_without_a_row_are_freed(program: Path) -> None:
    kernel = KernelSide(slots=2, threads=64, functions=FUNCTIONS, splits=False)
    records = kernel._programs.activities
    try:
        assert not kernel.attach(str(program), points(program, FUNCTIONS)).failed
        pids = set()
        for _ in range(20):
            with Relay(program) as one:
                one(schedule((0, 0), start=time.monotonic_ns()))
                pids.add(one.pid)
        assert lost(kernel)["no_slot"] >= 18, "most processes got no slot"
        assert set(records["tgid"].tolist()) - {0} == pids
        assert kernel.evidence.tgids() == pids, "all are watched until they end"
        for pid in pids:
            kernel.release(pid)
        assert not records["tgid"].any()
    finally:
        kernel.close()
