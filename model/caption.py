"""The caption of a demonstration: lines of text that the screen shows while the demonstration runs."""

from __future__ import annotations


class Caption:
    """Holds the lines that the screen shows now. One thread sets them, other threads read them."""

    def __init__(self) -> None:
        self.lines: tuple[str, ...] = ()
        """Current lines; empty before the first caption."""
