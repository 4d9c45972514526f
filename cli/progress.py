"""Progress of long operations on stderr."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Final

_QUIET_SECONDS: Final = 0.5
"""Operations shorter than this show no progress."""
_EVERY_SECONDS: Final = (0.1, 5.0)
"""Minimum seconds between two messages: the first on a terminal, the second elsewhere."""


class ProgressLine:
    """Shows how many of ``what`` are done, such as ``window 5 of 90``; ``ended`` erases the line."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._terminal = sys.stderr.isatty()
        self._began = self._told = monotonic()
        self._shown = False

    def at(self, count: int, whole: int) -> None:
        """Reports that ``count`` of ``whole`` are done."""
        now = monotonic()
        pause = _EVERY_SECONDS[0 if self._terminal else 1]
        if now - self._began < _QUIET_SECONDS or now - self._told < pause:
            return
        self._told = now
        text = f"stalltop: {self._what} {count:,} of {whole:,}"
        if self._terminal:
            self._shown = True
            print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)  # noqa: T201
        else:
            print(text, file=sys.stderr)  # noqa: T201

    def ended(self) -> None:
        """Erases the line on a terminal."""
        if self._shown:
            self._shown = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)  # noqa: T201
