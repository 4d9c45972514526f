"""Reads windows from a file. The file may come from a stranger, may be damaged, and may be written by a
recorder at the same time."""

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
"""Number of windows that are collected before they are merged together."""
_MOST_WARNINGS: Final = 100


class WindowGoneError(StalltopError):
    """The file no longer has a window: since the list was read, the window was dropped, or merged with
    others."""


class RecordedHost(NamedTuple):
    """A host of which a file has windows."""

    host_id: int
    name: str
    clock_offset_ns: int | None
    """Clock of this host minus clock of the file's first host; None if the difference is not known."""
    clock_error_ns: int | None


class Recorded:
    """An open file of windows. Used by one thread at a time. ``close`` it, or use ``with``."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.path = opened.path
        self.warnings = opened.warnings
        """Warnings about parts that could not be read, one line each."""
        self._decoder = Decoder(opened.connection)
        self._data_version = -1
        self.changed()
        self._moments: WindowList | None = None
        self._listing = Listing()
        self.about: Mapping[str, str] = dict(self._all("SELECT name, value FROM about"))
        """Content of the table ``about``."""

    @property
    def connection(self) -> sqlite3.Connection:
        """The read-only connection to the file."""
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
        """``window`` for a saved window, otherwise ``recording``."""
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
        """The list of windows, oldest first. It is cached; after ``changed`` has returned True, and within
        ``windows`` and ``held``, the first use reads it again."""
        if self._moments is None:
            with self._opened.reading("its list of windows"), self._snapshot():
                self._moments = self._listing.read(self.connection)
            if self._listing.anew:
                # Windows were merged or dropped. Shared rows that only these windows used may have been
                # deleted, so the cache of shared rows is emptied.
                self._decoder = Decoder(self.connection)
        return self._moments

    def changed(self) -> bool:
        """Return whether another program has written to the file since the last call. If so, ``moments`` is
        read again."""
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
        """Return the window ``window_id``. Raises UnreadableFileError if it is damaged, and WindowGoneError
        if the file does not have it."""
        try:
            with self._opened.reading(lambda: self._named(window_id)), self._snapshot():
                return self._decoder.window(int(window_id))
        except KeyError:
            raise WindowGoneError(f"window {window_id} is no longer in {self.path}") from None

    def check(self, window_id: int) -> None:
        """Compare a window with its checksum, which is faster than reading it by ``window``. Raises the same
        errors as ``window``."""
        try:
            with self._opened.reading(lambda: self._named(window_id)), self._snapshot():
                self._decoder.check(int(window_id))
        except KeyError:
            raise WindowGoneError(f"window {window_id} is no longer in {self.path}") from None

    def check_shared(self) -> None:
        """Compare all shared rows with their checksums. Raises UnreadableFileError."""
        with self._opened.reading("the data that its windows share"), self._snapshot():
            self._decoder.check_shared()

    def windows(
        self, start: float = -np.inf, end: float = np.inf, host: str | None = None
    ) -> Iterator[Window]:
        """Yield the windows that overlap ``start`` to ``end`` (Unix seconds), of one host or of all, oldest
        first. Damaged windows are left out; a line in ``warnings`` says so.

        All windows are of the same state of the file. Until the last window is read, a recorder cannot
        truncate its log.
        """
        with self._snapshot():
            self._moments = None  # the list is read again, as part of this snapshot
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
        """Return the windows that ``windows`` yields, as a list."""
        return list(self.windows(start, end, host))

    def whole(
        self, start: float = -np.inf, end: float = np.inf, each: Callable[[Window], object] = bool
    ) -> Window:
        """Return the sum of all windows that overlap ``start`` to ``end`` (Unix seconds). Calls ``each`` with
        every window. The coverage of the result names damaged windows. Raises UnreadableFileError if no
        window can be read."""
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
        """Return a description of a window for messages: by its time or, if its time is not valid, by its
        number."""
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
        """Let all reads in the block see the same state of the file, even if a recorder merges windows in the
        meantime. The recorder's log grows until the block ends, so a block should take minutes, not days.

        Raises StalltopError at the end of the block if no recorder had the file open at first, and a program
        has written it since: such a file is opened as immutable, without locks, so two states of it may have
        been read.
        """
        with self._snapshot():
            with self._opened.reading("it"):
                # SQLite takes the snapshot at the first read, which is this one
                self._opened.pragma("schema_version")
            self._moments = None
            yield
            self._opened.expect_unchanged()

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[None]:
        """Let all reads in the block see the same state of the file, whatever a recorder does in the
        meantime."""
        if self.connection.in_transaction:
            yield
            return
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            # the file may have been closed in the meantime
            with contextlib.suppress(sqlite3.ProgrammingError):
                self.connection.rollback()

    def _warn(self, line: str) -> None:
        if line not in self.warnings and len(self.warnings) < _MOST_WARNINGS:
            self.warnings.append(line)


def load(path: Path) -> Window:
    """Return the window that is saved in ``path``. If ``path`` is a recording, return all its windows merged.

    Raises UsageError, with the reason, if ``path`` is not a file of stalltop, or is damaged.
    """
    with open_file(path) as recorded:
        return recorded.whole()


def open_file(path: Path) -> Recorded:
    """Open a saved window or a recording for reading.

    Raises UsageError, with the reason, if ``path`` is not a file of stalltop, or is damaged.
    """
    opened = Opened(path)
    try:
        return Recorded(opened)
    except BaseException:
        opened.connection.close()
        raise


def read_peak(connection: sqlite3.Connection, window_id: int) -> Peak:
    """Return the peak of a window (``Decoder.peak``)."""
    return Decoder(connection).peak(window_id)
