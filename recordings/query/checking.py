"""Whether figures of a file are those that were saved, as far as there is time; and what they lack."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from stalltop.model.window import UNCOUNTED
from stalltop.recordings.read.reading import Recorded, UnreadableFileError, WindowGoneError

SECONDS: Final = 1.5
"""Windows are compared with their checksums before a query is answered where all of them take less than
this: some hundreds."""
_FIRST: Final = 0.1
"""This part of the time is enough to see that all of them take longer."""
_MOST_TOLD: Final = 5
"""Damaged windows that are named."""


def damages(recorded: Recorded, seconds: float | None) -> tuple[str, ...]:
    """What is wrong with the file, and whether there was no time to look at all of it, a line each.

    The newest windows are looked at first. ``seconds``: how long that may take; where it would take longer,
    a part of it is taken. None: however long it takes.
    """
    numbers = recorded.moments.window_id.tolist()[::-1]
    found: list[str] = []
    began = time.monotonic()
    looked, all_take = 0, 0.0
    _look(recorded.check_shared, found)
    for number in numbers:
        took = time.monotonic() - began
        all_take = took / looked * len(numbers) if looked else 0.0
        if seconds is not None and (took >= seconds or (took >= _FIRST * seconds and all_take > seconds)):
            break
        _look(partial(recorded.check, number), found)
        looked += 1
    warnings = [f"{reason}: what it says may be wrong" for reason in found[:_MOST_TOLD]]
    if len(found) > _MOST_TOLD:
        warnings.append(f"{len(found) - _MOST_TOLD} more windows are damaged")
    if looked < len(numbers):
        warnings.append(
            f"{len(numbers) - looked} of {len(numbers)} windows were not compared with their checksums;"
            f" --check does{f', which takes about {all_take:.0f} s' if looked else ''}"
        )
    return tuple(warnings)


def missing(recorded: Recorded) -> tuple[str, ...]:
    """What the figures of the file lack, or are not, a line each."""
    names = ", ".join(map(repr, sorted(UNCOUNTED)))
    try:
        [(lost,)] = recorded.connection.execute(
            f"SELECT total(max(count, 0)) FROM losses WHERE name IN ({names})"
        )
        [(simulated,)] = recorded.connection.execute("SELECT total(simulated <> 0) > 0 FROM windows")
    except sqlite3.Error:  # told already, or by the query
        return ()
    found = ["SIMULATED: these figures are made up"] if simulated else []
    if lost:
        found.append(f"{lost:.0f} calls of this file were not counted: see --named losses")
    return tuple(found)


def _look(check: Callable[[], None], found: list[str]) -> None:
    try:
        check()
    except WindowGoneError:  # a recorder put it together with others
        return
    except UnreadableFileError as damaged:
        found.append(damaged.reason)
