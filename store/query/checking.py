"""Whether the figures of a file are those that were saved, as far as there is time to look."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from store.reading import Damaged, Gone, Recorded

SECONDS: Final = 0.3
"""For so long windows are compared with their checksums before a query is answered: some hundred of them."""
_MOST_TOLD: Final = 5
"""Damaged windows that are named."""


def damages(recorded: Recorded, seconds: float | None) -> tuple[str, ...]:
    """What is wrong with the file, and whether there was no time to look at all of it, a line each.

    The newest windows are looked at first. ``seconds``: after which that ends; None: once all are.
    """
    numbers = recorded.moments.window_id.tolist()[::-1]
    found: list[str] = []
    began = time.monotonic()
    looked = 0
    _look(recorded.check_shared, found)
    for number in numbers:
        if seconds is not None and time.monotonic() - began >= seconds:
            break
        _look(partial(recorded.check, number), found)
        looked += 1
    warnings = [f"{reason}: what it says may be wrong" for reason in found[:_MOST_TOLD]]
    if len(found) > _MOST_TOLD:
        warnings.append(f"{len(found) - _MOST_TOLD} more windows are damaged")
    if looked < len(numbers):
        took = (time.monotonic() - began) * len(numbers) / max(looked, 1)
        warnings.append(
            f"{len(numbers) - looked} of {len(numbers)} windows were not compared with their checksums;"
            f" --check does, which takes about {took:.0f} s"
        )
    return tuple(warnings)


def _look(check: Callable[[], None], found: list[str]) -> None:
    try:
        check()
    except Gone:  # a recorder put it together with others
        return
    except Damaged as damaged:
        found.append(damaged.reason)
