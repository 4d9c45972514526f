"""Writes windows that come from a fleet as a recording."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from stalltop.model.text.figures import moment
from stalltop.model.text.words import numbered
from stalltop.model.window import Window
from stalltop.recordings.write.bounds import Bounds
from stalltop.recordings.write.recording import Recording

_BOUNDS: Final = Bounds(1 << 40, 400 * 86_400.0)
"""Nothing is left out: the streams and recordings that windows come from have limits of their own."""


def write_recording(path: Path, windows: Iterable[Window]) -> str:
    """Writes ``windows``, at least one, oldest first, and returns a line about them. Raises StalltopError."""
    calls, start, end = 0, float("inf"), float("-inf")
    # The recording is complete before it has its name: a reader never sees a part of it.
    with tempfile.TemporaryDirectory(prefix=".stalltop-", dir=path.absolute().parent) as folder:
        unfinished = Path(folder) / "past.stalltop"
        recording = Recording(unfinished, _BOUNDS)
        try:
            for window in windows:
                calls += int(window.rows.calls.sum())
                start, end = min(start, window.start), max(end, window.end)
                recording.add(window)
        finally:
            recording.close()
        os.replace(unfinished, path)
    return f"{numbered(calls, 'call')} of {moment(start)} to {moment(end)}"
