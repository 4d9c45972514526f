"""Tests reading interrupts from fake files of /proc. The host has two CPUs; CPU 1 gets the packets."""

from __future__ import annotations

from pathlib import Path

import pytest

from stalltop.model.thread_evidence import CpuInterrupts
from stalltop.probes.host.interrupts import InterruptReader

MS = 1_000_000
STAT = """\
cpu  {user} 0 2000 4000 40 0 300 0 0 0
cpu0 1000 0 1000 2000 20 0 50 0 0 0
cpu1 {user} 0 1000 {idle} 20 {irq} {softirq} 5 0 0
intr 792939 0 0
ctxt 1
"""
SOFTIRQS = """\
                    CPU0       CPU1
          HI:          0          0
       TIMER:      90000     {timer}
      NET_TX:          4          0
      NET_RX:      30320     {net}
       BLOCK:          0     105366
       SCHED:      10000      20000
"""
INTERRUPTS = """\
           CPU0       CPU1
 36:          0     105369 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 41:       2773     {rx} PCI-MSIX-0000:00:04.0   1-edge      virtio3-rx
 43:          1          0
NMI:          0          0   Non-maskable interrupts
LOC:     214908     {timer}   Local timer interrupts
ERR:          0
"""


class Proc:
    """Writes files of /proc; the test increases the counters of CPU 1."""

    def __init__(self, root: Path) -> None:
        self._root = root / "proc"
        self._root.mkdir()
        self._now = {"user": 1000, "idle": 2000, "irq": 0, "softirq": 250, "timer": 1, "net": 1, "rx": 1}
        self.moves()

    def moves(self, **more: int) -> None:
        """Adds ``more`` to the counters of CPU 1; times are in ticks of 10 ms."""
        for name, count in more.items():
            self._now[name] += count
        for file, text in (("stat", STAT), ("softirqs", SOFTIRQS), ("interrupts", INTERRUPTS)):
            (self._root / file).write_text(text.format(**self._now))


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_a_cpu_without_many_interrupts_is_not_reported(proc: Proc, tmp_path: Path) -> None:
    reader = InterruptReader(tmp_path)
    proc.moves(user=96, softirq=4, net=100_000)
    assert reader.look() == ()


def test_times_are_known_from_the_first_sample_on_and_kinds_from_the_second(
    proc: Proc, tmp_path: Path
) -> None:
    reader = InterruptReader(tmp_path)
    proc.moves(user=30, idle=20, irq=10, softirq=40, net=5_000)
    first = {one.cpu: one for one in reader.look()}
    assert first == {
        0: CpuInterrupts(0, 0, 0, 0, ()),
        1: CpuInterrupts(1, 1_000 * MS, 200 * MS, 500 * MS, ()),
    }
    proc.moves(user=50, softirq=50, timer=90_000, net=7_000, rx=8_000)
    second = {one.cpu: one for one in reader.look()}
    # Timers are left out, as every CPU has them all the time; BLOCK and IRQ 36 did not rise.
    assert second[1].kinds == (("IRQ 41 (virtio3-rx)", 8_000), ("NET_RX", 7_000))
    assert second[0].kinds == ()


def test_kinds_are_unknown_if_the_previous_sample_is_of_a_quiet_time(proc: Proc, tmp_path: Path) -> None:
    reader = InterruptReader(tmp_path)
    proc.moves(softirq=50, user=50)
    reader.look()
    proc.moves(user=100, net=1_000)
    assert reader.look() == ()
    proc.moves(softirq=50, user=50, net=10)
    assert {one.cpu: one.kinds for one in reader.look()}[1] == ()


def test_a_host_without_these_files_has_no_interrupts(tmp_path: Path) -> None:
    assert InterruptReader(tmp_path).look() == ()


def test_a_cpu_that_comes_or_goes_is_left_out(proc: Proc, tmp_path: Path) -> None:
    reader = InterruptReader(tmp_path)
    proc.moves(softirq=50, user=50)
    stat = tmp_path / "proc/stat"
    stat.write_text(stat.read_text() + "cpu2 500 0 0 0 0 0 500 0 0 0\n")
    assert {one.cpu for one in reader.look()} == {0, 1}
