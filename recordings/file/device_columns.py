"""Makes the columns of the tables ``gpus`` and ``devices`` from ``DEVICE_FIGURES``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stalltop.model.devices.device import DEVICE_FIGURES
from stalltop.recordings.file.table import INTEGER, REAL, SqlColumn, column

_TYPES: Final = {"float": REAL, "int": INTEGER, "bool": INTEGER}


def device_figures(*, of_board: bool) -> Iterator[SqlColumn]:
    """Yield a column for each figure of a GPU. With ``of_board``, these are the constants and the rarely
    changed settings of a board (``DeviceFigure.of_board``), such as its power limit; without it, all
    others."""
    for one in DEVICE_FIGURES:
        if one.of_board == of_board:
            yield column(one.name, _TYPES[one.kind], one.about_in_window, null=True)
