"""What a program that is not ready yet is doing, for whoever waits for it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """Something that takes a while."""

    text: str
    began: float
    """time.monotonic()."""
    usual_seconds: float = 0.0
    """How long it usually takes; 0 for not known."""


class Progress:
    """The step that is under way. Set by one thread, read by others."""

    def __init__(self) -> None:
        self.step: ProgressStep | None = None
        """None before the first."""
        self._told = threading.Event()

    def begin(self, text: str, usual_seconds: float = 0.0) -> None:
        """From now on it is this."""
        self.step = ProgressStep(text, time.monotonic(), usual_seconds)
        self._told.set()

    def end(self) -> None:
        """There are no more steps."""
        self._told.set()

    def wait(self, timeout: float) -> None:
        """Wait until there is a first step, or will be none; no longer than ``timeout`` seconds."""
        self._told.wait(timeout)
