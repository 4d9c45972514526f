"""Divides a part of the screen among one to three tables, and the panels that fill the lines below them: up
to three graphs, and the panel about the first problem (``DETAIL``). Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from stalltop.widgets.drawing.frame import NO_FRAME, PanelFrame, Top

BESIDE_FROM = 160
"""Least number of terminal columns at which the second table is shown beside the first."""
MOST_SPARE = 10
"""The most cells that a table of containers gives to a table of operations beside it."""
HEADS = 2
"""Lines of a table above its rows: the title, which may be on a frame, and the column heads."""
LEAST_TABLE = HEADS + 3
"""The least number of lines of a table, without the bottom of its frame."""
THIRD_FROM = 10
"""If tables are in two columns, a third table is shown in a column with at least this many free lines."""
SPARE_FOR_THIRD = 3
"""If tables are one above the other, a third one is shown only if this many lines are left over beside it, so
that it does not go as soon as the list of problems gets longer."""
LEAST_GRAPH = 5
"""The least number of lines of a graph, with its frame."""
GOOD_GRAPH = 7
"""The number of lines that a graph gets before another graph is shown above or below it."""
TALL_GRAPH = 12
"""If graphs of this many lines or more have room above each other beside a table, there are several."""
ENOUGH_GRAPH = 9
"""Tables show rows that matter little before graphs below them get more lines than this."""
GRAPH_CELLS = 36
"""The least number of columns of a graph beside another."""
DETAIL = "detail"
DETAIL_CELLS = 60
"""The least number of columns of ``DETAIL`` beside graphs."""
GRAPH_BESIDE_DETAIL = 40
"""The least number of columns of a graph beside ``DETAIL``."""
EVEN_SHARE = 50
"""The share of the first of two tables, in percent, unless the user has changed it."""
TABLE_BESIDE_GRAPHS = HEADS + 10
"""A table that has more rows than fit gives lines to graphs only if it keeps this many lines; tables in two
columns: twice as many."""
TABLE_BESIDE_CHAIN = HEADS + 6
"""Like ``TABLE_BESIDE_GRAPHS``, if a chain needs the lines: it is shown whole, because it is the answer."""
SECOND_BESIDE_CHAIN = HEADS + 4
"""Lines that the second table keeps while a problem is shown: the first table has the slow tenants, and gets
the other lines. Where there is little room, the second table keeps two rows."""
Frames = Literal["", "rule", "box"]
"""How panels are framed: not at all; with a line that has the title; with a box."""


@dataclass(frozen=True, slots=True)
class TableNeeds:
    """What one table needs to show all of its content."""

    rows: int = 0
    """Number of lines with content below the column heads."""
    wanted: bool = True
    """Whether there is such a table."""
    more: int = 0
    """Number of further rows, which matter little: they get lines that would make a graph taller than
    ``ENOUGH_GRAPH``."""


NO_TABLE = TableNeeds(wanted=False)


@dataclass(frozen=True, slots=True)
class DetailNeeds:
    """What the panel ``DETAIL`` needs, in lines inside its frame."""

    wanted: bool = False
    """Whether there is such a panel."""
    whole: int = 0
    """Lines of its whole text, if it is as wide as the terminal."""
    chain: int = 0
    """Lines of the chain from what is slow to its root, if the panel is as narrow as it ever is
    (``detail_cells``)."""


NO_DETAIL = DetailNeeds()


@dataclass(frozen=True, slots=True)
class PanelPlace:
    """Where a panel stands in the room of the tables."""

    name: str
    """``main``, ``second`` or ``third``; ``graph1`` to ``graph3``; ``DETAIL``."""
    x: int
    y: int
    width: int
    height: int
    frame: PanelFrame = NO_FRAME


@dataclass(frozen=True, slots=True)
class Room:
    """The room of the tables and graphs, and how it is divided."""

    width: int
    height: int
    frames: Frames = ""
    beside: bool = False
    """Whether the second table stands beside the first, not below it."""
    share: int = EVEN_SHARE
    """Percent of the room that the first of two tables may take."""
    gives: bool = True
    """Whether the first table gives some of its width to the second."""
    detail: DetailNeeds = NO_DETAIL
    """What the panel ``DETAIL`` needs."""
    joined: bool = False
    """Whether a box of the same width ends right above the room. The boxes in the room then continue that
    box."""

    @property
    def for_band(self) -> int:
        """Return how many lines the panels below the tables get before a table gets more than its least."""
        if not self.detail.chain:
            return GOOD_GRAPH
        return max(GOOD_GRAPH, self.detail.chain + self.edges)

    @property
    def edges(self) -> int:
        """Return the lines of the frame of a panel below the tables."""
        return 2 if self.frames == "box" else 1


@dataclass(frozen=True, slots=True)
class TablesLayout:
    """Where the tables and graphs of the main screen are placed."""

    places: tuple[PanelPlace, ...] = ()
    alone: bool = False
    """Whether the tables take the whole screen, so that only one of them is shown."""

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the tables and graphs that are shown."""
        return frozenset(place.name for place in self.places)


def first_cells(width: int, share: int, *, gives: bool = True) -> int:
    """Return the width in cells of the first of two tables side by side. It may take ``share`` percent of
    ``width``.

    With ``gives`` the first table is up to ``MOST_SPARE`` cells narrower, because the second one shows
    operations, which have longer names and one more column of names than containers. Without ``gives`` it is
    wider by the same number of cells.
    """
    spare = min((width - BESIDE_FROM) // 5, MOST_SPARE)
    return width * share // 100 + (-spare if gives else spare)


def divide(room: Room, tables: Sequence[TableNeeds], graphs: int) -> tuple[PanelPlace, ...]:
    """Divide ``room`` among the first three ``tables``, up to ``graphs`` graphs and, if it is wanted, the
    panel about the first problem, so that no line stays empty if one of them can fill it.

    Tables get the lines that they fill. What is left is for the other panels, and if there are none, for a
    table.
    """
    first, second, third = [*tables, NO_TABLE, NO_TABLE][:3]
    fillers = [
        *((DETAIL,) if room.detail.wanted else ()),
        *(f"graph{number}" for number in range(1, graphs + 1)),
    ]
    if room.beside and second.wanted:
        return tuple(_beside(room, first, second, third, fillers))
    return tuple(_stacked(room, first, second, third, fillers))


# ---- one above the other


def _stacked(
    room: Room, first: TableNeeds, second: TableNeeds, third: TableNeeds, fillers: Sequence[str]
) -> Iterator[PanelPlace]:
    """Place the tables one above the other, and ``fillers`` below them."""
    usable = room.height - (room.frames == "box")
    for_band = room.for_band if fillers else 0
    heights = _two_heights(usable, room.share, first, second, for_band, chain=room.detail.chain > 0)
    left = usable - sum(heights)
    names = ["main", "second"][: len(heights)]
    if third.wanted and len(heights) == 2 and left >= LEAST_TABLE + SPARE_FOR_THIRD + for_band:
        heights.append(min(HEADS + third.rows, left - for_band))
        names.append("third")
        left -= heights[-1]
    if fillers:
        # Tables show rows that matter little before graphs get taller than they need to be.
        plenty = left - room.detail.whole - room.edges - ENOUGH_GRAPH
        for at in reversed(range(len(heights))):
            more = max(min((first, second, third)[at].more, plenty), 0)
            heights[at], left, plenty = heights[at] + more, left - more, plenty - more
    if not fillers or left < LEAST_GRAPH:
        # The table that lacks the most lines gets what is left; if none lacks any, the last one.
        needs = [HEADS + one.rows for one in (first, second, third)][: len(heights)]
        short = max(range(len(heights)), key=lambda at: (needs[at] - heights[at], at))
        heights[short] += left
        left = 0
    yield from _column(room, 0, room.width, zip(names, heights, strict=True), joined=room.joined)
    if left:
        yield from _band(room, room.height - left, left, fillers)


def _two_heights(
    usable: int, share: int, first: TableNeeds, second: TableNeeds, for_band: int, *, chain: bool
) -> list[int]:
    """Return the heights of the first table and of a second one below it; only one height if there is no
    second one or no room for both. Up to ``for_band`` lines of ``usable`` are left over if the tables keep
    enough lines without them. ``chain``: a chain needs these lines."""
    one, other = HEADS + first.rows, HEADS + second.rows
    whole = one + other if second.wanted else one
    least = TABLE_BESIDE_CHAIN if chain else TABLE_BESIDE_GRAPHS
    least += min(one, LEAST_TABLE + 1) if second.wanted else 0
    if chain and second.wanted:
        least = min(least, max(2 * LEAST_TABLE, usable - for_band))
    for_band = min(for_band, usable - least)
    if for_band >= (LEAST_GRAPH if chain else GOOD_GRAPH) and whole > usable - for_band:
        usable -= for_band
    if not second.wanted:
        return [min(max(one, LEAST_TABLE), usable)]
    if whole <= usable:
        return [one, other]
    most = max(min(usable * share // 100, usable - LEAST_TABLE), LEAST_TABLE)
    if chain and share >= EVEN_SHARE:
        kept = SECOND_BESIDE_CHAIN if usable >= 2 * SECOND_BESIDE_CHAIN else HEADS + 2
        most = max(most, usable - kept)
    if one < most:
        heights = [one, usable - one]
    elif other < usable - most:
        heights = [usable - other, other]
    else:
        heights = [most, usable - most]
    least_second = HEADS + 2 if chain else LEAST_TABLE
    room_for_both = heights[0] >= min(one, LEAST_TABLE) and heights[1] >= min(other, least_second)
    return heights if room_for_both else [usable]


def _column(
    room: Room, x: int, width: int, stack: Iterable[tuple[str, int]], *, joined: bool
) -> Iterator[PanelPlace]:
    """Place panels of one width one above the other. Neighbouring boxes share an edge; the last box also has
    a bottom edge, which takes one more line."""
    y, boxes = 0, room.frames == "box"
    panels = list(stack)
    for at, (name, height) in enumerate(panels):
        last = at == len(panels) - 1
        top: Top = "" if not room.frames else "rule" if not boxes else "tee" if at or joined else "corner"
        high = height + (boxes and last)
        yield PanelPlace(name, x, y, width, high, PanelFrame(top, boxes, boxes and last))
        y += high


# ---- side by side


def _beside(
    room: Room, first: TableNeeds, second: TableNeeds, third: TableNeeds, fillers: Sequence[str]
) -> Iterator[PanelPlace]:
    """Place the second table beside the first, a third one below the shorter of them, and ``fillers`` where
    there is room."""
    bottom = int(room.frames == "box")
    cells = first_cells(room.width, room.share, gives=room.gives)
    columns = ((0, cells), (cells, room.width - cells))
    needs = [HEADS + first.rows, HEADS + second.rows]
    stacks = [[("main", needs[0])], [("second", needs[1])]]
    short = 0 if needs[0] <= needs[1] else 1
    free = room.height - bottom - needs[short]
    if third.wanted and free >= THIRD_FROM:
        kept = LEAST_GRAPH if fillers else 0
        stacks[short].append(("third", max(min(HEADS + third.rows, free - kept), LEAST_TABLE)))
    band, at_side = _left_over(room, stacks, len(fillers))
    below = fillers[: len(fillers) - len(at_side[1])] if band else ()
    for number, (x, width) in enumerate(columns):
        heights = at_side[1] if number == at_side[0] else []
        high = room.height - band - sum(heights)
        stack = _filled(stacks[number], high - bottom)
        yield from _column(room, x, width, stack, joined=False)
        y = high
        for name, height in zip(fillers[len(below) :], heights, strict=False):
            yield _filler(room, name, x, y, width, height)
            y += height
    if band:
        yield from _band(room, room.height - band, band, below)


def _left_over(
    room: Room, stacks: Sequence[Sequence[tuple[str, int]]], fillers: int
) -> tuple[int, tuple[int, list[int]]]:
    """Return the height of the band of ``fillers`` panels below both columns of tables, 0 if there is none.
    Also return the number of the column with more free lines, and the heights of the panels in that
    column."""
    bottom = int(room.frames == "box")
    free = [max(room.height - bottom - sum(height for _, height in stack), 0) for stack in stacks]
    long = 0 if free[0] >= free[1] else 1
    more, less = free[long], free[1 - long]
    if not fillers:
        return 0, (long, [])
    band = less
    if room.detail.chain and room.height - bottom - room.for_band >= 2 * TABLE_BESIDE_CHAIN:
        band = max(less, room.for_band)
    if band >= LEAST_GRAPH:
        gap = more - band
        if gap >= LEAST_GRAPH and fillers > 1:
            return band, (long, _shares(gap, min(fillers - 1, max(gap // TALL_GRAPH, 1))))
        return band, (long, [])
    if more >= LEAST_GRAPH:
        return 0, (long, _shares(more, min(fillers, max(more // GOOD_GRAPH, 1))))
    if room.height - GOOD_GRAPH - bottom >= 2 * TABLE_BESIDE_GRAPHS:
        return GOOD_GRAPH, (long, [])
    return 0, (long, [])


def _shares(lines: int, number: int) -> list[int]:
    """Divide ``lines`` among ``number`` panels."""
    return [lines // number + (at < lines % number) for at in range(number)]


def _filled(stack: Sequence[tuple[str, int]], height: int) -> list[tuple[str, int]]:
    """Return ``stack`` with heights that add up to ``height``: the last panel gets the lines that are left;
    if there are too few lines, panels lose some, the last panel first."""
    found = list(stack)
    rest = height - sum(lines for _, lines in found)
    for at in reversed(range(len(found))):
        name, lines = found[at]
        changed = max(lines + rest, LEAST_TABLE if at else 1)
        found[at], rest = (name, changed), rest - (changed - lines)
        if not rest:
            break
    return found


# ---- the panels below


def detail_cells(width: int) -> int:
    """Return the columns of ``DETAIL`` beside graphs, in ``width`` columns; ``width`` if there is no room for
    graphs beside it."""
    cells = max(width // 2 // GRAPH_BESIDE_DETAIL * GRAPH_BESIDE_DETAIL, GRAPH_BESIDE_DETAIL)
    return width - cells if width - cells >= DETAIL_CELLS else width


def _band(room: Room, y: int, height: int, names: Sequence[str]) -> Iterator[PanelPlace]:
    """Place the panels ``names`` in the whole width, as many as there is room for.

    ``DETAIL`` takes the lines that its text fills, and graphs stand side by side below it. If there are too
    few lines for that, graphs stand beside it.
    """
    if DETAIL not in names:
        yield from _row(room, 0, y, room.width, height, names)
        return
    graphs = names[1:]
    high = max(room.detail.whole + room.edges, LEAST_GRAPH)
    if graphs and height - high >= GOOD_GRAPH:
        yield _filler(room, DETAIL, 0, y, room.width, high)
        yield from _row(room, 0, y + high, room.width, height - high, graphs)
        return
    cells = detail_cells(room.width) if graphs else room.width
    yield _filler(room, DETAIL, 0, y, cells, height)
    left = room.width - cells
    if not left:
        return
    beside = min(len(graphs), left // GRAPH_BESIDE_DETAIL)
    if height < 2 * GOOD_GRAPH:
        yield from _row(room, cells, y, left, height, graphs[:beside])
        return
    graphs = graphs[: height // GOOD_GRAPH]
    ends = [height * at // len(graphs) for at in range(len(graphs) + 1)]
    for at, name in enumerate(graphs):
        yield _filler(room, name, cells, y + ends[at], left, ends[at + 1] - ends[at])


def _row(room: Room, x: int, y: int, width: int, height: int, names: Sequence[str]) -> Iterator[PanelPlace]:
    """Place the graphs ``names`` side by side, as many as have room in ``width`` columns."""
    number = min(len(names), max(width // GRAPH_CELLS, 1))
    ends = [x + width * at // max(number, 1) for at in range(number + 1)]
    for at, name in enumerate(names[:number]):
        yield _filler(room, name, ends[at], y, ends[at + 1] - ends[at], height)


def _filler(room: Room, name: str, x: int, y: int, width: int, height: int) -> PanelPlace:
    boxes = room.frames == "box"
    top: Top = "corner" if boxes else "rule" if room.frames else "blank"
    return PanelPlace(name, x, y, width, height, PanelFrame(top, boxes, boxes))
