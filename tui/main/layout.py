"""Computes what the main screen shows from the size of the terminal, from what the user wants, and from what
the panels need to show all of their content.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from stalltop.tui.tables.sizes import (
    BESIDE_FROM,
    EVEN_SHARE,
    GOOD_GRAPH,
    HEADS,
    LEAST_GRAPH,
    NO_DETAIL,
    NO_TABLE,
    DetailNeeds,
    Frames,
    Room,
    TableNeeds,
    TablesLayout,
    divide,
)
from stalltop.widgets.drawing.frame import NO_FRAME, PanelFrame

LEAST_WIDTH, LEAST_HEIGHT = 40, 8
"""On a terminal with fewer columns or lines, one line says that the terminal is too small."""
BARS_FROM = 12
"""Least number of terminal lines at which the bars of the host and of the devices are shown."""
ANSWER_LINES, ANSWER_FROM = 2, 18
"""Number of lines that show the worst problem, and the least number of terminal lines
for that. A smaller terminal has one such line."""
LONG_ANSWER_FROM = 24
"""Least number of terminal lines at which a long problem, or a long command, gets a third line."""
CAPTION_FROM = 20
"""Least number of terminal lines at which the caption of a demonstration is shown."""
TWO_TABLES_FROM = 20
"""Least number of terminal lines at which a second table is shown below the first."""
HISTORY_FROM = 160
"""Least number of terminal columns at which the lines of devices show a history."""
BOXES_FROM = (100, 30)
"""Least numbers of terminal columns and lines at which panels have boxes. On a smaller terminal, panels have
only a title line, because boxes take lines."""

_EDGES = 3
"""Lines of the frames of all panels, at most."""
ROOMY_FROM = 50
"""Least number of terminal lines at which the time line is shown even while it is not needed. The terminal
must also have ``HISTORY_FROM`` columns."""

Enlarged = Literal["", "tables", "warnings"]
"""The panel that takes the whole screen; empty: none."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What the panels of the main screen need to show all of their content."""

    answer: int = ANSWER_LINES
    """Lines that the worst problem needs."""
    devices: int = 1
    """Lines of the list of devices."""
    warnings: int = 1
    """Lines of the list of problems."""
    tables: tuple[TableNeeds, TableNeeds, TableNeeds] = (TableNeeds(), TableNeeds(), NO_TABLE)
    graphs: int = 0
    """Number of graphs of the past."""
    detail: DetailNeeds = NO_DETAIL
    """What the panel about the first problem, or about a row, needs."""
    caption: int = 0
    """Lines of the caption of a demonstration."""
    timeline: Literal["", "roomy", "needed"] = "roomy"
    """Whether there is a time line, and whether it is shown only where there is plenty of room."""
    keys: bool = False
    """Whether the last line is needed for a message or for text that the user types."""
    beside: bool = False
    """Whether two tables stood side by side so far: they stay there, because a problem that comes and goes
    must not turn the screen round."""
    reading: bool = False
    """Whether the list of problems has the focus. It then takes up to half of the screen."""

    @property
    def fillers(self) -> int:
        """Return the number of panels that fill the lines below the tables."""
        return self.graphs + self.detail.wanted


NO_NEEDS = Needs()
NO_TABLES = TablesLayout()


@dataclass(frozen=True, slots=True)
class ScreenLayout:
    """What the main screen shows and how large it is."""

    small: bool = False
    """Whether the terminal is too small: the screen then shows one line, which says so."""
    shown: frozenset[str] = frozenset()
    """The panels that are shown, by the names in ``settings.PANELS``."""
    frames: Frames = ""
    answer: int = 0
    """Number of lines that show the worst problem."""
    caption: int = 0
    """Lines of the caption of a demonstration."""
    host: int = 0
    """Lines of the bars of the host, with their frame."""
    devices: int = 0
    """Lines of the list of devices, with its frame."""
    warnings: int = 0
    """Lines of the list of problems, with its frame. It is hidden while it has no lines."""
    host_frame: PanelFrame = NO_FRAME
    devices_frame: PanelFrame = NO_FRAME
    warnings_frame: PanelFrame = NO_FRAME
    room: int = 0
    """Height of the tables and graphs together, in lines."""
    tables: TablesLayout = NO_TABLES
    timeline: int = 0
    """Height of the time line: 1 line, or 0 if it is not shown."""
    keys: int = 0
    """Height of the line of keys: 1 line, or 0 if it is not shown."""
    beside: bool = False
    """Whether two tables stand side by side, not one above the other."""
    history: bool = False
    """Whether the lines of devices show a history."""
    enlarged: Enlarged = ""

    @property
    def lines(self) -> int:
        """Return the sum of all heights, including the first line."""
        panels = self.caption + self.answer + self.host + self.devices + self.warnings + self.room
        return 1 + panels + self.timeline + self.keys


def most_lines(height: int) -> int:
    """Return the most lines that the list of problems and the lines above it about the worst problem may take
    together: 3 on a terminal of 24 lines (``height``), 5 on 40, 7 on 60."""
    return min(max(height // 8, 1), 10)


def most_devices(height: int) -> int:
    """Return the most lines of the list of devices on a terminal of ``height`` lines: 2 of 24, 5 of 40, 7 of
    60."""
    return max(height // 8, 1) if height >= BOXES_FROM[1] else max(height // 10, 1)


def frames_of(width: int, height: int, *, plain: bool) -> Frames:
    """Return how panels are framed on a terminal of this size; with ``plain``, not at all."""
    if plain:
        return ""
    return "box" if width >= BOXES_FROM[0] and height >= BOXES_FROM[1] else "rule"


def layout(
    width: int,
    height: int,
    wanted: Collection[str],
    enlarged: Enlarged = "",
    needs: Needs = NO_NEEDS,
    *,
    plain: bool = False,
    share: int = EVEN_SHARE,
    gives: bool = True,
) -> ScreenLayout:
    """Return what a terminal of ``width`` columns and ``height`` lines shows of the ``wanted`` panels.

    ``plain``: without frames. ``share`` and ``gives``: see ``sizes.Room``.
    """
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        return ScreenLayout(small=True)
    shown = set(wanted)
    if enlarged or height < BARS_FROM:
        shown -= {"host", "devices"}
    wide = width >= BESIDE_FROM
    if enlarged == "warnings":
        shown = shown - {"table"} | {"warnings"}
    if "table" not in shown or enlarged or not (wide or height >= TWO_TABLES_FROM):
        shown.discard("second")
    frames = frames_of(width, height, plain=plain)
    boxes = frames == "box"
    roomy = width >= HISTORY_FROM and height >= ROOMY_FROM and not enlarged
    answer = ANSWER_LINES if height >= ANSWER_FROM and not enlarged else 1
    if answer > 1 and height >= LONG_ANSWER_FROM:
        answer = needs.answer
    caption = needs.caption if height >= CAPTION_FROM and not enlarged else 0
    timeline = int(needs.timeline == "needed" or (roomy and needs.timeline == "roomy"))
    keys = int("keys" in shown or needs.keys)
    left = height - 1 - caption - answer - timeline - keys
    host = int("host" in shown)
    devices = min(max(needs.devices, 1), most_devices(height)) if "devices" in shown else 0
    warnings = 0
    if "warnings" in shown:
        # On a small terminal the time line takes a line of the problems, so that tables keep theirs.
        fewer = answer + (timeline if height < BOXES_FROM[1] else 0)
        most = max(most_lines(height) - fewer, 1)
        warnings = min(needs.warnings, most)
        if needs.reading:
            warnings = min(max(needs.warnings, 3), max(height // 2 - 4, most))
        warnings = min(warnings, 1) if enlarged == "tables" else warnings
    filled = _filled(needs.tables if "second" in shown else needs.tables[:1])
    # The time line comes and goes without moving other panels.
    kept = 1 - timeline if needs.timeline else 0
    spare = left - host - devices - warnings - filled - (_EDGES if boxes else 0) - kept
    # Tables as wide as the terminal show more columns. They stand side by side if there are not enough lines.
    beside = wide and (bool(enlarged) or needs.beside or spare < (GOOD_GRAPH if needs.fillers else 0))
    if (
        "warnings" in shown
        and not (enlarged or beside)
        and 0 < spare < (GOOD_GRAPH if needs.fillers else height)
    ):
        # Lines that neither tables nor graphs fill.
        warnings += max(min(needs.warnings - warnings, spare), 0)
    elif "warnings" in shown and not (enlarged or boxes) and needs.detail.wanted:
        # Lines that the text about the first problem does not fill.
        surplus = spare - max(needs.detail.whole + 1, LEAST_GRAPH)
        warnings += max(min(needs.warnings - warnings, surplus), 0)
    # The host's bars, the devices and the problems share one box. If the first table is as wide as this box,
    # the table's top edge is also the bottom edge of the box.
    two = "second" in shown and needs.tables[1].wanted
    joined = boxes and "table" in shown and not (beside and two) and bool(host or devices or warnings)
    names = [name for name, lines in (("host", host), ("devices", devices), ("warnings", warnings)) if lines]
    panel_frames = {name: _panel_frame(name, names, boxes=boxes, joined=joined) for name in names}
    host += panel_frames.get("host", NO_FRAME).lines
    devices += panel_frames.get("devices", NO_FRAME).lines
    warnings += panel_frames.get("warnings", NO_FRAME).lines
    if "table" not in shown:
        warnings = left - host - devices
    room = max(left - host - devices - warnings, 0)
    tables = TablesLayout(alone=enlarged == "tables")
    if "table" in shown:
        first, second, third = needs.tables
        if "second" not in shown:
            second = third = NO_TABLE
        detail, graphs = (NO_DETAIL, 0) if enlarged else (needs.detail, needs.graphs)
        place = Room(width, room, frames, beside, share, gives, detail, joined)
        tables = TablesLayout(divide(place, (first, second, third), graphs), enlarged == "tables")
    return ScreenLayout(
        shown=frozenset(shown),
        frames=frames,
        answer=answer,
        caption=caption,
        host=host,
        devices=devices,
        warnings=warnings,
        host_frame=panel_frames.get("host", NO_FRAME),
        devices_frame=panel_frames.get("devices", NO_FRAME),
        warnings_frame=panel_frames.get("warnings", NO_FRAME),
        room=room,
        tables=tables,
        timeline=timeline,
        keys=keys,
        beside=beside,
        history=width >= HISTORY_FROM,
        enlarged=enlarged,
    )


def _filled(tables: Sequence[TableNeeds]) -> int:
    """Return how many lines ``tables`` fill, one above the other."""
    return sum(HEADS + table.rows for table in tables if table.wanted)


def _panel_frame(name: str, names: list[str], *, boxes: bool, joined: bool) -> PanelFrame:
    """Return the frame of a panel above the tables; ``names``: the panels that are shown, from the top. With
    ``joined`` the first table closes their box."""
    if not boxes:
        return NO_FRAME
    titled = name != "devices" or "host" not in names  # the host's box contains the devices too
    top = ("tee" if names.index(name) else "corner") if titled else ""
    return PanelFrame(top, sides=True, bottom=name == names[-1] and not joined)  # type: ignore[arg-type]


def why_not(panel: str, width: int, height: int) -> str:
    """Return why ``panel`` is not shown on a terminal of this size, although it is wanted; empty if it is
    shown."""
    if panel in layout(width, height, {"table", panel}).shown:
        return ""
    if panel == "second":
        return f"two tables need {TWO_TABLES_FROM} lines or {BESIDE_FROM} columns; here are {width}x{height}"
    return f"it needs {BARS_FROM} lines; here are {height}"
