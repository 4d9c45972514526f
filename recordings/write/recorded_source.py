"""A source whose windows are recorded, too, while somebody wants that."""

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
"""How long a recording that begins waits for one before it to be written."""
LEAST_SECONDS = 0.75
"""A screen may read more often; what is recorded are windows of about a second, none shorter than this."""


class RecordedSource:
    """Passes the windows of ``source`` on, and to a recorder beside it. Recording never holds reading up."""

    def __init__(self, source: Source, path: Path | None = None, bounds: Bounds | None = None) -> None:
        """``path`` and ``bounds`` are what is recorded to when nothing else is said; by default the file of
        this host in the state directory."""
        self._source = source
        self._path = path
        self._bounds = bounds
        self._recorder: Recorder | None = None
        self._ending: list[Recorder] = []
        self._parts: list[Window] = []
        """Windows that are shorter than what is recorded, and wait for more."""
        self._host: str | None = None
        """Whose windows were read."""
        self._beginning = False
        self._lock = threading.Lock()
        self._news: list[str] = []

    def read(self) -> Window:
        """The source's window."""
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
        """Close the source; what is recorded ends with ``finish``."""
        self._source.close()

    @property
    def state(self) -> RecorderState | None:
        """How recording goes; None where nothing is recorded."""
        recorder = self._recorder
        return None if recorder is None else recorder.state

    def news(self) -> list[str]:
        """What has happened to the recording since this was asked last, a line each."""
        with self._lock:
            news, self._news = self._news, []
        return news

    def begin_beside(self) -> None:
        """Record from now on; how that went is among the ``news``. Waits for no disk."""

        def work() -> None:
            try:
                self._tell(f"recording to {self.begin()}")
            except StalltopError as told:
                self._tell(f"not recording: {' '.join(str(told).split())}")
            except Exception as error:  # nothing is printed over the screen
                self._tell(f"not recording: {described(error)}")
            finally:
                self._beginning = False

        if not self._beginning:
            self._beginning = True
            threading.Thread(target=work, name="stalltop-record", daemon=True).start()

    def begin(self) -> Path:
        """Record from now on, and return where to. Raises StalltopError where that cannot be."""
        from stalltop.files.places import recording_path
        from stalltop.recordings.write.recorder import Recorder

        for before in self._ending:  # it may be the same file
            before.close(CLOSE_SECONDS)
        path = self._path or recording_path()
        recorder = Recorder(path, self._bounds, tell=self._tell)
        recorder.open(self._host)
        recorder.start()
        self._parts = []
        self._recorder = recorder
        return path

    def end(self) -> RecorderState | None:
        """Record no longer; the file is closed beside whoever calls this. Gives how far it came."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return None
        self._ending.append(recorder)
        threading.Thread(target=recorder.close, args=(0.0,), daemon=True).start()
        return recorder.state

    def finish(self, timeout: float) -> list[str]:
        """End everything, waiting for the disk for so many seconds; gives what is to be said about it."""
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
