"""Finds the problem that keys and the panel about a problem are about: the one that the first lines of the
screen show, or the one that the user selected."""

from __future__ import annotations

from stalltop.model.chain import Chain
from stalltop.model.window import Window
from stalltop.tui.problems.alert_panel import AlertPanel
from stalltop.tui.problems.chains import chains_of
from stalltop.tui.problems.culprit_rows import chains_by
from stalltop.tui.tables.tables import Tables


def is_unmoved(panel: AlertPanel, tables: Tables) -> bool:
    """Return whether the user selected nothing: the first table has the focus and shows all rows of the host,
    and its cursor was not moved."""
    widget, view = tables.here
    moved = panel.has_focus or widget is not tables.main or widget.chosen_key is not None
    return not (moved or view.path or view.filter)


def row_chains(panel: AlertPanel, tables: Tables, window: Window) -> list[Chain]:
    """Return the chains of the row under the cursor, the worst first; if none of them is a fault, those that
    have the row as a culprit, if there are any."""
    widget, view = tables.here
    shown = widget.cursor_key, panel.found.open, window, view
    own = list(chains_of(*shown))
    if any(chain.severity != "info" for chain in own):
        return own
    return chains_by(*shown) or own


def selected(panel: AlertPanel, tables: Tables, window: Window) -> Chain | None:
    """Return the chain under the cursor, in the list of problems or of the row. Return the chain that the
    first lines of the screen show if the row has that, too, if it has none, or if nothing was selected."""
    told = panel.answering.chain
    if panel.has_focus:
        return panel.found.chain(panel.cursor_key) or told
    if told is None or is_unmoved(panel, tables):
        return told
    found = row_chains(panel, tables, window)
    return told if not found or any(one.id == told.id for one in found) else found[0]
