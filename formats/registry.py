"""The formats that windows are exported to, and what writes each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from stalltop.formats import hlog
from stalltop.formats.html import report
from stalltop.formats.tables import csv_rows, json_lines, parquet
from stalltop.formats.traces import trace
from stalltop.model.calls import Calls
from stalltop.model.chain import Chain
from stalltop.model.rows.filter import Filter
from stalltop.model.window import RowKey, Window

Windows = Iterable[Window]
Span = tuple[float, float]
"""Between which times (Unix seconds) windows lie: all of each."""


@dataclass(frozen=True, slots=True)
class Format:
    """One format. Exactly one of ``write`` and ``fill`` is there."""

    name: str
    suffix: str
    """What file names end in."""
    about: str
    """What one gets, in a few words."""
    write: Callable[[Windows, Span, BinaryIO], None] | None = None
    """Writes one file. Raises Told where it cannot, and OSError."""
    fill: Callable[[Windows, Span, Path], None] | None = None
    """Writes several, into an empty folder."""
    replaces: Callable[[Path], bool] | None = None
    """Whether a folder is an earlier export."""
    binary: bool = False
    """Whether a terminal shows nothing of it."""


def _by_pieces(pieces: Callable[[Windows], Iterator[bytes]]) -> Callable[[Windows, Span, BinaryIO], None]:
    def write(windows: Windows, _: Span, file: BinaryIO) -> None:
        for piece in pieces(windows):
            file.write(piece)

    return write


def _trace(windows: Windows, span: Span, file: BinaryIO) -> None:
    for piece in trace.pieces(windows, span):
        file.write(piece)


def _report(windows: Windows, span: Span, file: BinaryIO) -> None:
    file.write(report.page(windows, *span).encode())


FORMATS: Final = {
    made.name: made
    for made in (
        Format(
            "hlog",
            "-hlog",
            "a folder of histogram logs, one for each row, for HdrHistogram's tools",
            fill=hlog.write,
            replaces=hlog.ours,
        ),
        Format(
            "perfetto",
            ".trace.json",
            "a trace for ui.perfetto.dev or chrome://tracing",
            _trace,
        ),
        Format("csv", ".csv", "a line for every row of every window", _by_pieces(csv_rows.pieces)),
        Format(
            "json",
            ".jsonl",
            "a line for every window, as once --json prints it",
            _by_pieces(json_lines.pieces),
        ),
        Format(
            "parquet",
            ".parquet",
            "the table of csv with typed columns; needs pyarrow",
            lambda windows, _, file: parquet.write(windows, file),
            binary=True,
        ),
        Format("html", ".html", "a report with pictures, one page for any browser", _report),
    )
}
"""All of them, by name."""


def narrowed(window: Window, by: Filter) -> Window:
    """``window`` with only the rows that pass, and of these only: open calls, kernels, calls one by one, and
    what is wrong. What is wrong with the whole host stays."""
    if not by:
        return window
    passes = by.of(window)
    window = by.apply(window)
    kept = tuple(call for call in window.calls.kept if passes(RowKey(window.host, *call.row)))
    return replace(
        window,
        kernels=tuple(count for count in window.kernels if passes(RowKey(window.host, *count.row))),
        calls=Calls(kept, window.calls.passed_over),
        chains=tuple(
            chain
            for chain in window.chains
            if not chain.tenant or any(map(passes, chain.rows or (_row_of(chain, window.host),)))
        ),
    )


def _row_of(chain: Chain, host: str) -> RowKey:
    """What a chain that names no rows is about."""
    return RowKey(host, chain.tenant, chain.pid, chain.process, chain.layer, chain.operation)
