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
"""How soon that is tried again if descriptors or memory are short, s."""
_SHORT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)


class CpuClocks:
    """The clocks of the CPUs. Used from one thread at a time."""

    def __init__(self, program: LaterProgram) -> None:
        self._program = program
        self._events: dict[int, int] = {}
        """Descriptors by number of the CPU."""
        self._due = self._renewal = 0.0
        """When to look again, and when to begin all clocks anew, by the monotonic clock."""
        self.failure = ""
        """Why CPUs have no clocks; '' if they have."""

    def run(self) -> None:
        """Begins the clocks that do not run. Call this often: more CPUs may come online."""
        now = time.monotonic()
        if self.failure or now < self._due:
            return
        try:
            if now >= self._renewal:  # a CPU that was offline in between has none
                self.stop()
                self._renewal = now + RENEW_SECONDS
            for cpu in online_cpus():
                if cpu not in self._events:
                    self._begin(cpu)
            self._due = self._renewal
        except OSError as error:
            refused = isinstance(error, BpfError)  # the program is not loaded again
            if error.errno in _SHORT and not refused:
                self._due = now + AGAIN_SECONDS
                return
            self.stop()
            what = error.what if isinstance(error, BpfError) else "clocks of CPUs"
            self.failure = f"the kernel refused {what}: {error.strerror}"

    def stop(self) -> None:
        """Ends all clocks. May be called twice."""
        self._due = self._renewal = 0.0
        while self._events:
            os.close(self._events.popitem()[1])

    def _begin(self, cpu: int) -> None:
        program = self._program.load()
        try:
            self._events[cpu] = open_clock_event(program, cpu, SAMPLE_NS)
        except OSError as error:
            if error.errno != errno.ENODEV:  # the CPU has gone offline
                raise
