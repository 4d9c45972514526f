"""Columns of the tables of GPUs, from the figures that a GPU has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stalltop.model.devices.device import DEVICE_FIGURES
from stalltop.recordings.file.table import INTEGER, REAL, SqlColumn, column

_TYPES: Final = {"float": REAL, "int": INTEGER, "bool": INTEGER}


def device_figures(*, of_board: bool) -> Iterator[SqlColumn]:
    """Yield a column for each figure that stays the same as long as the board does, or for each other one."""
    for one in DEVICE_FIGURES:
        if one.of_board == of_board:
            yield column(one.name, _TYPES[one.kind], one.about_in_window, null=True)
