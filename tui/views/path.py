"""Follows the steps by which a user went into the rows of a table, and finds what is below them. Pure
functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from stalltop.model.row_key import RowKey
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.rows.pivot import RowNaming
from stalltop.model.window import OpenCall, Window


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step of a path: it selects the group ``key`` of ``dimension``."""

    dimension: Dimension
    key: str
    label: str


Path = tuple[PathStep, ...]
"""The steps to a row of a table, or to the rows inside a row."""


def scope(window: Window, path: tuple[PathStep, ...]) -> Window:
    """Return the part of ``window`` below ``path``.

    If the path contains an operation or a layer (``decided``), nested calls count like outermost ones:
    otherwise the page of a driver function that is called only by the runtime would be empty.
    """
    if not path:
        return window
    inside = below(path, window)
    kept = np.fromiter((inside(key) for key in window.rows.keys), np.bool_, len(window.rows))
    rows = window.rows.take(np.flatnonzero(kept))
    open_calls = tuple(call for call in window.open_calls if inside(key_of(call, window)))
    if decided(path):
        rows = replace(rows, keys=tuple(key._replace(nested=False) for key in rows.keys))
        open_calls = tuple(replace(call, nested=False) for call in open_calls)
    return replace(window, rows=rows, open_calls=open_calls)


def below(path: tuple[PathStep, ...], window: Window) -> Callable[[RowKey], bool]:
    """Return a function that returns whether a row of ``window`` is below ``path``."""
    naming = RowNaming(window)
    return lambda key: all(naming.part(step.dimension, key)[0] == step.key for step in path)


def decided(path: tuple[PathStep, ...]) -> bool:
    """Return whether the path contains an operation or a layer. Then nested calls and the time between calls
    count."""
    return any(step.dimension in ("operation", "layer") for step in path)


def key_of(call: OpenCall, window: Window) -> RowKey:
    """Return the key of the row that will count ``call`` when it returns."""
    return RowKey(window.host, *call.row)
