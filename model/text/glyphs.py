"""The characters that drawings and figures are made of: one set for UTF-8, one of ASCII only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Glyphs:
    """One character, or a few, for each thing that is drawn. Levels are strings with the lowest first.

    The defaults are those for UTF-8.
    """

    missing: str = "–"
    """Stands for a figure that is not known."""
    micro: str = "µ"
    """The prefix of a millionth."""
    ellipsis: str = "…"
    """Ends a text that is cut to a width; one column."""
    dots: str = "…"
    """The same where the width does not matter."""
    separator: str = " › "
    """Between the levels of a path, such as a container and its process."""
    remedy: str = "→ "
    """Before what helps against a problem."""
    cursor: str = "▸"
    """Before the row that has the cursor."""
    place: str = "·"
    """Before that row in a table that does not have the keys."""
    moment: str = "◆"
    """The moment that is shown, on the time line."""
    left: str = "‹"
    """There are more columns to the left."""
    right: str = "›"
    up: str = "▲"
    """Sorted with the smallest on top; also points up at a place."""
    down: str = "▼"
    chosen: str = "✓"
    ok: str = "✓"
    """The verdicts of the readiness check, all of one width."""
    warn: str = "!"
    fail: str = "✗"
    bar: str = "━"
    """The filled part of a bar."""
    half_bar: str = "╸"
    """Half a cell of it; empty where there is none."""
    track: str = "─"
    """The rest of a bar."""
    done: str = "▰"
    """The part of an operation that is done, and the part that is not."""
    undone: str = "▱"
    levels: str = "▁▂▃▄▅▆▇█"
    """Levels of a sparkline."""
    trend_levels: str = "▁▂▃▄▅▆▇"
    """Levels of the trend of a p99 in a table; an odd number, so that one is in the middle."""
    timeline_levels: str = "▁▂▃▄▅▆▇█"
    """Levels of lost time on the time line, one for each half decade."""
    area_levels: str = " ▁▂▃▄▅▆▇█"
    """Parts of a cell of a chart, from empty to full."""
    histogram_levels: str = " ▁▂▃▄▅▆▇█"
    """Parts of a cell of a histogram, from empty to full."""
    rule: str = "─"
    """A horizontal line, and on an axis the place of a tick, the side, a labelled side, and the corner."""
    tick: str = "┬"
    side: str = "│"
    tee: str = "┤"
    corner: str = "└"
    branch: str = "├─ "
    """In a tree: before a link that has siblings below it, before the last one, and beside their links."""
    last_branch: str = "└─ "
    trunk: str = "│  "

    def plain(self, text: str) -> str:
        """Return ``text``; in ASCII with a question mark for each character beyond it."""
        return text.encode("ascii", "replace").decode("ascii") if self is ASCII else text


UNICODE = Glyphs()
ASCII = Glyphs(
    missing="-",
    micro="u",
    ellipsis="~",
    dots="...",
    separator=" > ",
    remedy="-> ",
    cursor=">",
    place=".",
    moment="^",
    left="<",
    right=">",
    up="^",
    down="v",
    chosen="x",
    ok="ok  ",
    warn="warn",
    fail="FAIL",
    bar="#",
    half_bar="",
    track=".",
    done="#",
    undone="-",
    levels="_.:-=+*#",
    trend_levels="_.-=+*#",
    timeline_levels="_.-=+*%#",
    area_levels=" ..:::###",
    histogram_levels=" .:|",
    rule="-",
    tick="+",
    side="|",
    tee="+",
    corner="+",
    branch="|- ",
    last_branch="`- ",
    trunk="|  ",
)
