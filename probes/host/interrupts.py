"""Reads from /proc how much time each CPU spends in interrupts, and the kinds of these interrupts."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from stalltop.model.text.clean import clean
from stalltop.model.thread_evidence import CpuInterrupts

NOTICED: Final = 0.05
"""If a CPU spends at least this share of its time in interrupts, interrupts are reported for all CPUs."""
MOST_KINDS: Final = 4
"""Maximum number of kinds of interrupts that are reported for one CPU: the most frequent ones."""
OF_THE_TICK: Final = frozenset(("TIMER", "HRTIMER", "SCHED", "RCU"))
"""Softirqs of the scheduler's tick: frequent on every CPU, and short."""
_NS_PER_TICK: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

_Kinds = dict[int, Counter[str]]
"""By CPU and kind: the number of interrupts since the host's start."""


class _Times(NamedTuple):
    """Times of one CPU since the host's start, ns."""

    wall: int
    idle: int
    interrupts: int


class InterruptReader:
    """Samples the interrupts of all CPUs, once per window. Used from one thread.

    The kinds are read only while a CPU spends at least the share ``NOTICED`` in interrupts, because
    ``/proc/interrupts`` is long on large hosts. The count of a kind is the difference between two readings,
    so it is known only if the previous window had such a CPU, too.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = root / "proc"
        self._before = self._times()
        self._kinds_before: _Kinds | None = None

    def look(self) -> tuple[CpuInterrupts, ...]:
        """Returns one record for each CPU, for the time since the previous sample or since this object was
        created. Returns none if every CPU spends less than the share ``NOTICED`` in interrupts."""
        now = self._times()
        before, self._before = self._before, now
        risen = {
            cpu: _Times(*(max(b - a, 0) for a, b in zip(before[cpu], times, strict=True)))
            for cpu, times in now.items()
            if cpu in before
        }
        if not any(times.interrupts >= NOTICED * times.wall > 0 for times in risen.values()):
            self._kinds_before = None
            return ()
        kinds = self._kinds()
        kinds_before, self._kinds_before = self._kinds_before, kinds
        return tuple(
            CpuInterrupts(cpu, times.wall, times.idle, times.interrupts, _new(cpu, kinds, kinds_before))
            for cpu, times in risen.items()
        )

    def _times(self) -> Mapping[int, _Times]:
        """Returns the times of each CPU that is online (proc(5), /proc/stat)."""
        found = {}
        for line in self._lines("stat"):
            name, *columns = line.split()
            if name.startswith("cpu") and name[3:].isdecimal() and len(columns) >= 8:
                # user and nice include guest and guest_nice, the two columns that follow these.
                user, nice, system, idle, iowait, irq, softirq, steal = (
                    int(column) * _NS_PER_TICK for column in columns[:8]
                )
                wall = user + nice + system + idle + iowait + irq + softirq + steal
                found[int(name[3:])] = _Times(wall, idle + iowait, irq + softirq)
        return found

    def _kinds(self) -> _Kinds:
        kinds: _Kinds = {}
        for file in ("softirqs", "interrupts"):
            header, *lines = self._lines(file) or [""]
            cpus = [int(word[3:]) for word in header.split() if word[3:].isdecimal()]
            for line in lines:
                name, _, rest = line.partition(":")
                counts = rest.split(maxsplit=len(cpus))
                kind = _kind(file, name.strip(), "".join(counts[len(cpus) :]))
                if not kind or len(counts) < len(cpus):
                    continue
                for cpu, count in zip(cpus, counts, strict=False):
                    kinds.setdefault(cpu, Counter())[kind] += int(count)
        return kinds

    def _lines(self, name: str) -> list[str]:
        with suppress(OSError):
            return (self._proc / name).read_text(errors="replace").splitlines()
        return []


def _kind(file: str, name: str, about: str) -> str:
    """Returns the name of a kind of interrupts; '' if the kind is not reported. ``about`` has the interrupt
    controller and, as its last word, the devices."""
    if file == "softirqs":
        return "" if name in OF_THE_TICK else clean(name)
    # A line that does not begin with a number is about a timer or about interrupts between CPUs: there is no
    # device to name.
    if not name.isdecimal():
        return ""
    return clean(f"IRQ {name} ({about.split()[-1]})") if about.split() else f"IRQ {name}"


def _new(cpu: int, kinds: _Kinds, before: _Kinds | None) -> tuple[tuple[str, int], ...]:
    if before is None:
        return ()
    none = Counter[str]()
    risen = kinds.get(cpu, none) - before.get(cpu, none)
    return tuple(risen.most_common(MOST_KINDS))
