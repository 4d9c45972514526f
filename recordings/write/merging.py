"""Merges files of one host or of several hosts into one file, in which all times are on one clock."""

from __future__ import annotations

import contextlib
import heapq
import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from stalltop.files.complete import opened
from stalltop.model.errors import StalltopError, UsageError
from stalltop.model.hosts.clocks import Clock, CollectiveEntry, Recollection, clocks, renamed, shifted
from stalltop.model.hosts.machines import are_two_machines
from stalltop.model.merge.packing import Peak
from stalltop.model.window import Window
from stalltop.recordings.file.trouble import lacks_space
from stalltop.recordings.read.reading import (
    Recorded,
    UnreadableFileError,
    WindowGoneError,
    open_file,
    read_peak,
)
from stalltop.recordings.write.writing import Writer, create

_AT_ONCE: Final = 256
"""Number of windows that are written in one transaction."""
_NAME: Final = "give one of the two machines another name with --host-name FILE=NAME, or leave its file out"
_TOUCHING: Final = 0.05
"""Longest overlap of two windows of one host, in seconds, that is ignored: gradual corrections of the clock
cause small overlaps."""
_SECOND_RECORDER: Final = 10
"""If at least this many windows of a file, and more than a quarter of its windows, overlap windows of another
file with the same host name without being copies of them, two recorders wrote the two files at the same time.
Most likely they ran on two machines."""
_LOOKED_AT: Final = 8
"""Largest number of windows, per file and host, that are compared with windows of another file at the same
times, to find out whether the files are of two machines."""


@dataclass
class MergedHost:
    """One host of the merged file."""

    name: str
    clock: Clock
    windows: int = 0
    start: float = 0.0
    """Beginning of the first window of the host, in Unix seconds on the clock of the first host."""
    end: float = 0.0
    """End of the last window of the host, in Unix seconds on the clock of the first host."""
    left_out: int = 0
    """Number of windows that were left out because other windows of this host cover their time."""


@dataclass
class Merged:
    """The result of merging files."""

    path: Path
    hosts: list[MergedHost] = field(default_factory=list)
    """All hosts of the merged file. All times in the file are on the clock of the first host, except times of
    hosts whose clock offset is unknown."""
    warnings: list[str] = field(default_factory=list)
    """Warnings about windows that could not be read, one line each."""


class _WindowPart(NamedTuple):
    """One window of one file, before it is read. Sorting these objects gives the order in which windows are
    written."""

    turn: float
    """Sort key: the ``start`` of the window, but not less than that of any earlier window of its file,
    because the clock may have been set back."""
    seconds: float
    """Length of the window. If two windows begin at the same time, the shorter one is written first, because
    it has more detail."""
    file: int
    place: int
    window_id: int
    level: int
    host: str
    start: float
    """Beginning of the window, Unix seconds on the clock of the merged file."""
    end: float
    """End of the window, Unix seconds on the clock of the merged file."""


def merge_files(
    paths: Sequence[Path],
    target: Path,
    *,
    overwrite: bool = False,
    names: Mapping[Path, str] | None = None,
    given_ns: Mapping[str, int] | None = None,
    step: Callable[[int, int], object] = lambda done, whole: None,
) -> Merged:
    """Write the windows of the files ``paths`` to one file at ``target``, in the order of their times on the
    clock of the first host.

    ``names`` has new names for the hosts of files. ``given_ns`` has the known clock offsets by host, in ns
    (``model.hosts.clocks``). The times of a host whose clock offset is unknown stay unchanged. Calls ``step``
    with the number of windows that are done and the number of windows to copy, which does not include windows
    that are left out because others cover their time. Raises UsageError and StalltopError.
    """
    names = names or {}
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open_file(path)) for path in paths]
        for one in files:
            stack.enter_context(one.held())
        called = [_Names(file, names.get(path)) for file, path in zip(files, paths, strict=True)]
        known = clocks(_recollections(files, called), given_ns)
        unknown = sorted(set(given_ns or {}) - set(known))
        if unknown:
            raise UsageError(
                f"--offset: no input file has windows of the host {unknown[0]}",
                f"hosts are: {', '.join(known)}",
            )
        merged = Merged(target, [MergedHost(name, clock) for name, clock in known.items()])
        parts = heapq.merge(
            *(_parts(number, file, called[number], known) for number, file in enumerate(files)),
        )
        beside: list[tuple[_WindowPart, _WindowPart]] = []
        chosen = list(_without_overlap(parts, merged, paths, beside))
        for left_out, kept in beside:
            _refuse_two_machines(files, left_out, kept)
        # The file has no final name yet, so SQLite opens it by its descriptor.
        with opened(target, overwrite=overwrite) as file, contextlib.closing(_connected(file)) as made:
            try:
                _write(made, _windows(files, called, known, chosen), merged, step, len(chosen))
            except sqlite3.Error as error:
                why = "no space left on the device" if lacks_space(error) else str(error)
                raise StalltopError(f"cannot write {target}: {why}") from error
        merged.warnings += [warning for one in files for warning in one.warnings]
        return merged


def _connected(file: BinaryIO) -> sqlite3.Connection:
    return sqlite3.connect(f"/proc/self/fd/{file.fileno()}", isolation_level=None)


class _Names:
    """The names that the hosts of one input file get in the merged file."""

    def __init__(self, file: Recorded, name: str | None) -> None:
        self._hosts = {host.host_id: host.name for host in file.hosts}
        self._name = name
        present = set(file.moments.host_id.tolist())
        if name is not None and len(present) > 1:
            raise UsageError(
                f"{file.path} has windows of several hosts; only a file of one host can get a new host name"
            )

    def of(self, host_id: int) -> str:
        """Return the name that a host of the file gets."""
        return self._hosts[host_id] if self._name is None else self._name

    def given(self, window: Window) -> Window:
        """Return ``window`` with the new name of its host."""
        return window if self._name is None else renamed(window, self._name)


def _recollections(files: Sequence[Recorded], called: Sequence[_Names]) -> dict[str, Recollection]:
    found: dict[str, Recollection] = {}
    for file, names in zip(files, called, strict=True):
        for host_id in dict.fromkeys(file.moments.host_id.tolist()):
            name = names.of(host_id)
            before = found.get(name, Recollection())
            entries, error_ns = _recalled(file, host_id)
            if name in found and (before.error_ns is None or error_ns is None):
                error_ns = None
            elif before.error_ns is not None and error_ns is not None:
                error_ns = max(before.error_ns, error_ns)
            found[name] = Recollection([*before.entries, *entries], error_ns)
    return found


def _recalled(file: Recorded, host_id: int) -> Recollection:
    """Return what a file says about the clock of a host: when ranks on the host entered collectives, and the
    largest error of the clock."""
    try:
        entries = [
            CollectiveEntry(
                str(communicator), int(rank), int(entered), round((start + seconds) * 1e9) - int(since)
            )
            for communicator, rank, entered, since, start, seconds in file.connection.execute(
                "SELECT communicator, rank, entered, since_entry_ns, start, seconds FROM ranks"
                " JOIN windows USING (window_id) WHERE host_id = ?",
                (host_id,),
            )
        ]
        all_windows, with_error, worst = file.connection.execute(
            "SELECT count(*), count(clock_error_ns), max(clock_error_ns) FROM windows"
            " LEFT JOIN system USING (window_id) WHERE host_id = ?",
            (host_id,),
        ).fetchone()
        return Recollection(entries, int(worst) if with_error and with_error == all_windows else None)
    except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
        raise UnreadableFileError(f"{file.path} is damaged: its clocks cannot be read ({error})") from None


def _parts(number: int, file: Recorded, names: _Names, known: Mapping[str, Clock]) -> Iterator[_WindowPart]:
    """Yield the windows of one file, in the order of the file."""
    moments = file.moments
    columns = zip(
        moments.window_id.tolist(),
        moments.host_id.tolist(),
        moments.level.tolist(),
        moments.start.tolist(),
        moments.seconds.tolist(),
        strict=True,
    )
    turn = -math.inf
    for place, (window_id, host_id, level, start, seconds) in enumerate(columns):
        host = names.of(host_id)
        start += _correction(known[host])
        turn = max(turn, start)
        yield _WindowPart(turn, seconds, number, place, window_id, level, host, start, start + seconds)


def _correction(clock: Clock) -> float:
    """Return the number of seconds to add to the times of a host, to convert them to the clock of the merged
    file."""
    return -(clock.offset_ns or 0) / 1e9


def _without_overlap(
    parts: Iterable[_WindowPart],
    merged: Merged,
    paths: Sequence[Path],
    beside: list[tuple[_WindowPart, _WindowPart]],
) -> Iterator[_WindowPart]:
    """Yield windows. If windows of two files and the same host overlap, only the earlier one is yielded.

    Adds some of the windows that are left out to ``beside``, each with a window that covers its time. Raises
    UsageError if two files with the same host name seem to be of two machines.
    """
    hosts = {host.name: host for host in merged.hosts}
    lasts: dict[str, dict[int, _WindowPart]] = {}
    taken: set[tuple[str, float, float]] = set()
    others: Counter[tuple[int, str]] = Counter()
    whole: Counter[int] = Counter()
    looked_at: Counter[tuple[int, str]] = Counter()
    for part in parts:
        host, last_of = hosts[part.host], lasts.setdefault(part.host, {})
        whole[part.file] += 1
        kept = next(
            (
                last
                for file, last in last_of.items()
                if file != part.file and part.start < last.end - _TOUCHING
            ),
            None,
        )
        if kept is not None:
            host.left_out += 1
            if looked_at[part.file, part.host] < _LOOKED_AT:
                looked_at[part.file, part.host] += 1
                beside.append((part, kept))
            if (part.host, part.start, part.end) not in taken:
                others[part.file, part.host] += 1
            continue
        if not host.windows:
            host.start = part.start
        host.windows += 1
        host.end = max(host.end, part.end)
        if part.file not in last_of or part.end > last_of[part.file].end:
            last_of[part.file] = part
        taken.add((part.host, part.start, part.end))
        yield part
    for (file, name), count in others.items():
        # A user saves only a few windows while a recorder runs; many windows come from a second recorder.
        if count >= _SECOND_RECORDER and count * 4 > whole[file]:
            raise UsageError(
                f"{paths[file]} and another file have different windows of {name} at the same times", _NAME
            )


def _refuse_two_machines(files: Sequence[Recorded], left_out: _WindowPart, kept: _WindowPart) -> None:
    """Compare ``left_out`` with ``kept``, a window that covers the same time. Raise UsageError if they are of
    different machines."""
    a, b = files[left_out.file], files[kept.file]
    try:
        both = a.window(left_out.window_id), b.window(kept.window_id)
    except (WindowGoneError, KeyError, UnreadableFileError):
        return
    if are_two_machines(*both):
        raise UsageError(f"{a.path} and {b.path} are of two machines, both named {left_out.host}", _NAME)


def _windows(
    files: Sequence[Recorded],
    called: Sequence[_Names],
    known: Mapping[str, Clock],
    parts: Sequence[_WindowPart],
) -> Iterator[tuple[Window, int, Peak] | None]:
    """Yield each window with its level and peak. Times are on the clock of the merged file. Yield None for a
    window that cannot be read."""
    for part in parts:
        file = files[part.file]
        try:
            window = called[part.file].given(file.window(part.window_id))
            peak = read_peak(file.connection, part.window_id)
        except (WindowGoneError, KeyError):
            yield None
        except UnreadableFileError as damaged:
            file.warnings.append(damaged.reason)
            yield None
        else:
            yield shifted(window, _correction(known[part.host])), part.level, peak


def _write(
    made: sqlite3.Connection,
    windows: Iterator[tuple[Window, int, Peak] | None],
    merged: Merged,
    step: Callable[[int, int], object],
    whole: int,
) -> None:
    for pragma in ("journal_mode = OFF", "synchronous = OFF"):
        made.execute(f"PRAGMA {pragma}")
    known = {
        host.name: (host.clock.offset_ns, host.clock.error_ns or 0)
        for host in merged.hosts
        if host.clock.offset_ns is not None
    }
    made.execute("BEGIN")
    create(made, "recording")
    writer = Writer(made, known)
    written = 0
    for done, found in enumerate(windows, 1):
        if found is not None:
            window, level, peak = found
            writer.add(window, level, peak)
            written += 1
        if done % _AT_ONCE == 0:
            made.execute("COMMIT")
            made.execute("BEGIN")
        step(done, whole)
    if not written:
        raise StalltopError("no window of these files can be read")
    made.execute("COMMIT")
