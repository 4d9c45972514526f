"""Lists every cause that the diagnosis can name. See docs/causes.md."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.gpu import causes as gpu
from stalltop.diagnosis.host import events, waits
from stalltop.model.telling import Tellings

CAUSES: Final = {cause.id: cause for cause in (*waits.CAUSES, *events.CAUSES, *gpu.CAUSES)}
"""Causes by id. Each is declared in the module of the function that finds or describes it."""
TELLINGS: Final[Tellings] = {cause.id: cause.telling for cause in CAUSES.values()}
"""The words for each cause, by id, in the first line of the screen."""
