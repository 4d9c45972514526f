"""Messages for the user of a screen: shown on it once there is one, and printed after it, not over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stalltop.cli.tracing import say

if TYPE_CHECKING:
    from stalltop.recordings.write.recorded_source import RecordedSource


class ScreenMessages:
    """Collects messages. Any thread may ``tell``."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._source: RecordedSource | None = None

    def tell(self, line: str) -> None:
        """Adds a message of one line."""
        self._lines.append(line)
        if self._source is not None:
            self._source.tell(line)

    def show_on(self, source: RecordedSource) -> None:
        """Shows messages on the screen that reads ``source``, from now on."""
        self._source = source

    def print(self) -> None:
        """Prints all messages on stderr, after the screen."""
        for line in self._lines:
            say(line)
