"""The table of all formats. The key ``w`` and the command ``export`` use this table, and docs/saving.md and
docs/export.md are written from it.

Each format has one entry here and one module that writes it. The module is imported only when the format is
used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from stalltop.files.places import SUFFIX
from stalltop.model.calls import CapturedCalls
from stalltop.model.chain import Chain
from stalltop.model.row_key import RowKey
from stalltop.model.rows.filter import Filter
from stalltop.model.text.figures import moment
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.window import Window

if TYPE_CHECKING:
    from textual.strip import Strip

    from stalltop.formats.tables.sheet import Sheet

Windows = Iterable[Window]
Span = tuple[float, float]
"""The earliest beginning and the latest end of some windows, Unix seconds."""


class ScreenToSave(Protocol):
    """The screen at one moment, which the key ``w`` saves."""

    @property
    def window(self) -> Window:
        """The window that the screen shows."""
        ...

    @property
    def sheet(self) -> Sheet:
        """The table that has the focus, with all its rows."""
        ...

    @property
    def lines(self) -> Sequence[Strip]:
        """The lines of the screen."""
        ...

    @property
    def width(self) -> int:
        """Width of the terminal, in cells."""
        ...

    @property
    def glyphs(self) -> Glyphs:
        """The characters to draw with."""
        ...


@dataclass(frozen=True, slots=True)
class Format:
    """One format. It can be used to save a screen, to export any number of windows, or for both."""

    name: str
    """The value of ``export --to``."""
    suffix: str
    """The ending of file names."""
    label: str = ""
    """The name in the dialogue of ``w``."""
    saved: str = ""
    """A few words that say what ``w`` saves in this format."""
    saved_in_full: str = ""
    """A full description, for docs/saving.md, of what ``w`` saves in this format."""
    save: Callable[[ScreenToSave], bytes] | None = None
    """Returns the content of the file that ``w`` saves. May raise StalltopError. None if ``w`` does not have
    this format."""
    exported: str = ""
    """A few words that say what ``export`` writes in this format."""
    use: str = ""
    """Programs that can read the exported file."""
    write: Callable[[Windows, Span, BinaryIO], None] | None = None
    """Writes windows to one file, for ``export``. May raise StalltopError and OSError."""
    fill: Callable[[Windows, Span, Path], None] | None = None
    """Writes windows to several files in an empty folder, for ``export``. May raise StalltopError and
    OSError."""
    replaces: Callable[[Path], bool] | None = None
    """Returns whether a folder is an earlier export in this format, which a new export may replace."""
    binary: bool = False
    """Whether the format is binary. Binary data is never written to a terminal."""
    problem: Callable[[], str] = str
    """Returns why ``save`` is not possible on this host, and what to install; '' if it is possible."""


def _save_window(shown: ScreenToSave) -> bytes:
    from stalltop.recordings.write.saving import dump

    return dump(shown.window)


def _save_text(shown: ScreenToSave) -> bytes:
    from stalltop.formats.text.report import report

    return report(shown.window, shown.sheet, width=shown.width, glyphs=shown.glyphs).encode()


def _save_html(shown: ScreenToSave) -> bytes:
    from stalltop.formats.html.page import html_page

    return html_page(shown.window, shown.sheet).encode()


def _save_csv(shown: ScreenToSave) -> bytes:
    from stalltop.formats.tables.csv_table import csv_table

    return csv_table(shown.sheet, shown.window).encode()


def _save_markdown(shown: ScreenToSave) -> bytes:
    from stalltop.formats.text.markdown import screen

    return screen(shown.window, shown.sheet, shown.glyphs).encode()


def _svg(shown: ScreenToSave) -> str:
    from stalltop.formats.html.picture import svg

    return svg(shown.lines, shown.width, f"stalltop {shown.window.host} {moment(shown.window.end)}")


def _save_png(shown: ScreenToSave) -> bytes:
    from stalltop.formats.html.picture import png

    return png(_svg(shown))


def _png_problem() -> str:
    from stalltop.formats.html.picture import png_problem

    return png_problem()


def _pieces(pieces: Iterator[bytes], file: BinaryIO) -> None:
    for piece in pieces:
        file.write(piece)


def _write_report(windows: Windows, span: Span, file: BinaryIO) -> None:
    from stalltop.formats.html import report

    file.write(report.page(windows, *span).encode())


def _write_markdown(windows: Windows, span: Span, file: BinaryIO) -> None:
    from stalltop.formats.text import markdown

    file.write(markdown.export(windows, *span).encode())


def _write_csv(windows: Windows, _: Span, file: BinaryIO) -> None:
    from stalltop.formats.tables import csv_rows

    _pieces(csv_rows.pieces(windows), file)


def _write_json(windows: Windows, _: Span, file: BinaryIO) -> None:
    from stalltop.formats.documents import json_lines

    _pieces(json_lines.pieces(windows), file)


def _write_parquet(windows: Windows, _: Span, file: BinaryIO) -> None:
    from stalltop.formats.tables import parquet

    parquet.write(windows, file)


def _write_trace(windows: Windows, span: Span, file: BinaryIO) -> None:
    from stalltop.formats.traces import trace

    _pieces(trace.pieces(windows, span), file)


def _write_speedscope(windows: Windows, _: Span, file: BinaryIO) -> None:
    from stalltop.formats.traces import stack_profiles

    file.write(stack_profiles.speedscope(windows).encode())


def _write_collapsed(windows: Windows, _: Span, file: BinaryIO) -> None:
    from stalltop.formats.traces import stack_profiles

    file.write(stack_profiles.collapsed(windows).encode())


def _write_pprof(windows: Windows, _: Span, file: BinaryIO) -> None:
    from stalltop.formats.traces import pprof

    file.write(pprof.pprof(windows))


def _fill_hlog(windows: Windows, span: Span, folder: Path) -> None:
    from stalltop.formats import hlog

    hlog.write(windows, span, folder)


def _is_hlog(folder: Path) -> bool:
    from stalltop.formats import hlog

    return hlog.ours(folder)


FORMATS: Final = (
    Format(
        "window",
        SUFFIX,
        label="window",
        saved="everything; stalltop open shows it on this screen again",
        saved_in_full=(
            "everything, as one SQLite file: every row with its histogram, CUDA kernels, captured calls, "
            "problems, devices and evidence ([its tables](file-format.md)); `stalltop open FILE` "
            "shows it on the same screen, `stalltop explain FILE` lists the problems in it, "
            "`stalltop query FILE` runs SQL on it"
        ),
        save=_save_window,
    ),
    Format(
        "text",
        ".txt",
        label="text",
        saved="a report: problems, fixes, this table",
        saved_in_full=(
            "a report to read and to send: problems with their fixes, the table with the keyboard focus "
            "with all its rows, and other tables"
        ),
        save=_save_text,
    ),
    Format(
        "html",
        ".html",
        label="HTML",
        saved="the report as one page for a browser, with bars",
        saved_in_full=(
            "the text report as one page for a browser, with bars of where time went; the page has no "
            "script and loads nothing, and its own policy forbids both"
        ),
        save=_save_html,
        exported="one page with pictures",
        use="people: any browser, without a network",
        write=_write_report,
    ),
    Format(
        "perfetto",
        ".trace.json",
        exported="a trace (`.trace.json`)",
        use="<https://ui.perfetto.dev>, `chrome://tracing`, beside a PyTorch trace",
        write=_write_trace,
    ),
    Format(
        "speedscope",
        ".speedscope.json",
        exported="stacks: for each process a profile of its slow calls and one of its threads",
        use="<https://www.speedscope.app>",
        write=_write_speedscope,
    ),
    Format(
        "pprof",
        ".pb.gz",
        exported="the same stacks as a profile with labels for container, process, operation and reason",
        use="`pprof`, Grafana Pyroscope, Polar Signals, Perfetto",
        write=_write_pprof,
        binary=True,
    ),
    Format(
        "collapsed",
        ".collapsed",
        exported="the same as collapsed stacks, weighted by microseconds",
        use="`flamegraph.pl`, inferno, speedscope",
        write=_write_collapsed,
    ),
    Format(
        "csv",
        ".csv",
        label="CSV",
        saved="this table: every row and column, raw figures",
        saved_in_full=(
            "the table with the keyboard focus: every row in the order of the screen, and every figure, also "
            "those for which the screen has no room; bars and P99 TREND are left out"
        ),
        save=_save_csv,
        exported="a line for every row of every window",
        use="spreadsheets, scripts",
        write=_write_csv,
    ),
    Format(
        "parquet",
        ".parquet",
        exported="the table of `csv`, with typed columns",
        use="pandas, Polars, DuckDB, Spark",
        write=_write_parquet,
        binary=True,
    ),
    Format(
        "json",
        ".jsonl",
        exported="a line for every window",
        use="scripts: the object of `once --json` ([json.md](json.md))",
        write=_write_json,
    ),
    Format(
        "hlog",
        "-hlog",
        exported="a folder of histogram logs",
        use="HdrHistogram's own tools",
        fill=_fill_hlog,
        replaces=_is_hlog,
    ),
    Format(
        "svg",
        ".svg",
        label="SVG",
        saved="a picture of the screen",
        saved_in_full="a picture of the screen",
        save=lambda shown: _svg(shown).encode(),
    ),
    Format(
        "png",
        ".png",
        label="PNG",
        saved="a picture of the screen",
        saved_in_full=(
            "a picture of the screen; it needs `rsvg-convert` (package `librsvg2-bin` or `librsvg2-tools`)"
        ),
        save=_save_png,
        problem=_png_problem,
    ),
    Format(
        "markdown",
        ".md",
        label="Markdown",
        saved="the report with tables to paste into an issue or a chat",
        saved_in_full=(
            "the report as Markdown, to paste into an issue or a chat: tables, and problems as code blocks; "
            "names are written as code, so that none of them becomes a link or a mention"
        ),
        save=_save_markdown,
        exported="a report with tables, all windows together",
        use="issues and chats that show Markdown",
        write=_write_markdown,
    ),
)
"""All formats, in the order in which documents and dialogues list them."""
SAVED: Final = tuple(one for one in FORMATS if one.save is not None)
"""Formats of ``w``; the first one is the default."""
EXPORTED: Final = {one.name: one for one in FORMATS if one.write is not None or one.fill is not None}
"""Formats of ``export --to``, by name."""


def saved_markdown() -> str:
    """Return the formats of ``w`` as a table for docs/saving.md."""
    lines = ["| format | ending | what one gets |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {one.label} | `{one.suffix}` | {one.saved_in_full} |" for one in SAVED)])


def exported_markdown() -> str:
    """Return the formats of ``export --to`` as a table for docs/export.md."""
    lines = ["| `--to` | what one gets | for |", "|---|---|---|"]
    return "\n".join(
        [*lines, *(f"| `{one.name}` | {one.exported} | {one.use} |" for one in EXPORTED.values())]
    )


def narrowed(window: Window, by: Filter) -> Window:
    """Return ``window`` with only the rows that pass the filter ``by``. Open calls, CUDA kernels, captured
    calls, stacks and chains stay only if they belong to such rows. Chains of the whole host stay, too."""
    if not by:
        return window
    passes = by.of(window)
    window = by.apply(window)
    kept = tuple(call for call in window.calls.kept if passes(RowKey(window.host, *call.row)))
    return replace(
        window,
        kernels=tuple(count for count in window.kernels if passes(RowKey(window.host, *count.row))),
        stacks=tuple(stack for stack in window.stacks if passes(RowKey(window.host, *stack.row))),
        calls=CapturedCalls(kept, window.calls.passed_over),
        chains=tuple(
            chain
            for chain in window.chains
            if not chain.tenant or any(map(passes, chain.rows or (_row_of(chain, window.host),)))
        ),
    )


def _row_of(chain: Chain, host: str) -> RowKey:
    """Return a row key for a chain that names no rows, made from the other fields of the chain."""
    return RowKey(host, chain.tenant, chain.pid, chain.process, chain.layer, chain.operation)
