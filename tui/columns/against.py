"""Columns that compare a row with what it was in another window: ``Grouped.before``."""

from __future__ import annotations

from tui.columns.kind import Kind

KINDS: tuple[Kind, ...] = ()
"""In the order in which they are shown and offered; each of them ``needs="baseline"``."""
