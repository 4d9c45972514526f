"""A source of windows that can be recorded while they are read."""

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
"""Longest time, in seconds, for which a new recording waits until the previous recording is written."""
LEAST_SECONDS = 0.75
"""Shortest length of a recorded window, in seconds. If a screen reads shorter windows, they are merged until
they have this length, and then recorded."""


class RecordedSource:
    """Returns the windows of ``source``, and also gives them to a recorder. Recording never delays
    reading."""

    def __init__(self, source: Source, path: Path | None = None, bounds: Bounds | None = None) -> None:
        """``path`` is the file for the recording. By default it is the file of this host in the state
        directory. ``bounds`` are the limits of the recording."""
        self._source = source
        self._path = path
        self._bounds = bounds
        self._recorder: Recorder | None = None
        self._ending: list[Recorder] = []
        self._parts: list[Window] = []
        """Windows that wait to be merged and recorded, until their total length is ``LEAST_SECONDS``."""
        self._host: str | None = None
        """Host of the windows that were read; None before the first window is read."""
        self._beginning = False
        self._lock = threading.Lock()
        self._news: list[str] = []

    def read(self) -> Window:
        """Return the next window of the source. If a recording is running, also queue the window for
        recording."""
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
        """Close the source. This does not end the recording; ``finish`` does."""
        self._source.close()

    @property
    def state(self) -> RecorderState | None:
        """State of the recorder; None if nothing is recorded."""
        recorder = self._recorder
        return None if recorder is None else recorder.state

    def news(self) -> list[str]:
        """Return the messages that are new since the last call, one line each."""
        with self._lock:
            news, self._news = self._news, []
        return news

    def begin_beside(self) -> None:
        """Begin a recording in another thread, so that the caller does not wait for the disk. ``news``
        reports whether it succeeded."""

        def work() -> None:
            try:
                self.tell(f"recording to {self.begin()}")
            except StalltopError as told:
                self.tell(f"not recording: {' '.join(str(told).split())}")
            except Exception as error:  # Without this, a traceback would be printed over the screen.
                self.tell(f"not recording: {described(error)}")
            finally:
                self._beginning = False

        if not self._beginning:
            self._beginning = True
            threading.Thread(target=work, name="stalltop-record", daemon=True).start()

    def begin(self) -> Path:
        """Begin recording, and return the path. Raises StalltopError if that fails."""
        from stalltop.files.places import recording_path
        from stalltop.recordings.write.recorder import Recorder

        for before in self._ending:  # The previous recorder may still hold the lock of the file.
            before.close(CLOSE_SECONDS)
        path = self._path or recording_path()
        recorder = Recorder(path, self._bounds, tell=self.tell)
        recorder.open(self._host)
        recorder.start()
        self._parts = []
        self._recorder = recorder
        return path

    def end(self) -> RecorderState | None:
        """End the recording. Return the present state of the recorder; None if nothing is recorded. The
        windows that wait are then written, and the file is closed, in other threads."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return None
        self._ending.append(recorder)
        threading.Thread(target=recorder.close, args=(0.0,), daemon=True).start()
        return recorder.state

    def finish(self, timeout: float) -> list[str]:
        """End all recordings. Wait up to ``timeout`` seconds for each of them to be written. Return messages
        about them."""
        self.end()
        lines = self.news()
        ending, self._ending = self._ending, []
        for recorder in ending:
            written = recorder.close(timeout)
            lines.append(
                recorder.summary if written else f"{recorder.summary}; the disk was too slow for the rest"
            )
        return lines

    def tell(self, line: str) -> None:
        """Add a message to ``news``. Any thread may call it."""
        with self._lock:
            self._news.append(line)
