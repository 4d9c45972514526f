"""The panel below the tables: why the first problem happens and what to do, or the row under the cursor."""

from __future__ import annotations

from collections.abc import Sequence

from stalltop.formats.text.chains import sureness
from stalltop.model.actions.offers import Offer, for_chain
from stalltop.model.chain import Chain, Fix
from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.window import Window
from stalltop.tui.chain.page import remarks, steps
from stalltop.tui.keys.actions import key
from stalltop.tui.pages.sections import APART, Frame, Places, Section
from stalltop.tui.row.facts import facts
from stalltop.tui.row.page import split, title
from stalltop.tui.views.groups import Path
from stalltop.widgets.page import PageLine, PanelText

TWO_COLUMNS_FROM = 110
"""Least width in cells at which what to do stands beside the causes, not below them."""
_HEADED_FROM = 6
"""Least height in lines at which the columns have headings."""


class Details:
    """Makes the texts of the panel from consecutive windows."""

    def __init__(self) -> None:
        self._offers_of: tuple[str, tuple[Fix, ...]] | None = None
        self._offers: Sequence[Offer] = ()

    def text(self, window: Window, chain: Chain | None, path: Path, frame: Frame) -> PanelText:
        """Return the way from what is slow to the cause of ``chain``, and the commands that help, each with
        its undo. Without a chain, return the calls of the row at ``path``, and where their time went.
        ``frame`` has the room inside the panel."""
        if chain is None:
            found = facts(window, path)
            if frame.width >= TWO_COLUMNS_FROM:
                half = frame.half
                lines = Places().beside([title(found, half)], [split(found, half)], half.width)
            else:
                lines = [*title(found, frame).lines, *split(found, frame).lines]
            return PanelText(f"row: {found.name}", f"{key('details')} details", lines)
        if self._offers_of != (chain.id, chain.fixes):
            self._offers_of, self._offers = (chain.id, chain.fixes), for_chain(window, chain)
        about = f"since {figures.clock(chain.since)}, {sureness(chain, 'confidence ')}"
        return PanelText(f"why: {chain.title}", about, problem_lines(chain, window, self._offers, frame))


def problem_lines(chain: Chain, window: Window, offers: Sequence[Offer], frame: Frame) -> list[PageLine]:
    """Return the lines about ``chain``, with ``offers`` as what to do. ``frame`` has the room inside the
    panel."""
    headed = frame.height >= _HEADED_FROM
    why = steps(chain, window, frame.glyphs)
    if headed:
        why = [PageLine((("  SHARE  LOST/S  from what is slow to its cause", "dim"),)), *why]
    do = _commands(offers, frame.glyphs)
    if headed:
        do = [
            PageLine(((f"what to do: {key('copy')} copies the first, {key('commands')} lists all", "dim"),)),
            *do,
        ]
    more = remarks(chain, window)
    if frame.width < TWO_COLUMNS_FROM:
        gap = [PageLine()] if headed else []
        return [*why, *gap, *do, *more]
    room = (frame.width - APART) // 2
    return Places().beside([Section("why", (*why, *more))], [Section("do", tuple(do))], room)


def _commands(offers: Sequence[Offer], glyphs: Glyphs) -> list[PageLine]:
    """Return each of ``offers`` with what it does and its undo, the first one first."""
    lines = []
    for offer in offers:
        if not offer.command:
            lines.append(PageLine((("by hand: ", "dim"), (offer.does, "text")), indent=2))
            continue
        lines.append(PageLine(((glyphs.remedy, "dim"), (offer.command, "accent")), indent=2))
        lines.append(PageLine((("  ", "dim"), (offer.does, "text")), indent=2))
        if offer.undo or offer.note:
            undo = (offer.undo or offer.note, "label" if offer.undo else "dim")
            lines.append(PageLine((("  undo: ", "dim"), undo), indent=8))
    return lines
