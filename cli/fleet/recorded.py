"""What a host's own recording knows, for the agent: windows that the fleet lacks, moments, and answers to
SQL."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from stalltop.model.window import Window
from stalltop.recordings.query.ask import answer
from stalltop.recordings.read.reading import open_file

MOST_WINDOWS: Final = 4000
"""Most windows of one gap that are sent: an hour."""
MOST_ROWS: Final = 10_000
QUERY_SECONDS: Final = 20.0


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

    def window(self, at: float, seconds: float) -> Window | None:
        """Returns the window of ``seconds`` that ends at the Unix time ``at``; None if there is none. Raises
        StalltopError."""
        if not self.path.exists():
            return None
        with open_file(self.path) as recorded:
            return recorded.whole(at - seconds, at)

    def query(self, sql: str) -> dict[str, Any]:
        """Returns the answer to ``sql``: its columns and its first rows. Raises StalltopError."""
        with open_file(self.path) as recorded:
            found = answer(recorded, sql, QUERY_SECONDS)
            rows = [list(map(_plain, row)) for row in islice(found.rows, MOST_ROWS + 1)]
        return {
            "columns": list(found.columns),
            "rows": rows[:MOST_ROWS],
            "more": len(rows) > MOST_ROWS,
            "warnings": list(found.warnings),
        }


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value
