"""The text that ``diff`` prints: what changed between two windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rich.cells import cell_len

from stalltop.formats.text import chains as chain_text
from stalltop.formats.text.window import LEAST_WIDTH
from stalltop.model.comparing.chain_difference import ChainChange, State, shares
from stalltop.model.comparing.compared_windows import ComparedWindows
from stalltop.model.comparing.difference import ComparedSide, Difference
from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.text.style import BOLD, DIM, ENDLESS, RED, YELLOW, Style
from stalltop.model.text.words import numbered
from stalltop.model.window import Window

MOST_ROWS: Final = 20
"""Maximum number of rows, and of faults, that are listed without ``--all``."""
MOST_LINES: Final = 10
"""Maximum number of lines of code that are listed without ``--all``."""
_LABEL: Final = (16, 40)
"""Least and largest width of each name of a row, in cells."""
_STATES: Final[dict[State, tuple[str, str]]] = {
    "new": ("NEW", RED),
    "worse": ("WORSE", YELLOW),
    "same": ("same", ""),
    "better": ("better", DIM),
    "gone": ("gone", DIM),
}
"""Word and colour for each state of a chain."""


@dataclass(frozen=True, slots=True)
class _DiffColumn:
    head: str
    width: int
    keep: int
    """If there is little room, columns with higher numbers are dropped first."""
    cell: Callable[[Difference, int, Glyphs], str]


def _percentile(column: str, which: str) -> Callable[[Difference, int, Glyphs], str]:
    def cell(found: Difference, row: int, glyphs: Glyphs) -> str:
        side: ComparedSide = getattr(found, which)
        at = side.at[row]
        known = at >= 0 and side.groups.calls[at]
        return figures.duration(getattr(side.groups, column)[at] if known else None, glyphs)

    return cell


def _ratio(percent: float) -> Callable[[Difference, int, Glyphs], str]:
    """Return a function that writes the ratio of a percentile in window B to that in window A. It adds a
    question mark if the change is not significant."""

    def cell(found: Difference, row: int, glyphs: Glyphs) -> str:
        ratio = float(found.ratio(percent)[row])
        if not ratio > 0:
            return figures.missing(7, glyphs)
        mark = " " if found.sure(percent)[row] else "?"
        return figures.rate(ratio, glyphs) + "x" + mark

    return cell


def _mean_ratio(found: Difference, row: int, glyphs: Glyphs) -> str:
    ratio = float(found.mean_ratio[row])
    return figures.rate(ratio, glyphs) + "x" if ratio > 0 else figures.missing(8, glyphs)


def _rate(which: str) -> Callable[[Difference, int, Glyphs], str]:
    return lambda found, row, glyphs: figures.rate(float(getattr(found, which).calls_per_s[row]), glyphs)


def _lost(found: Difference, row: int, glyphs: Glyphs) -> str:
    if found.new[row]:
        return "new"
    if found.gone[row]:
        return "gone"
    lost = float(found.lost_ns_per_s[row])
    text = figures.duration(abs(lost), glyphs).strip()
    return text if text == "0ns" else ("+" if lost > 0 else "-") + text


_COLUMNS: Final = (
    _DiffColumn("lost/s", 7, 0, _lost),
    _DiffColumn("mean B/A", 8, 0, _mean_ratio),
    _DiffColumn("share", 5, 3, lambda f, i, u: figures.percent(100 * float(f.share[i]), u)),
    _DiffColumn("p99 A", 6, 2, _percentile("p99_ns", "then")),
    _DiffColumn("p99 B", 6, 1, _percentile("p99_ns", "now")),
    _DiffColumn("p99 B/A", 7, 0, _ratio(99.0)),
    _DiffColumn("p50 A", 6, 6, _percentile("p50_ns", "then")),
    _DiffColumn("p50 B", 6, 5, _percentile("p50_ns", "now")),
    _DiffColumn("p50 B/A", 7, 4, _ratio(50.0)),
    _DiffColumn("call/s A", 8, 8, _rate("then")),
    _DiffColumn("call/s B", 8, 7, _rate("now")),
)


def diff_text(diff: ComparedWindows, style: Style, *, all_rows: bool = False) -> str:
    """Return ``diff`` as text that fits ``style`` (40 cells or more) and ends in a newline. If the width is
    ``ENDLESS``, names are not cut and lines are not folded. With ``all_rows``, rows and chains without a
    change are listed, too."""
    style = style.at_least(LEAST_WIDTH)
    parts = [_head(diff, style), _table(diff, style, all_rows), _faults(diff, style, all_rows)]
    parts += [_lines(diff, style, all_rows), _judged(diff, style)]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _lines(diff: ComparedWindows, style: Style, all_rows: bool) -> list[str]:
    """Return the lines of code in which threads spend more or less time."""
    if not diff.lines:
        return []
    shown = diff.lines if all_rows else diff.lines[:MOST_LINES]
    head = (
        "  ".join(name.rjust(8) for name in ("more/s", "A", "B"))
        + "  line of code (time of threads a second)"
    )
    lines = [style.paint(head if cell_len(head) <= style.width else style.fit(head, style.width), BOLD)]
    for change in shown:
        more = figures.duration(abs(change.more_ns_per_s), style.glyphs).strip()
        times = (
            ("+" if change.more_ns_per_s > 0 else "-") + more,
            *(figures.duration(ns, style.glyphs) for ns in (change.then_ns_per_s, change.now_ns_per_s)),
        )
        frame = change.frame
        place = f"{frame.place} {frame.function}" if frame.line else frame.place
        text = "  ".join(time.rjust(8) for time in times) + f"  {figures.printable(place)}"
        lines.append(text if cell_len(text) <= style.width else style.fit(text, style.width))
    if len(shown) < len(diff.lines):
        lines.append(style.paint(f"and {len(diff.lines) - len(shown)} more (--all)", DIM))
    return lines


def _head(diff: ComparedWindows, style: Style) -> list[str]:
    lines = []
    for letter, window in (("A", diff.then), ("B", diff.now)):
        facts = [f"{letter}  {window.host}", figures.moment(window.start), f"{window.seconds:.1f} s"]
        facts += ["SIMULATED"] if window.simulated else []
        calls = int(sum(diff_calls for diff_calls in _outermost(window)))
        facts.append(f"{figures.count(calls).strip()} {'call' if calls == 1 else 'calls'}")
        facts += [f"{figures.count(window.lost).strip()} not counted"] if window.lost else []
        lines += [style.paint(line, BOLD) for line in style.wrapped(facts)]
    return lines


def _outermost(window: Window) -> Sequence[int]:
    rows = window.rows
    return [calls for key, calls in zip(rows.keys, rows.calls.tolist(), strict=True) if key.outermost]


def _table(diff: ComparedWindows, style: Style, all_rows: bool) -> list[str]:
    found = diff.compared.difference
    shown = [i for i in diff.order if all_rows or found.changed[i]]
    if not shown:
        return style.folded("", f"None of {numbered(len(diff.order), 'row')} has changed significantly.")
    names = [_names(diff, i) for i in shown]
    columns, widths = _layout([diff.by, *names], style)
    titles = [style.fit(name, width) for name, width in zip(diff.by, widths, strict=True)]
    head = " ".join([*titles, *(column.head.rjust(column.width) for column in columns)])
    lines = [style.paint(head.rstrip(), BOLD)]
    most = len(shown) if all_rows else MOST_ROWS
    for i, name in list(zip(shown, names, strict=True))[:most]:
        cells = [figures.middle(part, width, style.glyphs) for part, width in zip(name, widths, strict=True)]
        cells += [column.cell(found, i, style.glyphs).rjust(column.width) for column in columns]
        code = DIM if not found.changed[i] else RED if _bad(found, i) else ""
        lines.append(style.paint(" ".join(cells).rstrip(), code))
    rest = len(shown) - most
    same = len(diff.order) - len(shown)
    more = [f"{rest} more that changed"] * (rest > 0) + [f"{same} without a significant change"] * (same > 0)
    lines += [f"and {', '.join(more)} (--all)"] if more else []
    lines += [
        style.paint(line, DIM)
        for line in style.folded(
            "",
            "lost/s: time lost per second because calls take longer in B on average (mean B/A); a few very "
            "long calls raise this average even if p50 and p99 fall; ?: may be chance, too few calls",
        )
    ]
    return lines


def _bad(found: Difference, row: int) -> bool:
    """Return whether a row is shown in red: both windows have the row, it loses time, and its
    ``Difference.share`` is at least 10 %."""
    return bool(found.lost_ns_per_s[row] > 0 and found.share[row] >= 0.1 and not found.new[row])


def _names(diff: ComparedWindows, row: int) -> tuple[str, ...]:
    """Return the names of a row, one for each dimension. If its calls are nested, the last name is in
    parentheses."""
    found = diff.compared.difference
    *where, last = (figures.printable(part) for part in diff.compared.labels[row])
    return (*where, f"({last})" if found.nested[row] else last)


def _layout(names: Sequence[Sequence[str]], style: Style) -> tuple[Sequence[_DiffColumn], Sequence[int]]:
    """Return the columns for which there is room, and the widths of the names in front of them."""
    least, most = _LABEL
    columns = list(_COLUMNS)
    longest = [max(cell_len(part) for part in parts) for parts in zip(*names, strict=True)]
    if style.width < ENDLESS:
        longest = [min(length, most) for length in longest]

    def room() -> int:
        return style.width - sum(column.width + 1 for column in columns) - (len(longest) - 1)

    while room() < sum(min(length, least) for length in longest) and len(columns) > 2:
        columns.remove(max(columns, key=lambda column: column.keep))
    widths = list(longest)
    while sum(widths) > max(room(), len(widths)):
        widths[widths.index(max(widths))] -= 1
    return columns, widths


def _faults(diff: ComparedWindows, style: Style, all_rows: bool) -> list[str]:
    part = shares(diff.faults)
    told = [
        (change, share) for change, share in zip(diff.faults, part, strict=True) if all_rows or change.fault
    ]
    if not told:
        return []
    lines = [style.paint("problems, A against B", BOLD)]
    most = len(told) if all_rows else MOST_ROWS
    for change, share in told[:most]:
        word, code = _STATES[change.state]
        text = _said(diff, change, share, style)
        lines += [style.paint(line, code) for line in style.folded(f"{word:6}  ", text)]
    return lines if len(told) <= most else [*lines, f"and {len(told) - most} more (--all)"]


def _said(diff: ComparedWindows, change: ChainChange, share: float, style: Style) -> str:
    chain = change.chain
    then, now = change.then, change.now
    window = diff.now if now is not None else diff.then

    def rate(lost_ms_per_s: float) -> str:
        return chain_text.rate(lost_ms_per_s * 1e6, style.glyphs).strip()

    cost = [
        f"{letter}: {rate(side.lost_ms_per_s)}"
        for letter, side in (("A", then), ("B", now))
        if side is not None and side.lost_ms_per_s > 0
    ]
    if change.ratio is not None:
        cost.append(f"{figures.rate(change.ratio).strip()}x")
    if share > 0:
        cost.append(f"{figures.percent(100 * share).strip()} of the change")
    cost.append(chain_text.sureness(replace(chain, confidence=change.confidence), "cause "))
    tenant = chain_text.name_of(chain.tenant, window)
    text = f"{chain.severity.upper()} {chain.summary or f'{tenant}: {chain.title}'}"
    return figures.printable(f"{text} ({', '.join(cost)})")


def _judged(diff: ComparedWindows, style: Style) -> list[str]:
    """Return lines that say, for each condition of ``--fail-if``, which rows meet it."""
    lines: list[str] = []
    for condition, met in diff.conditions:
        said = [" > ".join(_names(diff, i)) for i in met.rows[:MOST_ROWS]]
        rest = len(met.rows) - len(said)
        said += [f"{rest} more"] if rest > 0 else []
        said += [f"{met.faults} new"] if met.faults is not None else []
        if said:
            text, code = f"{condition.text}: {', '.join(said)}", RED
            lines += [style.paint(line, code) for line in style.folded("FAILED  ", text)]
        else:
            unsure = (
                f" (perhaps met by {len(met.unsure)} of the rows: too few calls to be sure)"
                if met.unsure
                else ""
            )
            lines += style.folded("ok      ", f"{condition.text}{unsure}")
    return lines
