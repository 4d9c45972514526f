"""Progress of stalltop's start: the step that is under way, which the screen or stderr shows."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """One step of stalltop's start; a step may take seconds."""

    text: str
    began: float
    """Time at which the step began, by ``time.monotonic()``."""
    usual_seconds: float = 0.0
    """Usual duration in seconds; 0 if unknown."""


class Progress:
    """Holds the current step of the start. One thread sets the step, other threads read it."""

    def __init__(self) -> None:
        self.step: ProgressStep | None = None
        """Current step; None before the first."""
        self._told = threading.Event()

    def begin(self, text: str, usual_seconds: float = 0.0) -> None:
        """Sets the current step."""
        self.step = ProgressStep(text, time.monotonic(), usual_seconds)
        self._told.set()

    def end(self) -> None:
        """Lets all threads in ``wait`` return, because no more steps follow."""
        self._told.set()

    def wait(self, timeout: float) -> None:
        """Waits for the first step or for ``end``, at most ``timeout`` seconds."""
        self._told.wait(timeout)
