"""Runs a BPF program 49 times a second on each CPU, unless it is idle, while any thread is to be sampled.

The events belong to CPUs, not to threads: while any thread of a host has a perf event, the Linux kernel looks
for events at every switch between threads, which makes each switch dearer. The timer also wakes idle CPUs;
the program does not run there.
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

RENEW_SECONDS: Final = 60.0
"""How soon a CPU that has come online gets a clock, s."""
AGAIN_SECONDS: Final = 1.0
"""How soon that is tried again if descriptors are short, s."""


class CpuClocks:
    """The clocks of the CPUs. Used from one thread at a time."""

    def __init__(self, program: LaterProgram) -> None:
        self._program = program
        self._events: dict[int, int] = {}
        """Descriptors by number of the CPU."""
        self._due = 0.0
        """When clocks are begun anew, by the monotonic clock."""
        self.failure = ""
        """Why CPUs have no clocks; '' if they have."""

    def run(self) -> None:
        """Begins the clocks that do not run. To be called again and again."""
        now = time.monotonic()
        if self.failure or (self._events and now < self._due):
            return
        self._due = now + RENEW_SECONDS
        try:
            self.stop()  # a CPU that was offline in between has none
            for cpu in online_cpus():
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
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._due = time.monotonic() + AGAIN_SECONDS
            elif error.errno != errno.ENODEV:  # the CPU has gone offline
                raise
