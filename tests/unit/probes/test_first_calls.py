"""Tests which processes are said to have made calls before they were traced."""

from __future__ import annotations

from stalltop.model.tenant import Tenant
from stalltop.probes.first_calls import LEAST_SECONDS, MOST_TOLD, TOLD_SECONDS, FirstCalls
from stalltop.probes.libraries.unprobed import UnprobedProcess, UnprobedProcesses
from tests.manual_clock import ManualClock


def unprobed(pid: int, seconds: float = 2.0, *, ended: bool = False) -> UnprobedProcess:
    """Returns a process that was without probes for ``seconds``."""
    return UnprobedProcess(pid, 7, "/lib/libcudart.so.12", seconds, ended)


def first_calls(clock: ManualClock) -> FirstCalls:
    """Returns a memory in which every process belongs to the tenant web."""
    return FirstCalls(lambda _: Tenant("docker:1", "web", "container", "docker"), clock)


def test_a_process_is_told_for_a_minute_and_is_not_untraced() -> None:
    clock = ManualClock()
    told = first_calls(clock)
    assert told.add(UnprobedProcesses(2, (unprobed(12), unprobed(13, 0.0, ended=True)))) == 2
    first, second = told.missing()
    assert first.reason.startswith("PID 12 of web could make calls for 2.0 s before /lib/libcudart.so.12 was")
    assert second.reason == (
        "PID 13 of web ended before /lib/libcudart.so.12 was probed: its calls are not counted"
    )
    assert not first.untraced
    clock.now += TOLD_SECONDS
    assert told.add(UnprobedProcesses()) == 0
    assert told.missing() == ()


def test_short_times_are_only_counted() -> None:
    told = first_calls(ManualClock())
    assert told.add(UnprobedProcesses(1, (unprobed(12, LEAST_SECONDS / 2),))) == 1
    assert told.missing() == ()


def test_a_few_processes_are_named_and_the_others_counted() -> None:
    told = first_calls(ManualClock())
    several = tuple(unprobed(pid) for pid in range(1, MOST_TOLD + 4))
    assert told.add(UnprobedProcesses(300, several, unreported=True)) == 300
    *named, more, unreported = told.missing()
    assert [one.reason.split()[1] for one in named] == [str(one.pid) for one in several[-MOST_TOLD:]]
    assert more.reason.startswith("3 more processes")
    assert "reported only some" in unreported.reason
