"""Tests the soak and the attacks: their clocks, schedules, figures and graph."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import cast
from xml.etree import ElementTree

import pytest

from bench.attack import attackers
from bench.attack.command import AttackOutcome, PidWatch, table
from bench.measuring.program import ROOT
from bench.soak.footprint import Footprint, bpf_objects, existing, footprint
from bench.soak.graph import drawing
from bench.soak.life import Schedule
from bench.soak.results import QUANTITIES, Soak, soak_of
from bench.soak.watch import Watch
from stalltop.probes.programs.bpf_calls import create_map
from stalltop.serving.host.tracer_link import TracerLink
from tests.windows.by_hand import Calls, key, window

SHIFTED = """
import os, signal, sys, time
from pathlib import Path
from bench.soak.recorder import ShiftedClocks
file = Path(sys.argv[1])
running = time.monotonic()
true = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)
file.write_text("100 0")
ShiftedClocks(file)
print(round(time.time() - true[0]), round(time.clock_gettime(time.CLOCK_BOOTTIME) - true[1]))
file.write_text("-500 300")
os.kill(os.getpid(), signal.SIGUSR1)
print(round(time.time_ns() / 1e9 - true[0]), round(time.clock_gettime(time.CLOCK_BOOTTIME) - true[1]))
print(round(time.monotonic() - running))
"""


def soak(last_mb: float = 101.0) -> Soak:
    """Returns a soak of ten minutes, in whose last fifth the recorder holds ``last_mb``."""
    footprints = [
        Footprint(at * 5.0, 100.0 if at < 96 else last_mb, 10.0, 3, 200 + at % 3, 11, 49, 12, 90, at * 0.1)
        for at in range(121)
    ]
    events = [(30.0, "suspend"), (60.0, "full disk"), (90.0, "suspend")]
    return Soak("machine", 10.0, footprints, events, [1.2, 1.6], 1_000, 2_000, 50_000, 50_000, {"no_slot": 3})


def test_the_recorder_alone_sees_set_clocks(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SHIFTED, str(tmp_path / "clock")]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["100 0", "-500 300", "0"]


def test_actions_run_in_order_and_repeat() -> None:
    schedule, done = Schedule(), list[str]()
    schedule.after(0.02, lambda: done.append("later"))
    schedule.after(0.0, lambda: done.append("first"))
    schedule.every(0.05, lambda: done.append("again"), first=0.03)
    schedule.run(time.monotonic() + 0.3)
    assert done[:3] == ["first", "later", "again"]
    assert done.count("again") > 2


def test_growth_is_that_from_the_settled_part_to_the_end() -> None:
    _, resident = QUANTITIES["resident memory, MB"]
    assert soak(100.0).growth(resident) == 1.0
    assert soak(110.0).growth(resident) == pytest.approx(1.1)
    assert soak().cpu_percent() == pytest.approx(2.0)
    assert soak_of(soak().plain()) == soak()


def test_the_table_names_what_was_missed_and_what_was_left() -> None:
    (made,) = soak(107.0).tables()
    text = made.text()
    assert "1.070" in text
    assert "calls made: 50,000, counted: 50,000, missed and counted as such: 3 (no_slot 3)" in text
    assert "FAULT" not in text
    assert "disturbances: 2 x suspend, 1 x full disk" in text
    assert "median 1.4 s, longest 1.6 s, of 2" in text


def test_the_graph_has_a_curve_for_each_quantity_and_a_mark_for_each_disturbance() -> None:
    root = ElementTree.fromstring(drawing(soak()))
    name = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{name}g")) == 4
    curves = [one.get("points", "").split() for one in root.iter(f"{name}polyline")]
    assert sum(len(points) == 121 for points in curves) == 7
    assert len([one for one in root.iter(f"{name}path") if one.get("class") == "event"]) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make BPF maps")
def test_a_footprint_counts_bpf_objects_and_knows_when_they_are_gone() -> None:
    before = bpf_objects(os.getpid())
    made = create_map("soak", 2, 4, 8, 16, 0)
    found, objects = footprint(os.getpid(), 1.0)
    new = objects - before
    assert len(new) == 1
    assert existing(new) == new
    assert found.maps == len([kind for kind, _ in objects if kind == "map"])
    os.close(made)
    assert existing(new) == set()
    assert found.resident_mb > 10
    assert found.descriptors > 3


def test_a_soak_has_faults_if_calls_are_missed_and_not_counted_or_memory_grows() -> None:
    found = soak(107.0)
    found.told, found.untold = 40, {"short-7": 4, "short-8": -1}
    found.losses = {"no_slot": 5}  # as many as were counted as missed
    assert found.faults() == []  # It was so short that memory still grows.
    found.untold["short-7"], found.left_behind, found.minutes = 6, 2, 60.0
    found.elsewhere = {"python3 of cgroup:77": 2}
    assert found.faults() == [
        "2 calls were missed and not counted (short-7 6, short-8 -1)",
        "calls of tenants that the run did not start (python3 of cgroup:77 2)",
        "2 BPF objects exist after the end",
        "not flat: resident memory, MB, 1.070",
    ]
    (made,) = found.tables()
    assert "FAULT: 2 calls were missed and not counted" in made.text()
    assert "made before their libraries were probed, which the coverage says: 40" in made.text()


def test_calls_are_compared_by_container() -> None:
    watch = Watch.__new__(Watch)
    watch.calls = Counter({f"docker:{'a' * 64}": 10, f"docker:{'b' * 64}": 5, f"docker:{'c' * 64}": 9})
    watch.told = {f"PID 7 of {'b' * 12} ended before /lib/libcudart.so.12 was probed"}
    made = {f"docker:{'a' * 64}": 10, f"docker:{'b' * 64}": 9, f"docker:{'c' * 64}": 8}
    assert watch.compared(made) == (4, {f"docker:{'c' * 64}": -1})
    more = {**made, f"docker:{'d' * 64}": 6}
    assert watch.compared(more) == (4, {f"docker:{'c' * 64}": -1, f"docker:{'d' * 64}": 6})


def test_the_calls_of_a_window_are_there_when_its_begin_is() -> None:
    class NoSource:
        ended = True

        def start(self, ended: object) -> None:
            pass

        def close(self) -> None:
            pass

    class EndWatch(PidWatch):
        def __setattr__(self, name: str, value: object) -> None:
            if name == "since" and value:
                seen.append((self.of_pid[7], self.calls["docker:a"]))
            super().__setattr__(name, value)

    seen: list[tuple[int, int]] = []
    watch = EndWatch(cast(TracerLink, NoSource()))
    watch._tenants = {"docker:a"}
    watch.add(window([Calls(key(tenant="docker:a", pid=7), [5, 6])]))
    watch.close()
    assert seen == [(2, 2)]


def test_an_attack_holds_only_if_every_call_was_counted() -> None:
    held = AttackOutcome("rows", "user", 100, 100, 0.1, 1.0, 120.0)
    assert held.held
    assert not AttackOutcome("rows", "user", 100, 99, 0.1, 1.0, 120.0).held
    fault = AttackOutcome("names", "container", 100, 100, 0.1, 1.0, 120.0, ["the tracer opened a FIFO"])
    assert not fault.held
    text = table([held, fault], 10.0, 2.0).text()
    assert "FAULT: the tracer opened a FIFO" in text
    assert "2 attacks of 10 s in 2 minutes" in text


def test_an_attack_that_is_made_again_adds_up_and_shows_the_worst() -> None:
    first = AttackOutcome("rows", "user", 100, 100, 0.1, 2.0, 120.0, [], "over quota")
    second = AttackOutcome("rows", "user", 50, 49, 0.4, 1.0, 130.0, ["a fault"])
    both = first.joined(second).joined(second)
    assert (both.times, both.made, both.counted, both.held) == (3, 200, 198, False)
    assert (both.new_seconds, both.longest_seconds, both.resident_mb) == (0.4, 2.0, 130.0)
    assert (both.faults, both.told) == (["a fault"], "over quota")


def test_attackers_need_nothing_but_the_standard_library(tmp_path: Path) -> None:
    program = tmp_path / "attackers.py"
    program.write_text(Path(attackers.__file__).read_text())
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import attackers; print(len(attackers.ATTACKS))"
    )
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    assert int(found.stdout) == len(attackers.ATTACKS) > 15
