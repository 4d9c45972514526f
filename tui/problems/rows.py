"""Divides the time that problems cost among the rows of a table. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from stalltop.formats.text.answer import fades
from stalltop.model.chain import Chain
from stalltop.model.row_key import RowKey
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.telling import NO_TELLINGS, Tellings
from stalltop.model.window import SPLITS, Window
from stalltop.tui.problems.chains import MARK, ROLE, grouped_keys, keys_of
from stalltop.tui.views.groups import Key
from stalltop.tui.views.view import View
from stalltop.widgets.table import Cell

LEAST_SHARE: Final = 0.2
"""Least part of a problem's loss that a row must have to be marked with the letter of the problem's severity:
a problem may name dozens of rows, most of which lose little."""
_TENANTS: Final = frozenset[Dimension](("container", "pod"))
"""Dimensions whose rows are tenants."""


@dataclass(frozen=True, slots=True)
class RowLosses:
    """What problems cost the rows of a table."""

    marks: dict[Key, Cell]
    """For each row with a large enough part of a problem's loss: the letter of the worst such problem."""
    lost_ms_per_s: dict[Key, float]
    """The time (ms/s) that each of these rows loses through such problems."""
    parts: dict[Key, set[str]]
    """For each of these rows: the parts of the split in which such problems cost time."""


def row_losses(
    chains: Iterable[Chain], window: Window, view: View, tellings: Tellings = NO_TELLINGS
) -> RowLosses:
    """Return what ``chains``, the worst first, cost the rows of the table of ``view``.

    A chain has one loss for all rows that it names. The loss is divided in proportion to the time of these
    rows in certain parts of the split: those in which the cause costs time (``tellings``). If these parts
    have no time, the loss is divided in proportion to the rows' whole time.
    """
    marks: dict[Key, Cell] = {}
    lost: dict[Key, float] = {}
    parts: dict[Key, set[str]] = {}
    shown = [level.view for level in view.levels()] if view.is_tree else [view]
    levels = [(number, one.by in _TENANTS) for number, one in enumerate(shown)]
    at: dict[RowKey, int] | None = None
    for chain in chains:
        if chain.severity == "info":
            continue
        at = dict(zip(window.rows.keys, range(len(window.rows)), strict=True)) if at is None else at
        telling = tellings.get(chain.cause)
        costly = telling.parts if telling else ()
        weights = _weights(keys_of(chain, window), at, window, costly)
        for level, of_tenants in levels:
            shares: dict[Key, float] = {}
            for row, key in grouped_keys(chain, window, view, level):
                shares[key] = shares.get(key, 0.0) + (1.0 if row is None else weights[row])
            for key, share in shares.items():
                # A problem of a whole device is one of all its tenants.
                if share >= LEAST_SHARE or (of_tenants and not chain.tenant):
                    lost[key] = lost.get(key, 0.0) + share * chain.lost_ms_per_s
                    parts.setdefault(key, set()).update(costly or SPLITS)
                    role = "dim" if fades(chain, window) else ROLE[chain.severity]
                    marks.setdefault(key, Cell(MARK[chain.severity], role))
    return RowLosses(marks, lost, parts)


def _weights(
    keys: Sequence[RowKey], at: dict[RowKey, int], window: Window, parts: Sequence[str]
) -> dict[RowKey, float]:
    """Return the part of a loss that each of the rows ``keys`` has. The parts add up to 1."""
    rows = window.rows
    columns = [SPLITS.index(part) for part in parts] if rows.split_ns is not None else []
    time: dict[RowKey, float] = {}
    for key in keys:
        row = at.get(key)
        if row is None:
            time[key] = 0.0
        elif columns and rows.split_ns is not None:
            time[key] = float(rows.split_ns[row, columns].sum())
        else:
            time[key] = float(rows.total_ns[row])
    whole = sum(time.values())
    if not whole and columns:
        return _weights(keys, at, window, ())
    # If the rows have no time, for example because all calls hang, each row has an equal part.
    return {key: one / whole if whole else 1 / len(time) for key, one in time.items()}
