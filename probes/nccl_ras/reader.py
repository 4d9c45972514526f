"""Asks RAS about communicators that are older than the probes: seldom, and on threads of its own.

RAS gathers its answer from all processes of a job, which takes time on a large one. So each process is asked
a few times at most, and one process at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from stalltop.probes.maps.communicators import Adoption, OldRank
from stalltop.probes.nccl_ras.client import RasError, ask
from stalltop.probes.nccl_ras.matching import ProcessMatching
from stalltop.probes.nccl_ras.status import RasCommunicator, received_status

AGAIN_SECONDS: Final = 5.0
"""Time between two questions."""
MOST_QUESTIONS: Final = 12
"""Maximum number of questions about one process. After that, its communicators stay unknown."""

Counts = Callable[[], Mapping[OldRank, int]]
"""Returns how many collectives the ranks of old communicators have entered, as the probes count."""


class _AskedProcess:
    def __init__(self) -> None:
        self.matching = ProcessMatching()
        self.questions = 0
        self.asked = float("-inf")


class RasReader:
    """Learns from RAS about old communicators. Only one thread may use it."""

    def __init__(self, counts: Counts) -> None:
        """``counts`` is called in other threads, too."""
        self._counts = counts
        self.receive: Callable[[int], tuple[RasCommunicator, ...]] = received_status
        """Receives the answer to STATUS over a connection. May raise OSError and ValueError."""
        self._processes: dict[int, _AskedProcess] = {}
        self._thread: threading.Thread | None = None
        self._found: dict[OldRank, Adoption] = {}
        self._lock = threading.Lock()

    def look(self, now: float) -> dict[OldRank, Adoption]:
        """Returns what was learned since the last call; asks about the next process if it is time. ``now`` is
        ``time.monotonic()``."""
        with self._lock:
            found, self._found = self._found, {}
        if self._thread is not None and self._thread.is_alive():
            return found
        waiting = {old.tgid for old in self._counts()} - {old.tgid for old in found}
        self._processes = {tgid: self._processes.get(tgid, _AskedProcess()) for tgid in waiting}
        due = [
            tgid
            for tgid, process in self._processes.items()
            if process.questions < MOST_QUESTIONS and now - process.asked >= AGAIN_SECONDS
        ]
        if due:
            tgid = min(due, key=lambda one: self._processes[one].asked)
            process = self._processes[tgid]
            process.questions += 1
            process.asked = now
            # A thread of its own, because it stays in the network namespace of the process.
            self._thread = threading.Thread(
                target=self._learn, args=(tgid, process.matching), name="nccl-ras", daemon=True
            )
            self._thread.start()
        return found

    def wait(self, seconds: float) -> None:
        """Waits until the present question is answered, for at most ``seconds``."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _learn(self, tgid: int, matching: ProcessMatching) -> None:
        before = self._of(tgid)
        try:
            pid = pid_inside(tgid)
            answer = ask(tgid, receive=self.receive)
        except (RasError, OSError, ValueError):
            return  # without RAS, the communicators stay unknown, which windows say
        matching.take(answer, pid, before, self._of(tgid))
        with self._lock:
            self._found |= {OldRank(tgid, handle): known for handle, known in matching.certain().items()}

    def _of(self, tgid: int) -> dict[int, int]:
        return {old.handle: count for old, count in self._counts().items() if old.tgid == tgid}


def pid_inside(pid: int) -> int:
    """Returns the process id of ``pid`` in its own PID namespace. Raises OSError, and ValueError if the Linux
    kernel does not say it."""
    with open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith(b"NSpid:"):
                return int(line.split()[-1])
    raise ValueError("no NSpid")
