"""Marks operations that are not traced all of the time, because their probes would cost too much. Pure
functions."""

from __future__ import annotations

from collections.abc import Sequence

from stalltop.model.rows.dimensions import Dimension
from stalltop.model.window import Reduction, Window


def reductions(window: Window) -> dict[str, Reduction]:
    """Return the functions of ``window`` that are not traced all of the time, by symbol."""
    return {one.symbol: one for library in window.coverage.libraries for one in library.reduced}


def marked(
    labels: dict[tuple[str, ...], tuple[str, ...]],
    by: Sequence[Dimension],
    window: Window,
    *,
    nested: bool,
) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return ``labels`` (by the keys of rows) with the state of the probes behind names of operations. If a
    table has a row for each operation and nothing else, an operation without calls gets a row, too; with
    ``nested``, also if its calls are made inside other calls."""
    found = reductions(window)
    if not found or "operation" not in by:
        return labels
    place = list(by).index("operation")
    made, seen = {}, set()
    for key, label in labels.items():
        symbol = key[place].partition(" ")[0]  # a copy's direction follows the name of its function
        seen.add(symbol)
        one = found.get(symbol)
        made[key] = label if one is None else (*label[:place], _text(label[place], one), *label[place + 1 :])
    if len(by) == 1:
        made |= {
            (symbol,): (_text(symbol, one),)
            for symbol, one in found.items()
            if symbol not in seen and (nested or not one.nested)
        }
    return made


def _text(name: str, one: Reduction) -> str:
    return f"{name} ({one.text})"
