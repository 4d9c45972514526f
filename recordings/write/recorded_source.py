"""A source of windows that can also be recorded."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from stalltop.model.errors import StalltopError, described
from stalltop.model.merge.merging import merge
from stalltop.model.source import Source
from stalltop.model.window import Window

if TYPE_CHECKING:
    from stalltop.recordings.write.bounds import Bounds
    from stalltop.recordings.write.recorder import Recorder, RecorderState


CLOSE_SECONDS = 5.0
"""Seconds that a new recording waits at most until the previous recording is written."""
LEAST_SECONDS = 0.75
"""Least length of a recorded window, in seconds. A screen may read shorter windows, which are merged up to
this length before they are recorded."""


class RecordedSource:
    """Returns the windows of ``source``, and passes them to a recorder. Recording never delays reading."""

    def __init__(self, source: Source, path: Path | None = None, bounds: Bounds | None = None) -> None:
        """``path`` is the file to record to, by default the file of this host in the state directory.
        ``bounds`` are the limits of the recording."""
        self._source = source
        self._path = path
        self._bounds = bounds
        self._recorder: Recorder | None = None
        self._ending: list[Recorder] = []
        self._parts: list[Window] = []
        """Windows that are merged until they reach ``LEAST_SECONDS``."""
        self._host: str | None = None
        """Host of the windows that were read; None before the first window."""
        self._beginning = False
        self._lock = threading.Lock()
        self._news: list[str] = []

    def read(self) -> Window:
        """Return the next window of the source, and queue it for recording if a recording is running."""
        window = self._source.read()
        self._host = window.host
        recorder = self._recorder
        if recorder is not None:
            self._parts.append(window)
            if sum(part.seconds for part in self._parts) >= LEAST_SECONDS:
                recorder.add(merge(self._parts))
                self._parts = []
        return window

    def close(self) -> None:
        """Close the source. ``finish`` ends the recording."""
        self._source.close()

    @property
    def state(self) -> RecorderState | None:
        """State of the recorder; None if nothing is recorded."""
        recorder = self._recorder
        return None if recorder is None else recorder.state

    def news(self) -> list[str]:
        """Return messages about the recording since the last call, one line each."""
        with self._lock:
            news, self._news = self._news, []
        return news

    def begin_beside(self) -> None:
        """Begin recording in another thread, without waiting for the disk. ``news`` reports the result."""

        def work() -> None:
            try:
                self._tell(f"recording to {self.begin()}")
            except StalltopError as told:
                self._tell(f"not recording: {' '.join(str(told).split())}")
            except Exception as error:  # a traceback would be printed over the screen
                self._tell(f"not recording: {described(error)}")
            finally:
                self._beginning = False

        if not self._beginning:
            self._beginning = True
            threading.Thread(target=work, name="stalltop-record", daemon=True).start()

    def begin(self) -> Path:
        """Begin recording, and return the path. Raises StalltopError if that fails."""
        from stalltop.files.places import recording_path
        from stalltop.recordings.write.recorder import Recorder

        for before in self._ending:  # the previous recorder may still hold the lock of the file
            before.close(CLOSE_SECONDS)
        path = self._path or recording_path()
        recorder = Recorder(path, self._bounds, tell=self._tell)
        recorder.open(self._host)
        recorder.start()
        self._parts = []
        self._recorder = recorder
        return path

    def end(self) -> RecorderState | None:
        """End recording, and return the last state of the recorder. Another thread closes the file."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return None
        self._ending.append(recorder)
        threading.Thread(target=recorder.close, args=(0.0,), daemon=True).start()
        return recorder.state

    def finish(self, timeout: float) -> list[str]:
        """End all recordings, and wait for the disk up to ``timeout`` seconds each. Returns messages about
        them."""
        self.end()
        lines = self.news()
        ending, self._ending = self._ending, []
        for recorder in ending:
            written = recorder.close(timeout)
            lines.append(
                recorder.summary if written else f"{recorder.summary}; the disk was too slow for the rest"
            )
        return lines

    def _tell(self, line: str) -> None:
        with self._lock:
            self._news.append(line)
