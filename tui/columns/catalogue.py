"""The columns of tables of groups: id, heading, width, help and sort order of each, and when it is shown.

Settings, tables, the list of columns and the help page are derived from it. It imports neither numpy nor
Textual, because the command line needs the ids before any screen. ``now.py`` and ``against.py`` draw the
cells, and ``tui/pair/cells.py`` those of two rows side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from stalltop.tui.views.orders import WORST

Need = Literal["", "split", "past", "mark", "baseline", "use", "owner", "held", "errors", "loss", "open"]
"""What data a column needs: measured splits, earlier windows, a mark (the window to compare with,
``Grouped.before``), baselines of some rows, the resources that processes used, the user or namespace of some
tenants, the device memory that processes hold, calls that failed, problems that cost time, or calls that have
not returned for a second."""
WITHOUT: Final[Mapping[Need, str]] = {
    "split": "empty: where the time went was not measured",
    "past": "empty: there are no earlier windows; a recording has them, a saved window has not",
    "baseline": "empty: no row has a baseline yet; in a saved file: none had one when it was saved",
    "use": "empty: what processes use was not measured",
    "owner": "empty: no tenant has a known user or namespace",
    "held": "empty: no process holds memory of a GPU, as far as is known",
    "errors": "not needed now: no call of this window returned an error",
    "loss": "not needed now: no problem costs time",
    "open": "not needed now: no call has lasted for a second or longer without returning",
}
"""Why a column is empty, by the need that the data does not meet."""
Usual = Literal["", "first", "last", "changes", "wider", "normal", "resources"]
"""In which tables a column is shown while the user has chosen no columns:

* ``""``: in none;
* ``first`` and ``last``: in every table; in a narrow one, the ``last`` columns come after all others;
* ``normal``: where there is room, after the ``first`` ones;
* ``resources``: likewise, in tables whose rows are tenants or processes;
* ``changes`` and ``wider``: only in tables that are wide enough (the widths: ``choice.defaults``).
"""

SPLIT_CELLS: Final = 10
"""The least length in cells of the bar that shows where the time went."""
MOST_SPLIT_CELLS: Final = 30
"""The length to which it grows in a table with cells to spare."""
TREND_WINDOWS: Final = 10
"""Number of windows that the trend of a row shows, one cell each."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column that a table may have."""

    id: str
    heading: str
    """Empty for the column ``beside``, whose heading is a dimension, and for columns without a heading."""
    width: int
    help: str
    usual: Usual = ""
    sort: str | None = None
    """Id of the column by which a click on the heading sorts. None: this column; empty: a click has no
    effect."""
    right: bool = True
    needs: Need = ""
    of_calls: bool = False
    """Whether the column shows a figure of calls. If rows are sorted by the column, rows for the time between
    calls come last, because they have no calls."""


# fmt: off
COLUMNS: Final = (
    TableColumn("beside", "", 18,
                "the container of a process, the layer of an operation, the namespace of a pod",
                "last", sort="name", right=False),
    TableColumn("problem_time", "LOST/S", 6, "time lost per second through problems; shown if there are any",
                "first", needs="loss"),
    TableColumn("calls", "CALL/S", 6, "calls per second over the window", "first", of_calls=True),
    TableColumn("p50", "P50", 6, "50th percentile latency (median)", "first", of_calls=True),
    TableColumn("p95", "P95", 6, "95th percentile latency; ~ for fewer than 20 calls",
                "first", of_calls=True),
    TableColumn("p99", "P99", 6, "99th percentile latency; ~ for fewer than 100 calls",
                "first", of_calls=True),
    TableColumn("max", "MAX", 6, "longest call", "first", of_calls=True),
    TableColumn("mean", "MEAN", 6, "TOTAL divided by CALLS; far above P50 if few calls take most of the time",
                of_calls=True),
    TableColumn("total", "TOTAL", 6,
                "time in calls that returned, summed over threads; open calls count for the order of rows",
                "first", of_calls=True),
    TableColumn("share", "SHARE", 5, "share of the time in all calls; inside a row: in all calls of that row",
                "first", sort="total"),
    TableColumn("bar", "", 10, "SHARE as a bar", sort="total", right=False),
    TableColumn("split", "SPLIT", SPLIT_CELLS, "where the time of the calls went, by letters and colours",
                "first", sort="", right=False, needs="split"),
    TableColumn("starved", "STARVED", 7,
                "time in which the calls waited for a CPU, the disk or memory, summed over threads",
                needs="split"),
    TableColumn("trend", "P99 TREND", TREND_WINDOWS,
                "p99 of each of the ten newest windows; each row has its own scale",
                "changes", sort="change", right=False, needs="past"),
    TableColumn("change", "P99/MED", 7, "p99 divided by the row's median p99 in the last 10 to 60 windows",
                "changes", needs="past"),
    TableColumn("open", "OPEN", 6,
                "age of the oldest call that has not returned yet; shown from one second on",
                "first", needs="open"),
    TableColumn("errors", "ERR", 5, "calls that returned an error; shown when there are any",
                "first", needs="errors"),
    TableColumn("bytes", "BYTES/S", 7, "bytes moved per second; empty for calls that move none", "last"),
    TableColumn("n", "CALLS", 6, "calls within the window", sort="calls"),
    TableColumn("normal", "vs BASE", 7,
                "p99 divided by its baseline, learned from windows without problems; a dash: no baseline yet",
                "normal", needs="baseline"),
    TableColumn("cpu", "CPU%", 5, "CPU time that its processes use at present, in percent of one CPU",
                "resources", needs="use"),
    TableColumn("rss", "RSS", 7, "memory of the host that its processes use (resident set size)",
                "resources", needs="use"),
    TableColumn("gpu_memory", "GPU MEM", 7,
                "memory that its processes hold on all GPUs; in a table of GPUs, on that GPU",
                "resources", needs="held"),
    TableColumn("owner", "USER/NS", 10, "the user of a job or session, the namespace of a pod",
                "resources", sort="", right=False, needs="owner"),
    TableColumn("procs", "PROCS", 5, "processes that made the calls", "wider"),
    TableColumn("device", "GPU", 5,
                "devices on which its calls ran; else those on which its processes hold a context", "wider"),
)
# fmt: on
"""The columns that show a row as it is in the window, in the order in which they are offered."""
_BY_ID: Final = {column.id: column for column in COLUMNS}


def _again(name: str, suffix: str, heading: str, help_: str, needs: Need = "") -> TableColumn:
    """Return the column that shows the figure of the column ``name`` for one of two windows or rows. ``{}``
    in ``heading`` stands for the heading of ``name``."""
    one = _BY_ID[name]
    heading = heading.format(one.heading)
    return TableColumn(
        f"{name}_{suffix}",
        heading,
        max(one.width, len(heading)),
        f"{help_}: {one.help}",
        sort="" if one.sort == "" else None,
        right=one.right,
        needs=needs or one.needs,
    )


def _was(name: str) -> TableColumn:
    return _again(name, "was", "{} WAS", "then", "mark")


def _now(name: str) -> TableColumn:
    return _again(name, "now", "NOW", "now", "mark")


def _ratio(name: str) -> TableColumn:
    heading = _BY_ID[name].heading
    help_ = f"{heading} now divided by then; ~ if it may be chance"
    return TableColumn(f"{name}_ratio", f"x{heading}", 5, help_, needs="mark")


# fmt: off
MARK_COLUMNS: Final = (
    TableColumn("lost", "LOST/S", 7,
                "time lost per second because calls take longer than at the mark; ~ if it may be chance",
                needs="mark"),
    TableColumn("lost_share", "SHARE", 5, "share of all time lost or gained since then",
                sort="lost", needs="mark"),
    _was("p99"), _now("p99"), _ratio("p99"),
    _was("split"), _now("split"),
    _was("calls"), _now("calls"),
    _was("p50"), _now("p50"), _ratio("p50"),
)
# fmt: on
"""The columns that compare a row with the same row at the mark, in the order in which they are shown."""


def _both(name: str) -> tuple[TableColumn, TableColumn]:
    return _again(name, "a", "{} A", "A"), _again(name, "b", "{} B", "B")


PAIR_COLUMNS: Final = (
    *_both("p99"),
    TableColumn("ratio", "B/A", 5, "p99 of B divided by p99 of A"),
    TableColumn("more", "B-A", 7, "how much more time B took than A"),
    *_both("split"),
    *_both("total"),
    *_both("calls"),
    *_both("p50"),
    *_both("n"),
)
"""The columns that show two rows, A and B, side by side, in the order in which they are shown. The first
ones, which fit on 80 cells, show how the rows differ and why."""


def _sorts(columns: Sequence[TableColumn]) -> tuple[str, ...]:
    return ("name", *(column.id for column in columns if column.sort is None))


BY_ID: Final = {**_BY_ID, **{column.id: column for column in MARK_COLUMNS}}
"""The columns of the tables of the main screen by id."""
IDS: Final = tuple(column.id for column in COLUMNS)
"""The columns that a user may choose."""
SORTS: Final = (WORST, *_sorts(COLUMNS))
"""The orders that a user may choose: worst first, or by one of the columns."""
PAIR_SORTS: Final = _sorts(PAIR_COLUMNS)
"""Ids of the columns by which the comparison of two rows can be sorted, in the order in which the sort key
selects them."""
