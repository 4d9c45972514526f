"""Runs a BPF program at the CPU time of threads: 49 times for each second in which a thread has a CPU.

An event belongs to one thread: it costs nothing while the thread sleeps, and nothing on CPUs that run others.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from typing import Final

from stalltop.probes.programs.bpf_calls import BpfError, open_clock_event
from stalltop.probes.programs.later import LaterProgram
from stalltop.probes.stacks.layout import SAMPLE_NS

MOST_CLOCKS: Final = 1024
"""Maximum number of threads with a clock: each needs a descriptor."""


class ThreadClocks:
    """The clocks of threads. Used from one thread at a time."""

    def __init__(self, program: LaterProgram) -> None:
        self._program = program
        self._events: dict[int, int] = {}
        """Descriptors by TID."""
        self.failure = ""
        """Why threads have no clocks; '' if they have."""

    def run(self, tids: Collection[int]) -> None:
        """Begins the clocks of ``tids`` that have none, and ends those of other threads."""
        for tid in self._events.keys() - tids:
            os.close(self._events.pop(tid))
        if self.failure:
            return
        try:
            for tid in tids:
                if tid not in self._events and len(self._events) < MOST_CLOCKS:
                    self._begin(tid)
        except BpfError as error:
            self.failure = f"the kernel refused {error.what}: {error.strerror}"
        except OSError as error:
            self.failure = f"the kernel refused clocks of threads: {error.strerror}"

    def close(self) -> None:
        """Ends all clocks. May be called twice."""
        self.run(())

    def _begin(self, tid: int) -> None:
        program = self._program.load()
        try:
            self._events[tid] = open_clock_event(program, tid, SAMPLE_NS)
        except OSError as error:
            # The thread has ended, or descriptors are short at present.
            if error.errno not in (errno.ESRCH, errno.EMFILE, errno.ENFILE):
                raise
