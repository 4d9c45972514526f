"""Histogram logs: for every row a file of its intervals, as HdrHistogram's own tools read them.

The format is HdrHistogram's log, version 1.3: an interval is its start and length in seconds, its longest
call in milliseconds, and a compressed V2 payload of nanoseconds. ``index.csv`` says which file is whose.
"""

from __future__ import annotations

import base64
import csv
import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from stalltop.model.errors import StalltopError
from stalltop.model.histograms.payload import payloads
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.text.csv_cells import text_cell
from stalltop.model.text.figures import printable
from stalltop.model.window import Window

INDEX: Final = "index.csv"
HEADS: Final = (
    *("file", "host", "container", "tenant", "process", "pid", "layer", "operation", "inside"),
    *("intervals", "calls", "errors", "max_ns", "total_ns", "device"),
)
"""Columns of the index."""
SUFFIX: Final = ".hlog"
MOST_FILES: Final = 10_000
"""Rows that get a file."""
_HELD: Final = 16 << 20
"""Characters that are kept until they are written: files are opened seldom, however many there are."""
_PART: Final = 48
"""Characters of a file's name that each name of its row gets at most."""
_RATIO: Final = 1e6
"""Nanoseconds in the unit of an interval's longest call."""


@dataclass(slots=True)
class _Log:
    """One row's file."""

    name: str
    container: str
    pieces: list[str] = field(default_factory=list)
    """What is not written yet."""
    intervals: int = 0
    calls: int = 0
    errors: int = 0
    max_ns: int = 0
    total_ns: int = 0


def ours(folder: Path) -> bool:
    """Whether ``folder`` holds an earlier export, or nothing, and nothing else."""
    names = [file.name for file in folder.iterdir()]
    return not names or (INDEX in names and all(name == INDEX or name.endswith(SUFFIX) for name in names))


def write(windows: Iterable[Window], span: tuple[float, float], folder: Path) -> None:
    """Write a log for every row of ``windows``, and the index, into an empty folder.

    None of them begins before ``span`` does (Unix seconds): the clock may have been set back between two,
    and readers take nothing that is before a log's beginning. Raises StalltopError where there are too many
    rows, and OSError.
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
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(HEADS)
        for key, log in logs.items():
            names = (log.name, key.host, log.container, key.tenant, key.process)
            lines.writerow(
                [
                    *(text_cell(name) for name in names),
                    key.pid,
                    *(text_cell(name) for name in (key.layer, key.operation)),
                    int(key.nested),
                    *(log.intervals, log.calls, log.errors, log.max_ns, log.total_ns),
                    text_cell(key.device),
                ]
            )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _flush(folder: Path, logs: dict[RowKey, _Log]) -> None:
    for log in logs.values():
        if log.pieces:
            with open(folder / log.name, "a", encoding="utf-8", opener=_private) as file:
                file.writelines(log.pieces)
            log.pieces.clear()


def _add(window: Window, begin: float, logs: dict[RowKey, _Log], taken: set[str]) -> int:
    """The intervals of ``window``, by the time since ``begin``; how many characters they have."""
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
            f"there are more than {MOST_FILES:,} rows, each of which gets a file", "narrow them"
        )
    tenant = window.tenants.get(key.tenant, Tenant(key.tenant, ""))
    container = tenant.name or key.tenant
    names = [container, f"{key.process[:_PART]}-{key.pid}", key.layer, key.operation]
    names += [f"gpu{key.device}"] * bool(key.device) + ["inside"] * key.nested
    stem = ".".join(map(_safe, names))
    name, number = stem + SUFFIX, 1
    # Some file systems take large and small letters for the same.
    while name.casefold() in taken:
        number += 1
        name = f"{stem}~{number}{SUFFIX}"
    taken.add(name.casefold())
    return _Log(name, container)


def _safe(name: str) -> str:
    """``name`` in characters that every file system and shell takes as they are."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_-")[:_PART] or "unnamed"


def _head(log: _Log, key: RowKey, begin: float) -> str:
    when = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(begin))
    names = [key.host, log.container, f"{key.process} {key.pid}", key.layer, key.operation]
    names += [f"GPU {key.device}"] * bool(key.device)
    return (
        f"#[stalltop: {printable(' / '.join(names))}; values in nanoseconds]\n"
        "#[Histogram log format version 1.3]\n"
        f"#[StartTime: {begin:.6f} (seconds since epoch), {when}]\n"
        f"#[BaseTime: {begin:.6f} (seconds since epoch)]\n"
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
    )
