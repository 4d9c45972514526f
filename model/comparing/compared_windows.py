"""The result of comparing two windows, which ``diff`` prints as text or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stalltop.model.comparing.chain_difference import ChainChange
from stalltop.model.comparing.condition import Condition, Met
from stalltop.model.comparing.difference import Compared
from stalltop.model.comparing.line_difference import LineChange
from stalltop.model.window import Window


@dataclass(frozen=True, slots=True)
class ComparedWindows:
    """The comparison of two windows."""

    then: Window
    now: Window
    by: tuple[str, ...]
    """Dimensions of the rows that are compared."""
    compared: Compared
    order: Sequence[int]
    """Indices of rows of ``compared``; the rows that changed most come first."""
    faults: tuple[ChainChange, ...]
    conditions: tuple[tuple[Condition, Met], ...] = ()
    lines: tuple[LineChange, ...] = ()
    """Lines of code in which threads spend more or less time; those that changed most come first."""
