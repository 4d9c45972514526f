"""Writes windows as Markdown to paste into an issue or a chat: problems with their fixes, and tables.

Texts from a host, such as names and messages, stand in code spans and code blocks. So no program that renders
Markdown takes them for markup, a link or a mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from stalltop.formats.course import courses
from stalltop.formats.tables.sheet import Sheet, columns_of, largest, others
from stalltop.formats.text import chains as chain_text
from stalltop.formats.text.window import facts, remarks
from stalltop.model.chain import worst_first
from stalltop.model.merge.merging import merge
from stalltop.model.text.figures import moment, printable
from stalltop.model.text.glyphs import UNICODE, Glyphs
from stalltop.model.text.style import Style
from stalltop.model.window import Window

WIDTH: Final = 100
"""Width of the lines in code blocks, in cells. A comment on GitHub or GitLab is about as wide."""
MOST_ROWS: Final = 20
"""Maximum number of rows of a table. Only the table that the screen shows has all its rows."""
MOST_CHAINS: Final = 10
"""Maximum number of problems for each host. The whole text must fit an issue, which has at most 64 KiB."""
_BAR: Final = "\\|"
"""A vertical bar inside a table cell, as Markdown needs it."""
_BACKTICKS: Final = re.compile("`+")


def screen(window: Window, shown: Sheet, glyphs: Glyphs) -> str:
    """Return the document for ``window`` and the table that the screen shows, ``shown``. With ``ASCII``
    glyphs the text is ASCII."""
    return _document(window, [window], shown, Style(WIDTH, False, glyphs))


def export(windows: Iterable[Window], start: float, end: float) -> str:
    """Return one document for all ``windows`` together. Each problem is shown as it was at its worst, in the
    last period in which it was open.

    ``windows`` must be in order of time and lie between ``start`` and ``end`` (Unix seconds). Raises
    ValueError if there are none.
    """
    found, episodes = courses(windows, max(end - start, 1e-3))
    if not found:
        raise ValueError("an export needs at least one window")
    hosts = [course.window(episodes) for course in found]
    return _document(merge(hosts), hosts, None, Style(WIDTH, False, UNICODE))


def _document(whole: Window, hosts: Sequence[Window], shown: Sheet | None, style: Style) -> str:
    """Return the Markdown document for ``whole``, which is the merged window of ``hosts``. The chains come
    from each of ``hosts``, because the tenant ids in a chain are valid only on its host."""
    parts = [f"## stalltop {_code(whole.host)}"]
    parts.append(_block([*facts(whole, style), f"began {moment(whole.start)}"]))
    for host in hosts:
        of = f" on {_code(host.host)}" if len(hosts) > 1 else ""
        chains = sorted(host.chains, key=worst_first)
        parts += [f"### Problems{of}"] if chains else []
        parts += [_block(chain_text.explained(chain, host, style)) for chain in chains[:MOST_CHAINS]]
        parts += _more(len(chains) - MOST_CHAINS)
    parts += _table(shown, style) if shown is not None else []
    for table in others(whole, shown):
        parts += _table(replace(table, rows=table.rows[:MOST_ROWS]), style)
        parts += _more(len(table.rows) - MOST_ROWS)
    found = [remark for remark in remarks(whole, style) if remark]
    parts += ["### Remarks", *map(_block, found)] if found else []
    return "\n\n".join(parts) + "\n"


def _table(table: Sheet, style: Style) -> list[str]:
    """Return a heading and a Markdown table with all rows. Columns whose figures are all 0 or not known are
    left out."""
    title = f"### {_code(style.plain(table.title))}"
    if not table.rows:
        return [title, "no row"]
    shown = [column for column in columns_of(table) if any(getattr(row, column.field) for row in table.rows)]
    split = any(row.split_ns for row in table.rows)
    heads = [*table.by, *(column.head for column in shown), *(["time went to"] if split else [])]
    rules = ["---"] * len(table.by) + ["---:"] * len(shown) + ["---"] * split
    lines = [_line(heads), _line(rules)]
    for row in table.rows:
        cells = [_code(style.plain(name)) if name else "" for name in row.label]
        cells += [column.shown(getattr(row, column.field), style.glyphs).strip() for column in shown]
        lines.append(_line([*cells, *([largest(row)] if split else [])]))
    return [title, "\n".join(lines)]


def _line(cells: Iterable[str]) -> str:
    # A bar without a backslash would end the cell, even inside a code span.
    return f"| {' | '.join(cell.replace('|', _BAR) for cell in cells)} |"


def _more(rows: int) -> list[str]:
    return [f"and {rows} more"] if rows > 0 else []


def _fence(text: str, least: int) -> str:
    """Return a fence for a code span or block around ``text``: at least ``least`` backticks, and more than
    any run of backticks in ``text`` has."""
    return "`" * max([least, *(len(found) + 1 for found in _BACKTICKS.findall(text))])


def _code(text: str) -> str:
    text = printable(text)
    fence = _fence(text, 1)
    # A blank separates a backtick of the text from the fence. Markdown does not show this blank.
    apart = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{apart}{text}{apart}{fence}"


def _block(lines: Iterable[str]) -> str:
    text = "\n".join(map(printable, lines))
    fence = _fence(text, 3)
    return f"{fence}text\n{text}\n{fence}"
