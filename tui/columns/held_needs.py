"""Keeps columns that are shown only while some data exists, so that other columns seldom move."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Final

from stalltop.tui.columns.catalogue import Need

COMING: Final[frozenset[Need]] = frozenset({"errors", "loss", "open"})
"""The needs that data may meet in one window and not in the next one."""
HELD_SECONDS: Final = 30.0
"""A column stays for this long after its need was last met."""


class HeldNeeds:
    """Remembers when each need was last met, for each table."""

    def __init__(self) -> None:
        self._met_at: dict[tuple[Hashable, Need], float] = {}

    def hold(self, table: Hashable, have: Collection[Need], at: float) -> set[Need]:
        """Return ``have``, the needs that a window that ends ``at`` (Unix seconds) meets, and those of
        ``COMING`` that were met in ``table`` up to ``HELD_SECONDS`` before."""
        held = set(have)
        for need in COMING:
            if need in have:
                self._met_at[table, need] = at
            elif 0.0 <= at - self._met_at.get((table, need), float("-inf")) < HELD_SECONDS:
                held.add(need)
        return held
