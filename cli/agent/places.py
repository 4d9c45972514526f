"""Where the tools get windows from: this host now, or a file."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from stalltop.model.chain import Chain
from stalltop.model.errors import StalltopError
from stalltop.model.merge.merging import merge
from stalltop.model.source import Source
from stalltop.model.window import Window

KEPT: Final = 10
"""Number of windows of a second that an answer about now is about."""
_FIRST_SECONDS: Final = 60.0
"""Longest wait for the first window: loading the BPF programs takes some seconds, on a busy host many."""


class AgentPlace(Protocol):
    """A host, now or in a file."""

    recording: Path | None
    """File with the past; None if there is none."""

    def window(self) -> Window:
        """Returns what answers are about. Raises StalltopError if there is nothing."""

    def chains(self) -> tuple[Chain, ...]:
        """Returns the problems and facts of this window."""


class LivePlace:
    """This host: the last ``KEPT`` windows of a source that a thread reads."""

    def __init__(
        self,
        source: Source,
        read: Callable[[Source, Callable[[Window], object], threading.Event], object],
        recording: Path | None,
    ) -> None:
        """``read`` passes the windows of the source on, until the event is set."""
        self.recording = recording
        self._kept: deque[Window] = deque(maxlen=KEPT)
        self._first = threading.Event()
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._source = source
        self._read = read
        self._thread = threading.Thread(target=self._run, name="stalltop-mcp", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._read(self._source, self._take, self._ended)
        except Exception as error:
            self._error = error
            self._first.set()

    def _take(self, window: Window) -> None:
        self._kept.append(window)
        self._first.set()

    def window(self) -> Window:
        """Returns the sum of the last windows."""
        self._first.wait(_FIRST_SECONDS)
        if self._error is not None:
            raise StalltopError(f"this host can no longer be read: {self._error}") from self._error
        windows = list(self._kept)
        if not windows:
            raise StalltopError("there is no data yet", "ask again in some seconds")
        return merge(windows)

    def chains(self) -> tuple[Chain, ...]:
        """Returns the problems of the newest window."""
        self.window()
        return self._kept[-1].chains

    def close(self) -> None:
        """Ends the thread and the source."""
        self._ended.set()
        self._source.close()
        self._thread.join(5.0)


class WholeFilePlace:
    """A saved window, or the sum of a recording."""

    def __init__(self, path: Path, read: Callable[[Path], tuple[Window, tuple[Chain, ...]]]) -> None:
        """``read`` reads the whole file. Raises what it raises."""
        self.recording: Path | None = path
        self._window, self._chains = read(path)

    def window(self) -> Window:
        """Returns the sum of the file."""
        return self._window

    def chains(self) -> tuple[Chain, ...]:
        """Returns the problems, each as it was when it was worst."""
        return self._chains

    def close(self) -> None:
        """Does nothing: no file is open."""
