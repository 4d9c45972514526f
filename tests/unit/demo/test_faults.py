"""Tests the times and captions of injected faults, and their injection into tenants."""

from __future__ import annotations

import itertools
import threading

import pytest

from stalltop.demo.caller import CallerError
from stalltop.demo.faults import FAMILIES, TITLES, InjectedFault, Timetable
from stalltop.demo.injecting import CaptionedSource, FaultInjector
from stalltop.demo.scenario import load_scenario, parse_scenario, scenario_names
from stalltop.demo.simulated.windows import SimulatedSource
from stalltop.model.caption import Caption
from stalltop.model.errors import UsageError

CPU = InjectedFault("cpu", 2.0, 4.0, "one", "there")
DISK = InjectedFault("disk", 6.0, 8.0, "two", "here")
TIMES = Timetable((CPU, DISK), 10.0)


def test_faults_repeat_after_each_period() -> None:
    assert [TIMES.at(age) for age in (0, 2, 3.9, 4, 7, 9, 12, 18)] == [
        *(None, CPU, CPU, None, DISK, None, CPU, None)
    ]
    assert [TIMES.next_change(age) for age in (0, 2, 4, 8, 9, 12)] == [2, 4, 6, 10, 10, 14]
    assert Timetable().at(3) is None
    assert not Timetable()


def test_captions_say_what_is_what_was_and_what_comes() -> None:
    assert TIMES.caption(3) == ("1/2 one", "Look: there")
    assert TIMES.caption(1)[0] == f"1/2 follows: {TITLES['cpu']}"
    soon, before = TIMES.caption(5)
    assert soon == f"2/2 follows: {TITLES['disk']}"
    assert TITLES["cpu"] in before
    assert TIMES.caption(9)[0].startswith("1/2 follows")
    assert Timetable((InjectedFault("cpu", 0, 1),)).caption(0) == ()


@pytest.mark.parametrize("name", scenario_names())
def test_captions_fit_into_80_columns(name: str) -> None:
    times = load_scenario(name).timetable
    for second in range(int(times.period)):
        lines = times.caption(second)
        assert len(lines) in (0, 2)
        assert all(len(line) <= 78 for line in lines)


def test_the_tour_has_all_families_and_begins_at_once() -> None:
    faults = load_scenario("tour").timetable.faults
    assert [fault.family for fault in faults] == list(FAMILIES)
    assert faults[0].begin <= 5
    assert all(fault.injected and fault.look and (fault.cycle or fault.gpu) for fault in faults)


@pytest.mark.parametrize(
    "fault",
    [
        'family = "cpu"\nbegin = 5\nend = 5',
        'family = "magic"\nbegin = 1\nend = 5',
        'family = "cpu"\nbegin = 1',
        'family = "cpu"\nbegin = 1\nend = 500',
        'family = "cpu"\nbegin = 1\nend = 5\ntenant = "a"\nprocess = "x"\ncycle = ["~1"]',
        'family = "cpu"\nbegin = 1\nend = 5\ntenant = "a"\nprocess = "p"\ncycle = ["; rm"]',
        'family = "cpu"\nbegin = 1\nend = 5\n[[fault]]\nfamily = "disk"\nbegin = 3\nend = 6',
    ],
)
def test_invalid_faults_are_rejected(fault: str) -> None:
    text = '[[tenant]]\nname = "a"\nruntime = "docker"\nprocess = [{ name = "p", cycle = ["~1"] }]\n'
    with pytest.raises(UsageError, match="scenario mine"):
        parse_scenario("mine", f"{text}[[fault]]\n{fault}\n")


class Noting:
    """Stands for the tenants, and records which faults begin and end."""

    def __init__(self, failing: str = "") -> None:
        self.noted: list[str] = []
        self.failing = failing
        self.done = threading.Event()

    def inject(self, fault: InjectedFault) -> None:
        if fault.family == self.failing:
            self.done.set()
            raise CallerError("ended with status 1")
        self.noted.append(f"+{fault.family}")

    def restore(self, fault: InjectedFault) -> None:
        self.noted.append(f"-{fault.family}")
        if fault.family == "disk":
            self.done.set()


# The clock of these tests advances by 10 ms with each reading, however slow the machine is.
TINY = Timetable(
    (InjectedFault("cpu", 0.02, 0.1, "one", "there"), InjectedFault("disk", 0.12, 0.2, "two", "here")), 60.0
)


def test_faults_are_injected_one_after_the_other() -> None:
    tenants, caption = Noting(), Caption()
    injector = FaultInjector(tenants, TINY, caption, itertools.count(0, 0.01).__next__)
    assert tenants.done.wait(30)
    injector.stop()
    injector.join(30)
    assert tenants.noted == ["+cpu", "-cpu", "+disk", "-disk"]


def test_a_process_that_fails_ends_the_tour_with_a_message() -> None:
    tenants, caption = Noting("cpu"), Caption()
    injector = FaultInjector(tenants, TINY, caption, itertools.count(0, 0.01).__next__)
    assert tenants.done.wait(30)
    injector.join(30)
    assert "ended with status 1" in caption.lines[1]


def test_simulated_windows_set_the_caption() -> None:
    caption = Caption()
    times = iter([100.0, 101.0, 103.0, 105.0])
    source = CaptionedSource(SimulatedSource(1, 1, 3, clock=lambda: next(times)), TIMES, caption)
    shown = []
    for _ in range(3):
        source.read()
        shown.append(caption.lines[0])
    source.close()
    assert shown == [TIMES.caption(1)[0], "1/2 one", TIMES.caption(5)[0]]
