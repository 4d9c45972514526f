"""The characters that drawings and figures are made of: one set for terminals with UTF-8, one of ASCII
only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Glyphs:
    """The character or characters for each thing that is drawn. A field of levels has one character for each
    level, the lowest level first.

    The defaults are the characters for UTF-8.
    """

    missing: str = "–"
    """Stands for an unknown figure."""
    micro: str = "µ"
    """The unit prefix for a millionth, as in µs."""
    ellipsis: str = "…"
    """Ends a text that is cut to a width; takes exactly one column."""
    dots: str = "…"
    """Ends a text where the number of columns does not matter."""
    separator: str = " › "
    """Stands between the levels of a path, such as a container and its process."""
    remedy: str = "→ "
    """Stands before the remedy for a problem."""
    cursor: str = "▸"
    """Stands before the row with the cursor, in the table that has the keyboard focus."""
    place: str = "·"
    """Stands before the row with the cursor, in a table that does not have the keyboard focus."""
    moment: str = "◆"
    """Marks, on the time line, the moment that the screen shows."""
    left: str = "‹"
    """Indicates that a table has more columns to the left."""
    right: str = "›"
    """Indicates that a table has more columns to the right."""
    up: str = "▲"
    """Marks a column sorted with the smallest value on top; below a distribution, points up at p50, p95, p99
    and the longest call."""
    down: str = "▼"
    """Marks a column sorted with the largest value on top."""
    received: str = "↓"
    """Stands before the bytes that the host received over the network."""
    sent: str = "↑"
    """Stands before the bytes that the host sent over the network."""
    chosen: str = "✓"
    """Marks the chosen entry of a list."""
    ok: str = "✓"
    """Verdict ``ok`` of the readiness check. The three verdicts have the same width."""
    warn: str = "!"
    """Verdict ``warn`` of the readiness check."""
    fail: str = "✗"
    """Verdict ``fail`` of the readiness check."""
    bar: str = "━"
    """A filled cell of a bar."""
    half_bar: str = "╸"
    """A half filled cell of a bar; '' if the character set has none."""
    track: str = "─"
    """An empty cell of a bar."""
    done: str = "▰"
    """A cell of a progress bar for work that is done."""
    undone: str = "▱"
    """A cell of a progress bar for work that is not done."""
    levels: str = "▁▂▃▄▅▆▇█"
    """Levels of a sparkline."""
    trend_levels: str = "▁▂▃▄▅▆▇"
    """Levels of the trend of a p99 in a table; their number is odd, so that one level is in the middle."""
    timeline_levels: str = "▁▂▃▄▅▆▇█"
    """Bars of the time line, by lost time per second on a logarithmic scale: each stands for about
    three times the lost time of the bar before it."""
    area_levels: str = " ▁▂▃▄▅▆▇█"
    """A cell of a chart, from empty to full."""
    braille: bool = True
    """Whether graphs are drawn with braille patterns, which have two columns of four dots in a cell;
    otherwise with ``area_levels``."""
    histogram_levels: str = " ▁▂▃▄▅▆▇█"
    """A cell of a histogram, from empty to full."""
    part_fills: str = "─▒█▚╳═▓▞·░"
    """One character for each part of a call's time, in the order of ``model.window.PARTS``. In a bar without
    colours, it fills the cells of this part, after the letter of the part: light ones for work of the CPU and
    the GPU and for sleep, heavy ones for waits."""
    part_line: str = "━"
    part_block: str = "▄"
    """Fills the cells of normal work in a bar of the parts of a call's time, after the letter of the part."""
    rule: str = "─"
    """A horizontal line."""
    tick: str = "┬"
    """A tick on the horizontal axis of a chart."""
    side: str = "│"
    """The vertical axis of a chart."""
    tee: str = "┤"
    """The vertical axis of a chart beside a label."""
    corner: str = "└"
    """The corner where the two axes of a chart meet."""
    frame_corners: str = "╭╮╰╯"
    """The corners of a frame: top left, top right, bottom left, bottom right."""
    frame_tees: str = "├┤"
    """The left and right ends of a line between two parts of one frame."""
    panel_digits: str = "⁰¹²³⁴⁵⁶⁷⁸⁹"
    """The digits 0 to 9 in the form for the number before the title of a panel."""
    instant: str = "┊"
    """Marks, in a graph, the moment that the screen shows."""
    branch: str = "├─ "
    """In a tree, stands before a link that is followed by a sibling."""
    last_branch: str = "└─ "
    """In a tree, stands before the last of several siblings."""
    trunk: str = "│  "
    """In a tree, a vertical line that leads on to a sibling or a deeper link further below."""

    def plain(self, text: str) -> str:
        """Return ``text``. For the ASCII set, each character that is not ASCII becomes a question mark."""
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
    received="<",
    sent=">",
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
    braille=False,
    histogram_levels=" .:|",
    part_fills="-=#&x~%+._",
    part_line="-",
    part_block="=",
    rule="-",
    tick="+",
    side="|",
    tee="+",
    corner="+",
    frame_corners="++++",
    frame_tees="++",
    panel_digits="0123456789",
    instant="|",
    branch="|- ",
    last_branch="`- ",
    trunk="|  ",
)
