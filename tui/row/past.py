"""Computes the figures of one row in earlier windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stalltop.model.merge.packing import Packed
from stalltop.model.row_key import RowKey
from stalltop.model.rows.pivot import RowNaming, bounded
from stalltop.tui.views.path import Path, decided


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of the row in one window."""

    start: float
    """Start of the window, Unix time in seconds."""
    seconds: float
    calls: int
    total_ns: int
    p99_ns: int
    """The row's p99 in ns; 0 if the row has no call."""
    split_ns: tuple[int, ...] | None
    """The time in ns of each part in ``model.window.SPLITS``; None if not measured."""


class RowPast:
    """Computes the figures of the row at ``path`` in earlier windows. Each window is computed only once,
    because that takes about a millisecond."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inside: dict[RowKey, bool] = {}
        self._moves = any(step.dimension == "device" for step in path)
        """Whether the path contains a device. The device of a process may change, so the calls that belong to
        the row differ from window to window."""
        self._known: dict[Packed, Sample] = {}

    def look(self, parts: Sequence[Packed], most: int) -> tuple[Sample | None, ...]:
        """Return a sample for each of ``parts``.

        Computes at most ``most`` samples that are not known yet, the newest first, and returns None for the
        others.
        """
        for part in reversed(parts):
            if part not in self._known:
                if not most:
                    break
                most -= 1
                self._known[part] = self._sample(part)
        found = tuple(self._known.get(part) for part in parts)
        self._known = {part: self._known[part] for part in parts if part in self._known}
        return found

    def _belongs(self, key: RowKey, naming: RowNaming) -> bool:
        known = self._inside.get(key)
        if known is None:
            known = all(naming.part(step.dimension, key)[0] == step.key for step in self._path)
            known = known and (key.outermost or decided(self._path))
            self._inside[key] = known
        return known

    def _sample(self, part: Packed) -> Sample:
        naming = RowNaming(part.window)
        if self._moves:
            self._inside.clear()
        own = [at for at, key in enumerate(part.keys) if self._belongs(key, naming)]
        rows = part.rows().take(np.array(own, np.int64))
        whole = rows.histograms.grouped(np.zeros(len(rows), np.int64), 1)
        longest = np.array([max(rows.max_ns.tolist(), default=0)], np.uint64)
        return Sample(
            start=part.window.start,
            seconds=part.window.seconds,
            calls=int(rows.calls.sum()),
            total_ns=int(rows.total_ns.sum()),
            p99_ns=int(bounded(whole.percentiles((99.0,)), longest)[0, 0]),
            split_ns=None if rows.split_ns is None else tuple(rows.split_ns.sum(axis=0).tolist()),
        )
