"""Runs a BPF program 49 times a second on each CPU that is not idle, while any thread is to be sampled.

The events belong to CPUs, not to threads: while any thread of a host has a perf event, the Linux kernel looks
for events at every switch between threads, which makes each switch dearer. An idle CPU wakes up for the
timer.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Final

from stalltop.probes.programs.bpf_calls import BpfError, open_clock_event
from stalltop.probes.programs.later import LaterProgram
from stalltop.probes.programs.online_cpus import online_cpus
from stalltop.probes.stacks.layout import SAMPLE_NS

LOOK_SECONDS: Final = 60.0
"""How soon a CPU that has come online gets a clock, s."""


class CpuClocks:
    """The clocks of the CPUs. Used from one thread at a time."""

    def __init__(self, program: LaterProgram) -> None:
        self._program = program
        self._events: dict[int, int] = {}
        """Descriptors by number of the CPU."""
        self._due = 0.0
        """When it is looked for other CPUs, by the monotonic clock."""
        self.failure = ""
        """Why CPUs have no clocks; '' if they have."""

    def run(self) -> None:
        """Begins the clocks that do not run. To be called again and again."""
        now = time.monotonic()
        if self.failure or (self._events and now < self._due):
            return
        self._due = now + LOOK_SECONDS
        try:
            online = set(online_cpus())
            for gone in self._events.keys() - online:
                os.close(self._events.pop(gone))
            for cpu in online - self._events.keys():
                self._begin(cpu)
        except BpfError as error:
            self.failure = f"the kernel refused {error.what}: {error.strerror}"
        except OSError as error:
            self.failure = f"the kernel refused clocks of CPUs: {error.strerror}"

    def stop(self) -> None:
        """Ends all clocks. May be called twice."""
        while self._events:
            os.close(self._events.popitem()[1])

    def _begin(self, cpu: int) -> None:
        program = self._program.load()
        try:
            self._events[cpu] = open_clock_event(program, cpu, SAMPLE_NS)
        except OSError as error:
            # The CPU has gone offline, or descriptors are short at present.
            if error.errno not in (errno.ENODEV, errno.EMFILE, errno.ENFILE):
                raise
