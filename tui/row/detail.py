"""The panel below the tables: why the first problem happens and what to do, or the row under the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stalltop.formats.text.answer import fades
from stalltop.formats.text.chains import name_of, sureness
from stalltop.model.actions.offers import Offer
from stalltop.model.chain import Chain, Fix, Link
from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.window import Window
from stalltop.tui.chain.commands import MOST_OFFERS, command_lines, offers_of
from stalltop.tui.chain.page import remarks, steps
from stalltop.tui.keys.actions import key
from stalltop.tui.pages.sections import APART, Frame, Places, Section, filled, fitted
from stalltop.tui.row.facts import RowFacts, facts
from stalltop.tui.row.page import split, title
from stalltop.tui.views.path import Path
from stalltop.widgets.page import PageLine, PanelText

TWO_COLUMNS_FROM = 110
"""Least width in cells at which what to do stands beside the causes, not below them."""
_HEADED_FROM = 6
"""Least height in lines at which the columns have headings."""
_LEAST_WITH_FIX: Final = 4
"""Least height in lines at which steps between what is slow and its root give way to what helps."""
_LEAST_STEPS: Final = 2
"""Number of steps that are always shown."""
ROW_SECONDS: Final = 5.0
"""Seconds after which the text about a row is made anew, while there is no problem. Collecting what is known
of a row every second would be a fifth of the screen's CPU time; the table has the row's newest figures."""


class Details:
    """Makes the texts of the panel from consecutive windows."""

    def __init__(self) -> None:
        self._offers_of: tuple[str, tuple[Fix, ...]] | None = None
        self._offers: Sequence[Offer] = ()
        self._facts: RowFacts | None = None
        self._row_lines: dict[Frame, list[PageLine]] = {}
        """The lines about ``_facts``, for each frame that was asked for."""

    def text(
        self, window: Window, chain: Chain | None, path: Path, frame: Frame, *, told: bool = False
    ) -> PanelText:
        """Return the way from what is slow to the cause of ``chain``, and the commands that help, each with
        its undo. Without a chain, return the calls of the row at ``path``, and where their time went.
        ``frame`` has the room inside the panel. ``told``: the first lines of the screen show ``chain``, and
        the command that helps."""
        if chain is None:
            name, lines = self._row(window, path, frame)
            return PanelText(f"row: {name}", f"{key('details')} details", lines)
        about = f"since {figures.clock(chain.since)}, {sureness(chain, 'cause ')}"
        if fades(chain, window):
            about = f"not seen for {window.end - chain.seen:.0f} s"
        if chain.harms_only_itself:
            about += ", harms only itself"
        lines = problem_lines(chain, window, self._offers_for(window, chain), frame, told=told)
        faults = [one for one in window.chains if one.open and one.severity not in ("info", "low")]
        whose = f" {name_of(chain.tenant, window)}" if len(faults) > 1 and chain.tenant else ""
        return PanelText(f"why{whose}: {chain.title}", about, lines)

    def needs(
        self, window: Window, chain: Chain | None, path: Path, frame: Frame, narrow: int
    ) -> tuple[int, int]:
        """Return how many lines the text fills in ``frame``, and how many the steps of ``chain`` fill in
        ``narrow`` cells; 0 without a chain."""
        if chain is None:
            return len(self._row(window, path, frame)[1]), 0
        offers = self._offers_for(window, chain)
        whole = len(problem_lines(chain, window, offers, frame))
        width = _column(narrow)
        first = command_lines(offers[:1], 0, frame.glyphs)
        return whole, filled(steps(chain, window, frame.glyphs), width) + filled(first, width)

    def _offers_for(self, window: Window, chain: Chain) -> Sequence[Offer]:
        if self._offers_of != (chain.id, chain.fixes):
            self._offers_of, self._offers = (chain.id, chain.fixes), offers_of(chain, window)
        return self._offers

    def _row(self, window: Window, path: Path, frame: Frame) -> tuple[str, list[PageLine]]:
        """Return the name of the row at ``path``, and the lines about it."""
        known = self._facts
        if known is None or known.path != path or not _lasts(known.window, window):
            known = self._facts = facts(window, path)
            self._row_lines.clear()
        if frame not in self._row_lines:
            self._row_lines[frame] = row_lines(known, frame)
        return known.name, self._row_lines[frame]


def _lasts(known: Window, window: Window) -> bool:
    """Return whether what is known of a row in the window ``known`` may stand for ``window``. In the first
    seconds of tracing, windows grow too much for that."""
    return 0.0 <= window.end - known.end < ROW_SECONDS and window.seconds < 2 * known.seconds


def row_lines(found: RowFacts, frame: Frame) -> list[PageLine]:
    """Return the lines about the row ``found``. ``frame`` has the room inside the panel."""
    column = replace(frame, width=_column(frame.width))
    about, parts = title(found, column).lines, split(found, column).lines
    if column.width == frame.width:
        return fitted([*about, *parts], frame.width, frame.height, frame.glyphs)
    return _beside(about, parts, frame)


def problem_lines(
    chain: Chain, window: Window, offers: Sequence[Offer], frame: Frame, *, told: bool = False
) -> list[PageLine]:
    """Return the lines about ``chain``, with ``offers`` as what to do. ``frame`` has the room inside the
    panel. The chain comes first; what has no room is left out. ``told``: the screen shows the first command
    elsewhere, so a small panel says only what it does."""
    width, height = _column(frame.width), frame.height
    why, more = steps(chain, window, frame.glyphs), remarks(chain, window)
    first = filled(command_lines(offers[:1], 0, frame.glyphs)[:2], width)
    beside = width < frame.width
    headed = height >= _HEADED_FROM and filled(why, width) + (1 if beside else 2 + first) <= height
    if headed:
        why = [PageLine((("  SHARE  LOST/S  from what is slow to its cause", "dim"),)), *why]
    told = told and height < _HEADED_FROM and not beside
    if told:
        # What a command shows that changes nothing matters less than the steps.
        looks = chain.remedy is not None and chain.remedy.look
        first = 0 if looks else filled(command_lines(offers[:1], 0, frame.glyphs, told=True), width)
    if beside:
        more = more if filled([*why, *more], width) <= height else []
        return _beside([*why, *more], _what_to_do(offers, width, height, frame.glyphs, headed), frame)
    if not headed and filled(why, width) + first > height >= _LEAST_WITH_FIX:
        room = height - (min(first, 2) if told or height >= _HEADED_FROM else 0)
        why = _fewer(chain, window, width, room, frame.glyphs)
    gap = [PageLine()] if headed else []
    left = height - filled(why, width) - len(gap)
    do = _what_to_do(offers, width, left, frame.glyphs, headed, told=told) if left > 0 else []
    whole = [*why, *gap, *do, *more]
    if filled(whole, width) > height:
        whole = [*why, *gap, *do]
    return fitted(whole, width, height, frame.glyphs)


def _fewer(chain: Chain, window: Window, width: int, height: int, glyphs: Glyphs) -> list[PageLine]:
    """Return the steps of ``chain`` without some of those between what is slow and its root, so that they fit
    into ``height`` lines of ``width`` cells: what is slow, the root, and what helps tell most."""
    kept = [link for link in chain.links if link.role != "factor"]
    while True:
        why = steps(replace(chain, links=_closed_up(kept)), window, glyphs)
        if len(kept) <= _LEAST_STEPS or filled(why, width) <= height:
            return why
        others = [at for at, link in enumerate(kept) if link.of_others]
        culprits = [at for at, link in enumerate(kept) if link.role == "culprit"]
        # Below the culprit are its own reasons, from the nearest one to details of it.
        below = [*range(culprits[0] + 1, len(kept))][:0:-1] if culprits else []
        between = [at for at in range(1, len(kept) - 1) if at not in culprits]
        del kept[next(iter((*others, *culprits[:0:-1], *below, *between)), -1)]


def _closed_up(links: Sequence[Link]) -> tuple[Link, ...]:
    """Return ``links`` of which some were left out, each one step deeper than the one that it now belongs
    to."""
    above: list[int] = []
    found = []
    for link in links:
        while above and above[-1] >= link.depth:
            above.pop()
        found.append(replace(link, depth=len(above)))
        above.append(link.depth)
    return tuple(found)


def _column(width: int) -> int:
    """Return the width in cells of a column of a panel with ``width`` cells."""
    return (width - APART) // 2 if width >= TWO_COLUMNS_FROM else width


def _beside(left: Sequence[PageLine], right: Sequence[PageLine], frame: Frame) -> list[PageLine]:
    """Return ``left`` and ``right`` side by side, in at most the lines of ``frame``."""
    width = _column(frame.width)
    one, other = (
        Section(name, tuple(fitted(lines, width, frame.height, frame.glyphs)))
        for name, lines in (("left", left), ("right", right))
    )
    return Places().beside([one], [other], width)


def _what_to_do(
    offers: Sequence[Offer],
    width: int,
    height: int,
    glyphs: Glyphs,
    headed: bool,
    *,
    told: bool = False,
) -> list[PageLine]:
    """Return the first ``MOST_OFFERS`` of ``offers`` in at most ``height`` lines of ``width`` cells. Where
    there is little room, first the undo of all but the first one is left out, then the last offers, then the
    undo of the first one."""
    if not offers:
        return []
    whole = len(offers)
    offers = offers[:MOST_OFFERS]
    copies = f"{key('copy')} copies the first command, " if any(offer.command for offer in offers) else ""
    head = f"what to do: {copies}{key('commands')} lists "
    front: list[PageLine] = []
    fewer = [(number, 1) for number in range(len(offers), 0, -1)]
    lines: list[PageLine] = []
    for number, undone in ((len(offers), len(offers)), *fewer, (1, 0)):
        rest = f"all {whole}" if whole > number else "all"
        front = [PageLine(((head + rest, "dim"),))] if headed else []
        lines = [*front, *command_lines(offers[:number], undone, glyphs, told=told)]
        if filled(lines, width) <= height:
            return lines
    # A heading alone would say nothing.
    return fitted(lines[len(front) :] if height <= len(front) + 1 else lines, width, height, glyphs)
