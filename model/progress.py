"""Progress of the start: the step that is under way, for the screen or stderr to show."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """One step of the start that may take seconds."""

    text: str
    began: float
    """Time of its start, by ``time.monotonic()``."""
    usual_seconds: float = 0.0
    """Usual duration in seconds; 0 if unknown."""


class Progress:
    """The current step. One thread sets it, others read it."""

    def __init__(self) -> None:
        self.step: ProgressStep | None = None
        """Current step; None before the first."""
        self._told = threading.Event()

    def begin(self, text: str, usual_seconds: float = 0.0) -> None:
        """Sets the current step."""
        self.step = ProgressStep(text, time.monotonic(), usual_seconds)
        self._told.set()

    def end(self) -> None:
        """Releases those who wait: no more steps follow."""
        self._told.set()

    def wait(self, timeout: float) -> None:
        """Waits for the first step or for ``end``, at most ``timeout`` seconds."""
        self._told.wait(timeout)
