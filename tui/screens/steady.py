"""Keeps the height of a panel while its content changes."""

from __future__ import annotations

from collections import deque

LOOKS = 10
"""Number of windows, the latest ones, in which a panel's need for lines counts: it gets the largest number
that it needed in any of them, so that borders seldom move."""


class Steady:
    """Holds the largest number of lines that a panel needed in the latest windows. So a panel grows at once,
    and shrinks only after it was smaller for some time."""

    def __init__(self, looks: int = LOOKS) -> None:
        self._seen: deque[tuple[object, int]] = deque(maxlen=looks)

    def forget(self) -> None:
        """Forget what was needed, because the panel now shows something else."""
        self._seen.clear()

    def need(self, lines: int, at: object) -> int:
        """Return the number of lines to give to a panel that needs ``lines`` now. ``at`` identifies the
        window."""
        if self._seen and self._seen[-1][0] == at:
            lines = max(lines, self._seen.pop()[1])
        self._seen.append((at, lines))
        return max(needed for _, needed in self._seen)
