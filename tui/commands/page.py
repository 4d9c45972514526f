"""The commands for a row or a problem, as entries of a list."""

from __future__ import annotations

import time
from collections.abc import Sequence

from stalltop.model.actions.offers import Offer
from stalltop.model.text import figures
from stalltop.model.window import Window
from stalltop.widgets.entries import ListEntry
from stalltop.widgets.page import PageLine

STALE_SECONDS = 15.0
"""Age of a window, in seconds, above which the page warns that PIDs may have been given to other
processes."""
_LABEL = 6


def entries(
    offers: Sequence[Offer],
    window: Window,
    said: str = "",
    now: float | None = None,
    ended: str = "",
) -> list[ListEntry]:
    """Return the list: notes, then each command with its effect and its undo. The key of an entry is the
    index of its offer. ``said`` is a temporary message that replaces the first note. ``now`` is the Unix
    time; None: the current time. ``ended`` says that the problem has ended; empty if it has not."""
    notes = _notes(window, time.time() if now is None else now)
    if ended:
        notes.append(PageLine(((ended, "warn"),)))
    found = [ListEntry((PageLine(((said, "good"),), indent=2), *notes[1:]) if said else tuple(notes))]
    if not offers:
        text = "No command applies: no process, container, unit, pod or job is known here."
        return [*found, ListEntry((PageLine(), PageLine(((text, "text"),))))]
    about = ""
    for number, offer in enumerate(offers):
        if offer.about != about:
            about = offer.about
            found.append(ListEntry((PageLine(), PageLine(((about, "head"),), indent=2))))
        if not offer.command:
            whose = f"  {offer.whose}  "
            line = PageLine(((whose, "dim"), (offer.does, "text")), indent=len(whose))
            found.append(ListEntry((line,)))
            continue
        lines = [PageLine((("  " + offer.command, "accent"),), indent=6), _said("does", offer.does, "text")]
        if offer.undo:
            lines.append(_said("undo", offer.undo, "label", f"  ({offer.note})" if offer.note else ""))
        elif offer.note:
            lines.append(_said("undo", "", "label", offer.note))
        found.append(ListEntry(tuple(lines), number))
    return found


def _said(label: str, text: str, role: str, note: str = "") -> PageLine:
    front = f"    {label.ljust(_LABEL)}"
    return PageLine(((front, "dim"), (text, role), (note, "dim")), indent=len(front))


def _notes(window: Window, now: float) -> list[PageLine]:
    """Return the notes to read before typing a command."""
    said = f"stalltop runs none of these. Type them as root on {window.host}."
    lines = [PageLine(((said, "text"),))]
    if window.simulated:
        lines.append(
            PageLine((("These processes are simulated: the commands would find none of them.", "warn"),))
        )
    elif now - window.end > STALE_SECONDS:
        said = f"As of {figures.clock(window.end)}: check first that the PIDs are still the same programs."
        lines.append(PageLine(((said, "warn"),)))
    return lines
