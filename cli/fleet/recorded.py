"""What a host's own recording knows, for the agent: windows that the fleet lacks, moments, and answers to
SQL."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from stalltop.fleet.answers import PastWindow
from stalltop.model.errors import StalltopError
from stalltop.model.window import Window
from stalltop.recordings.query.ask import answer
from stalltop.recordings.read.reading import open_file

MOST_WINDOWS: Final = 4000
"""Most windows of one gap that are sent: an hour."""
MOST_ROWS: Final = 10_000


class HostRecording:
    """The recording at ``path``, which may be missing, and is written by another process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def past(self, start: float, end: float) -> Sequence[Window]:
        """Returns the windows between two Unix times, oldest first (``fleet.agent.Past``). Raises
        StalltopError."""
        if not self.path.exists():
            return ()
        with open_file(self.path) as recorded:
            return list(islice(recorded.windows(start, end), MOST_WINDOWS))

    def window(self, at: float, seconds: float) -> PastWindow | None:
        """Returns the sum of the windows that overlap the ``seconds`` before the Unix time ``at``; None if
        there are none. Raises StalltopError."""
        if not self.path.exists():
            return None
        parts: list[tuple[float, float]] = []

        def note(window: Window) -> None:
            parts.append((window.start, window.end))

        with open_file(self.path) as recorded:
            try:
                whole = recorded.whole(at - seconds, at, note)
            except StalltopError:
                if parts or recorded.warnings:
                    raise
                return None
        return PastWindow(whole, min(start for start, _ in parts), max(end for _, end in parts), len(parts))

    def query(self, sql: str, seconds: float) -> dict[str, Any]:
        """Returns the answer to ``sql``: its columns and its first rows. Raises StalltopError, also if it
        takes more than ``seconds``."""
        with open_file(self.path) as recorded:
            found = answer(recorded, sql, seconds)
            rows = [list(map(_plain, row)) for row in islice(found.rows, MOST_ROWS + 1)]
        return {
            "columns": list(found.columns),
            "rows": rows[:MOST_ROWS],
            "more": len(rows) > MOST_ROWS,
            "warnings": list(found.warnings),
        }


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value
