"""Finds the processes of a row of a table. Pure functions."""

from __future__ import annotations

from stalltop.model.evidence import ProcessUse
from stalltop.model.row_key import RowKey
from stalltop.model.window import Window
from stalltop.tui.views.path import Path, below, decided


def processes_of(window: Window, path: Path, scoped: Window) -> tuple[ProcessUse, ...]:
    """Return the processes with a row or an open call in ``scoped``, the one with the most time first.

    If the path contains neither an operation nor a layer, also return the row's processes that make no call,
    such as those that only do host work or are only culprits.
    """
    spent: dict[tuple[str, int, str], int] = {}
    for key, ns in zip(scoped.rows.keys, scoped.rows.total_ns.tolist(), strict=True):
        who = (key.tenant, key.pid, key.process)
        spent[who] = spent.get(who, 0) + (ns if key.outermost or decided(path) else 0)
    for call in scoped.open_calls:
        spent.setdefault((call.tenant, call.pid, call.process), 0)
    uses = {(use.tenant, use.pid, use.process): use for use in window.evidence.processes}
    if not decided(path):
        own = below(path, window)
        for who in uses:
            if own(RowKey(window.host, *who, "", "")):
                spent.setdefault(who, 0)
    order = sorted(spent, key=lambda who: (-spent[who], who[1], who[0]))
    return tuple(uses.get(who) or ProcessUse(*who) for who in order)
