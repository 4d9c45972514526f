"""Tests that each CPU gets a clock, also later, and that what is short for a while ends nothing."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import time
from typing import cast

import pytest

from stalltop.probes.programs import cpu_clocks
from stalltop.probes.programs.cpu_clocks import AGAIN_SECONDS, RENEW_SECONDS, CpuClocks
from stalltop.probes.programs.later import LaterProgram


class ManyCpus:
    """A host whose clocks are files; ``refuses`` has the error of each CPU that cannot have one."""

    def __init__(self) -> None:
        self.online, self.now = [0, 1, 2], 0.0
        self.refuses: dict[int, int] = {}
        self.open: dict[int, int] = {}
        self._numbers = itertools.count()

    def load(self) -> int:
        return 0

    def begin(self, program: int, cpu: int, period_ns: int) -> int:
        if cpu in self.refuses:
            raise OSError(self.refuses[cpu], os.strerror(self.refuses[cpu]))
        with open(os.devnull, "rb") as file:  # a number that no descriptor had before
            self.open[cpu] = fcntl.fcntl(file, fcntl.F_DUPFD, 500 + next(self._numbers))
        return self.open[cpu]

    def ticking(self) -> set[int]:
        """Returns the CPUs with a clock."""
        found = set()
        for cpu, fd in self.open.items():
            try:
                os.fstat(fd)
                found.add(cpu)
            except OSError:
                pass
        return found


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> ManyCpus:
    made = ManyCpus()
    monkeypatch.setattr(cpu_clocks, "online_cpus", lambda: made.online)
    monkeypatch.setattr(cpu_clocks, "open_clock_event", made.begin)
    monkeypatch.setattr(time, "monotonic", lambda: made.now)
    return made


def test_cpus_that_come_online_get_a_clock(host: ManyCpus) -> None:
    clocks = CpuClocks(cast(LaterProgram, host))
    clocks.run()
    assert host.ticking() == {0, 1, 2}
    host.online = [0, 2, 3]
    host.now += RENEW_SECONDS
    clocks.run()
    assert host.ticking() == {0, 2, 3}
    clocks.stop()
    assert host.ticking() == set()
    clocks.run()
    assert host.ticking() == {0, 2, 3}
    clocks.stop()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM])
def test_what_is_short_is_tried_again(host: ManyCpus, code: int) -> None:
    clocks = CpuClocks(cast(LaterProgram, host))
    host.refuses = {2: code}
    clocks.run()
    assert host.ticking() == {0, 1}
    first = dict(host.open)
    host.refuses = {}
    clocks.run()
    assert host.ticking() == {0, 1}, "not at once"
    host.now += AGAIN_SECONDS
    clocks.run()
    assert host.ticking() == {0, 1, 2}
    assert {cpu: host.open[cpu] for cpu in first} == first, "those that ran go on"
    assert clocks.failure == ""
    clocks.stop()


def test_a_refusal_is_told_and_ends_all(host: ManyCpus) -> None:
    clocks = CpuClocks(cast(LaterProgram, host))
    host.refuses = {1: errno.ENODEV, 2: errno.EACCES}
    clocks.run()
    assert host.ticking() == set()
    assert clocks.failure == "the kernel refused clocks of CPUs: Permission denied"
