"""What a program that is not ready yet is doing, for whoever waits for it."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """Something that takes a while."""

    text: str
    began: float
    """time.monotonic()."""
    usual_seconds: float = 0.0
    """How long it usually takes; 0 for not known."""


class Progress:
    """The step that is under way. Set by one thread, read by others."""

    def __init__(self) -> None:
        self.step: Step | None = None
        """None before the first."""

    def begin(self, text: str, usual_seconds: float = 0.0) -> None:
        """From now on it is this."""
        self.step = Step(text, time.monotonic(), usual_seconds)
