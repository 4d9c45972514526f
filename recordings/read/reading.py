"""Windows out of a file, which may be a stranger's, damaged, or being written at this moment."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from stalltop.model.errors import StalltopError
from stalltop.model.merge.merging import merge
from stalltop.model.merge.packing import Peak
from stalltop.model.text.figures import moment
from stalltop.model.window import Missing, Window
from stalltop.recordings.file.opening import Opened, UnreadableFileError
from stalltop.recordings.read.decoding import Decoder
from stalltop.recordings.read.limits import LATEST
from stalltop.recordings.read.moments import Listing, WindowList

__all__ = [
    "Recorded",
    "RecordedHost",
    "UnreadableFileError",
    "WindowGoneError",
    "WindowList",
    "load",
    "open_file",
    "read_peak",
]

_AT_ONCE: Final = 64
"""Windows that are added up together."""
_MOST_WARNINGS: Final = 100


class WindowGoneError(StalltopError):
    """A window that was put together with others to a longer one, or dropped, since the file was listed."""


class RecordedHost(NamedTuple):
    """A host that windows of a file are of."""

    host_id: int
    name: str
    clock_offset_ns: int | None
    """Its clock minus that of the file's first host; None where it was not estimated."""
    clock_error_ns: int | None


class Recorded:
    """An open file of windows. Used by one thread at a time; ``close`` it, or use it with ``with``."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.path = opened.path
        self.warnings = opened.warnings
        """What could not be read, one line each."""
        self._decoder = Decoder(opened.connection)
        self._data_version = -1
        self.changed()
        self._moments: WindowList | None = None
        self._listing = Listing()
        self.about: Mapping[str, str] = dict(self._all("SELECT name, value FROM about"))
        """What the file says of itself."""

    @property
    def connection(self) -> sqlite3.Connection:
        """To ask the file other things: it reads only."""
        return self._opened.connection

    def __enter__(self) -> Recorded:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    @property
    def kind(self) -> Literal["window", "recording"]:
        """Whether it is one saved window."""
        return "window" if self.about.get("kind") == "window" and len(self.moments) == 1 else "recording"

    @property
    def hosts(self) -> tuple[RecordedHost, ...]:
        """All hosts, in the order of their numbers."""
        rows = self._all("SELECT host_id, clock_offset_ns, clock_error_ns FROM hosts ORDER BY host_id")
        with self._opened.reading("its hosts"):
            return tuple(
                RecordedHost(number, self._decoder.values("hosts", number)[0], offset, error)
                for number, offset, error in rows
            )

    @property
    def moments(self) -> WindowList:
        """All windows, oldest first, as they were when ``changed`` last said so."""
        if self._moments is None:
            with self._opened.reading("its list of windows"), self._snapshot():
                self._moments = self._listing.read(self.connection)
            if self._listing.anew:
                # What only they referred to may be gone as well, and its numbers may stand for others now.
                self._decoder = Decoder(self.connection)
        return self._moments

    def changed(self) -> bool:
        """Whether another program has written since this was asked last; ``moments`` is new then."""
        with self._opened.reading("it"):
            if self._opened.again():
                self._decoder = Decoder(self.connection)
                self._data_version = -1
            before, self._data_version = self._data_version, self._opened.pragma("data_version")
        if before == self._data_version:
            return False
        self._moments = None
        return True

    def window(self, window_id: int) -> Window:
        """The window of that number. Raises UnreadableFileError where it cannot be read, and
        WindowGoneError without one."""
        try:
            with self._opened.reading(lambda: self._named(window_id)), self._snapshot():
                return self._decoder.window(int(window_id))
        except KeyError:
            raise WindowGoneError(f"window {window_id} is no longer in {self.path}") from None

    def check(self, window_id: int) -> None:
        """Compare that window with its checksum, which is quicker than to read it. Raises as ``window``."""
        try:
            with self._opened.reading(lambda: self._named(window_id)), self._snapshot():
                self._decoder.check(int(window_id))
        except KeyError:
            raise WindowGoneError(f"window {window_id} is no longer in {self.path}") from None

    def check_shared(self) -> None:
        """Compare what windows share with its checksums. Raises UnreadableFileError."""
        with self._opened.reading("what its windows share"), self._snapshot():
            self._decoder.check_shared()

    def windows(
        self, start: float = -np.inf, end: float = np.inf, host: str | None = None
    ) -> Iterator[Window]:
        """Windows that overlap ``start`` to ``end`` (Unix time in seconds), of one host or of all, oldest
        first. What cannot be read is left out, with a line in ``warnings``.

        All are of one moment of the file: until the last one was taken, a recorder cannot make it smaller.
        """
        with self._snapshot():
            self._moments = None  # as they are in this snapshot
            for window_id in self._chosen(start, end, host):
                try:
                    yield self.window(window_id)
                except UnreadableFileError as damaged:
                    self._warn(damaged.reason)

    def _chosen(self, start: float, end: float, host: str | None) -> list[int]:
        moments = self.moments
        chosen = (moments.start < end) & (moments.end > start)
        if host is not None:
            numbers = [known.host_id for known in self.hosts if known.name == host]
            chosen &= np.isin(moments.host_id, numbers)
        found: list[int] = moments.window_id[chosen].tolist()
        return found

    def between(self, start: float, end: float, host: str | None = None) -> list[Window]:
        """``windows`` as a list."""
        return list(self.windows(start, end, host))

    def whole(
        self, start: float = -np.inf, end: float = np.inf, each: Callable[[Window], object] = bool
    ) -> Window:
        """All windows that overlap ``start`` to ``end`` (Unix time in seconds) added up; ``each`` gets every
        one of them on the way. What could not be read is named in its coverage. Raises UnreadableFileError
        where nothing can be read."""
        found: list[Window] = []
        for window in self.windows(start, end):
            each(window)
            found.append(window)
            if len(found) == _AT_ONCE:
                found = [merge(found)]
        if not found:
            raise UnreadableFileError(
                f"{self.path}: {self.warnings[0]}" if self.warnings else f"{self.path} has no windows"
            )
        window = merge(found)
        said = f"{self.path} is damaged: "
        gaps = tuple(Missing(str(self.path), warning.removeprefix(said)) for warning in self.warnings)
        coverage = window.coverage
        return (
            replace(window, coverage=replace(coverage, missing=gaps + coverage.missing)) if gaps else window
        )

    def _named(self, window_id: int) -> str:
        """A window as people call it."""
        moments = self.moments
        for at in np.flatnonzero(moments.window_id == window_id):
            if 0 <= moments.start[at] <= LATEST:
                return f"the window of {moment(moments.start[at])} ({moments.seconds[at]:g} s)"
        return f"window {window_id}"

    def _all(self, query: str) -> list[tuple[Any, ...]]:
        with self._opened.reading("it"):
            return self.connection.execute(query).fetchall()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """All that is read until the end is of the file as it is now: a recorder that puts windows together
        takes none of them away meanwhile. Its log grows as long, so this is for minutes, not for days.

        Raises StalltopError at the end where a closed file was taken up again meanwhile: what was read may
        be of two states of it."""
        with self._snapshot():
            with self._opened.reading("it"):
                self._opened.pragma("schema_version")  # from the first look on it is held
            self._moments = None
            yield
            self._opened.expect_unchanged()

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[None]:
        """All reads see the file at one moment, whatever a recorder does meanwhile."""
        if self.connection.in_transaction:
            yield
            return
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            with contextlib.suppress(sqlite3.ProgrammingError):  # it may be closed meanwhile
                self.connection.rollback()

    def _warn(self, line: str) -> None:
        if line not in self.warnings and len(self.warnings) < _MOST_WARNINGS:
            self.warnings.append(line)


def load(path: Path) -> Window:
    """The window saved in ``path``, or all windows of a recording added up.

    Raises UsageError, with the reason, where that is no such file.
    """
    with open_file(path) as recorded:
        return recorded.whole()


def open_file(path: Path) -> Recorded:
    """Open a saved window or a recording to read. It is never changed.

    Raises UsageError, with the reason, where that is no such file.
    """
    opened = Opened(path)
    try:
        return Recorded(opened)
    except BaseException:
        opened.connection.close()
        raise


def read_peak(connection: sqlite3.Connection, window_id: int) -> Peak:
    """How bad it was: see ``Decoder.peak``."""
    return Decoder(connection).peak(window_id)
