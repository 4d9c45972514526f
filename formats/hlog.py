"""Writes histogram logs, which HdrHistogram's own tools read. Each row gets a file, and each window is an
interval in the files of its rows.

The format is version 1.3 of HdrHistogram's log. An interval has its start and length in seconds, the duration
of its longest call in milliseconds, and a compressed V2 payload, whose values are nanoseconds. ``index.csv``
says which row each file is about.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from stalltop.files.owner import create
from stalltop.model.errors import StalltopError
from stalltop.model.histograms.payload import payloads
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.text.csv_lines import Cell, write_lines
from stalltop.model.text.figures import printable
from stalltop.model.text.words import with_pid
from stalltop.model.window import Window

INDEX: Final = "index.csv"
HEADS: Final = (
    *("file", "host", "container", "tenant", "process", "pid", "layer", "operation", "inside"),
    *("intervals", "calls", "errors", "max_ns", "total_ns", "device"),
)
"""Columns of ``index.csv``."""
SUFFIX: Final = ".hlog"
MOST_FILES: Final = 10_000
"""Maximum number of rows of an export, because each row gets a file."""
_HELD: Final = 16 << 20
"""Number of characters that are collected before they are appended to the files. So files are opened
seldom."""
_PART: Final = 48
"""Maximum number of characters that each name of a row (container, process …) adds to the file name."""
_RATIO: Final = 1e6
"""Nanoseconds per millisecond: the longest call of an interval is written in milliseconds."""


@dataclass(slots=True)
class _Log:
    """The file of one row."""

    name: str
    container: str
    pieces: list[str] = field(default_factory=list)
    """Lines that are not yet written to the file."""
    intervals: int = 0
    calls: int = 0
    errors: int = 0
    max_ns: int = 0
    total_ns: int = 0


def ours(folder: Path) -> bool:
    """Return whether ``folder`` is empty, or holds only files of an earlier export."""
    names = [file.name for file in folder.iterdir()]
    return not names or (INDEX in names and all(name == INDEX or name.endswith(SUFFIX) for name in names))


def write(windows: Iterable[Window], span: tuple[float, float], folder: Path) -> None:
    """Write a log for every row of ``windows``, and the index, into the empty folder ``folder``.

    ``span`` is the time from the earliest beginning of a window to the latest end (Unix seconds). All logs
    begin at the start of ``span``, because readers ignore intervals before the beginning of a log. They do
    not begin with the first window: if the clock was set back, it is not the earliest one.

    Raises StalltopError if there are too many rows, and OSError if a file cannot be written.
    """
    logs: dict[RowKey, _Log] = {}
    taken: set[str] = {INDEX}
    held = 0
    for window in windows:
        held += _add(window, span[0], logs, taken)
        if held >= _HELD:
            _flush(folder, logs)
            held = 0
    _flush(folder, logs)
    with open(folder / INDEX, "x", encoding="utf-8", newline="", opener=_private) as file:
        write_lines(file, [HEADS, *(_index_line(key, log) for key, log in logs.items())])


def _index_line(key: RowKey, log: _Log) -> list[Cell]:
    """Return the values of ``HEADS`` for a row."""
    return [
        *(log.name, key.host, log.container, key.tenant, key.process, key.pid, key.layer, key.operation),
        *(key.nested, log.intervals, log.calls, log.errors, log.max_ns, log.total_ns, key.device),
    ]


def _private(path: str, flags: int) -> int:
    return create(path, flags)


def _flush(folder: Path, logs: dict[RowKey, _Log]) -> None:
    for log in logs.values():
        if log.pieces:
            with open(folder / log.name, "a", encoding="utf-8", opener=_private) as file:
                file.writelines(log.pieces)
            log.pieces.clear()


def _add(window: Window, begin: float, logs: dict[RowKey, _Log], taken: set[str]) -> int:
    """Add an interval for ``window`` to the log of each of its rows. ``begin`` is the beginning of all logs
    (Unix seconds). Returns the number of characters that were added."""
    rows = window.rows
    empty = (np.diff(rows.histograms.start) == 0).tolist()
    counts = zip(
        *(column.tolist() for column in (rows.calls, rows.errors, rows.max_ns, rows.total_ns)), strict=True
    )
    held = 0
    columns = zip(rows.keys, empty, payloads(rows.histograms), counts, strict=True)
    for key, nothing, payload, (calls, errors, longest, total) in columns:
        if nothing:
            continue  # no call returned
        log = logs.get(key)
        if log is None:
            log = logs[key] = _new(key, window, taken)
            log.pieces.append(_head(log, key, begin))
        line = (
            f"{window.start - begin:.6f},{window.seconds:.6f},{longest / _RATIO:.6f},"
            f"{base64.b64encode(payload).decode('ascii')}\n"
        )
        log.pieces.append(line)
        held += len(line)
        log.intervals += 1
        log.calls += calls
        log.errors += errors
        log.total_ns += total
        log.max_ns = max(log.max_ns, longest)
    return held


def _new(key: RowKey, window: Window, taken: set[str]) -> _Log:
    if len(taken) > MOST_FILES:
        raise StalltopError(
            f"there are too many rows: histogram logs have one file for each row, at most {MOST_FILES:,}",
            "export fewer rows: --container, --from, --until",
        )
    tenant = window.tenants.get(key.tenant, Tenant(key.tenant, ""))
    container = tenant.name or key.tenant
    names = [container, f"{key.process[:_PART]}-{key.pid}", key.layer, key.operation]
    names += [f"gpu{key.device}"] * bool(key.device) + ["inside"] * key.nested
    stem = ".".join(map(_safe, names))
    name, number = stem + SUFFIX, 1
    # Some file systems do not distinguish large and small letters.
    while name.casefold() in taken:
        number += 1
        name = f"{stem}~{number}{SUFFIX}"
    taken.add(name.casefold())
    return _Log(name, container)


def _safe(name: str) -> str:
    """Return ``name`` with ``_`` for characters that a file system or a shell may treat specially."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_-")[:_PART] or "unnamed"


def _head(log: _Log, key: RowKey, begin: float) -> str:
    when = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(begin))
    names = [key.host, log.container, with_pid(key.process, key.pid), key.layer, key.operation]
    names += [f"GPU {key.device}"] * bool(key.device)
    return (
        f"#[stalltop: {printable(' / '.join(names))}; values in nanoseconds]\n"
        "#[Histogram log format version 1.3]\n"
        f"#[StartTime: {begin:.6f} (seconds since epoch), {when}]\n"
        f"#[BaseTime: {begin:.6f} (seconds since epoch)]\n"
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
    )
