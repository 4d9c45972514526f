"""Windows out of a file, which may be a stranger's, damaged, or being written at this moment."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.chain import SEVERITIES, Severity
from model.errors import Told
from model.merging import merge
from model.packing import Peak
from model.window import Missing, Window
from store.decoding import Decoder
from store.opening import Damaged, Opened

__all__ = ["ChainSpan", "Damaged", "Gone", "Host", "Moments", "Recorded", "load", "open_file", "read_peak"]

_AT_ONCE: Final = 64
"""Windows that are added up together."""
_MOST_WARNINGS: Final = 100
_MOST_WINDOWS: Final = 4_000_000
"""Windows that a file may have: more than six weeks of seconds."""


class Gone(Told):
    """A window that was put together with others to a longer one, or dropped, since the file was listed."""


class Host(NamedTuple):
    """A host that windows of a file are of."""

    host_id: int
    name: str
    clock_offset_ns: int | None
    """Its clock minus that of the file's first host; None where it was not estimated."""
    clock_error_ns: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """The windows of a file, oldest first: element i of every array belongs to one window.

    They are in the order in which they came: where the clock was set back, ``start`` falls.
    """

    window_id: NDArray[np.int64]
    host_id: NDArray[np.int64]
    start: NDArray[np.float64]
    """Unix time in seconds."""
    seconds: NDArray[np.float64]
    level: NDArray[np.int64]
    """0: as it came; 10, 60: put together to windows of at least so many seconds."""
    lost_ms_per_s: NDArray[np.float64]
    """What open chains cost together: see ``model.packing.Peak``."""
    worst: NDArray[np.int64]
    """Severity of the worst open chain, as ``model.packing.Peak.worst``."""
    began: NDArray[np.int64]
    """The same of the chains that began within."""

    def __len__(self) -> int:
        return len(self.window_id)

    @property
    def end(self) -> NDArray[np.float64]:
        """Unix time in seconds."""
        return self.start + self.seconds


class ChainSpan(NamedTuple):
    """A chain from when it was first seen to when it was last seen."""

    id: str
    cause: str
    severity: Severity
    """The worst that it was."""
    title: str
    host: str
    tenant: str
    since: float
    """Unix time in seconds, as ``seen``."""
    seen: float


class Recorded:
    """An open file of windows. Used by one thread at a time; ``close`` it, or use it with ``with``."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self.path = opened.path
        self.version = opened.version
        """Of the format that the file has."""
        self.warnings = opened.warnings
        """What could not be read, one line each."""
        self._decoder = Decoder(opened.connection)
        self._data_version = -1
        self.changed()
        self._moments: Moments | None = None
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
    def hosts(self) -> tuple[Host, ...]:
        """All hosts, in the order of their numbers."""
        rows = self._all("SELECT host_id, clock_offset_ns, clock_error_ns FROM hosts ORDER BY host_id")
        with self._opened.reading("its hosts"):
            return tuple(
                Host(number, self._decoder.values("hosts", number)[0], offset, error)
                for number, offset, error in rows
            )

    @property
    def moments(self) -> Moments:
        """All windows, oldest first, as they were when ``changed`` last said so."""
        if self._moments is None:
            self._moments = self._read_moments()
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
        """The window of that number. Raises Damaged where it cannot be read, and Gone without one."""
        try:
            with self._opened.reading(f"window {window_id}"), self._snapshot():
                return self._decoder.window(int(window_id))
        except KeyError:
            raise Gone(f"window {window_id} is no longer in {self.path}") from None

    def windows(
        self, start: float = -np.inf, end: float = np.inf, host: str | None = None
    ) -> Iterator[Window]:
        """Windows that overlap ``start`` to ``end`` (Unix time in seconds), of one host or of all, oldest
        first. What cannot be read is left out, with a line in ``warnings``."""
        moments = self.moments
        chosen = (moments.start < end) & (moments.end > start)
        if host is not None:
            numbers = [known.host_id for known in self.hosts if known.name == host]
            chosen &= np.isin(moments.host_id, numbers)
        for at in np.flatnonzero(chosen).tolist():
            try:
                yield self.window(moments.window_id[at])
            except Gone:
                continue
            except Damaged as damaged:
                self._warn(damaged.reason)

    def between(self, start: float, end: float, host: str | None = None) -> list[Window]:
        """``windows`` as a list."""
        return list(self.windows(start, end, host))

    def whole(
        self, start: float = -np.inf, end: float = np.inf, each: Callable[[Window], object] = bool
    ) -> Window:
        """All windows that overlap ``start`` to ``end`` (Unix time in seconds) added up; ``each`` gets every
        one of them on the way. What could not be read is named in its coverage. Raises Damaged where nothing
        can be read."""
        found: list[Window] = []
        for window in self.windows(start, end):
            each(window)
            found.append(window)
            if len(found) == _AT_ONCE:
                found = [merge(found)]
        if not found:
            raise Damaged(
                f"{self.path}: {self.warnings[0]}" if self.warnings else f"{self.path} has no windows"
            )
        window = merge(found)
        gaps = tuple(Missing(str(self.path), warning) for warning in self.warnings)
        coverage = window.coverage
        return (
            replace(window, coverage=replace(coverage, missing=gaps + coverage.missing)) if gaps else window
        )

    def chain_spans(self) -> list[ChainSpan]:
        """Every chain of all windows, each time that it was open, the first seen first."""
        rows = self._all(
            "SELECT chain_text_id, severity, since, MAX(seen) FROM chains"
            " GROUP BY chain_text_id, severity, since"
        )
        spans: dict[tuple[str, float], ChainSpan] = {}
        with self._opened.reading("its chains"), self._snapshot():
            for text, severity, since, seen in rows:
                if severity not in SEVERITIES or not isinstance(since, float) or not isinstance(seen, float):
                    raise ValueError("a chain is none")
                found = self._decoder.chain_text(text)
                span = ChainSpan(*found[:2], severity, *found[2:], since, seen)
                before = spans.get((span.id, since))
                if before is not None:
                    worst = min(before.severity, span.severity, key=SEVERITIES.index)
                    span = before._replace(severity=worst, seen=max(before.seen, seen))
                spans[span.id, since] = span
        return sorted(spans.values(), key=lambda span: (span.since, span.id))

    def _read_moments(self) -> Moments:
        rows = self._all(
            "SELECT window_id, host_id, level, worst, began, start, seconds, coalesce(lost_ms_per_s, 0.0)"
            " FROM windows ORDER BY window_id"
            f" LIMIT {_MOST_WINDOWS}"
        )
        with self._opened.reading("its list of windows"):
            kinds = set(map(type, (value for row in rows for value in row[:5])))
            if kinds - {int} or {type(value) for row in rows for value in row[5:]} - {float}:
                raise ValueError("a number is none")
            whole = np.array([row[:5] for row in rows], np.int64).reshape(-1, 5).T
            real = np.array([row[5:] for row in rows], np.float64).reshape(-1, 3).T
            window_id, host_id, level, worst, began = whole
            return Moments(window_id, host_id, real[0], real[1], level, real[2], worst, began)

    def _all(self, query: str) -> list[tuple[Any, ...]]:
        with self._opened.reading("it"):
            return self.connection.execute(query).fetchall()

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[None]:
        """All reads see the file at one moment, whatever a recorder does meanwhile."""
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            self.connection.rollback()

    def _warn(self, line: str) -> None:
        if line not in self.warnings and len(self.warnings) < _MOST_WARNINGS:
            self.warnings.append(line)


def load(path: Path) -> Window:
    """The window saved in ``path``, or all windows of a recording added up.

    Raises BadUsage, with the reason, where that is no such file.
    """
    with open_file(path) as recorded:
        return recorded.whole()


def open_file(path: Path) -> Recorded:
    """Open a saved window or a recording, of any version so far, to read. It is never changed.

    Raises BadUsage, with the reason, where that is no such file.
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
