"""The lines about commands that help, on the page of a problem and in the panel below the tables."""

from __future__ import annotations

from collections.abc import Sequence

from stalltop.model.actions.offers import Offer, for_chain
from stalltop.model.chain import Chain
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.window import Window
from stalltop.widgets.page import PageLine

MOST_OFFERS = 5
"""The most commands and pieces of advice that are shown: the first ones help most, and a page of its own
lists all."""


def offers_of(chain: Chain, window: Window) -> list[Offer]:
    """Return what helps with ``chain``; first the command that the first lines of the screen show."""
    first = chain.remedy.command if chain.remedy is not None else ""
    return sorted(for_chain(window, chain), key=lambda offer: not first or offer.command != first)


def command_lines(
    offers: Sequence[Offer], undone: int, glyphs: Glyphs, *, told: bool = False
) -> list[PageLine]:
    """Return each of ``offers`` with what it does, the first ``undone`` commands with their undo. ``told``:
    the first command is shown elsewhere, so only what it does is said of it."""
    lines = []
    for at, offer in enumerate(offers):
        if not offer.command:
            lines.append(PageLine(((f"{offer.whose}: ", "dim"), (offer.does, "text")), indent=2))
            continue
        if told and not at:
            lines.append(PageLine(((glyphs.remedy, "dim"), (offer.does, "text")), indent=2))
        else:
            lines.append(PageLine(((glyphs.remedy, "dim"), (offer.command, "accent")), indent=2))
            lines.append(PageLine((("  ", "dim"), (offer.does, "text")), indent=2))
        undone -= 1
        if undone >= 0 and (offer.undo or offer.note):
            note = f"  ({offer.note})" if offer.undo and offer.note else offer.note
            lines.append(PageLine((("  undo: ", "dim"), (offer.undo, "label"), (note, "dim")), indent=8))
    return lines
