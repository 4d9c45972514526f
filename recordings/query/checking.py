"""Collects the warnings that are printed before the answer to a query. They are about damaged windows (as far
as there is time to look for them), simulated figures, and calls that were not counted."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from stalltop.model.window import UNCOUNTED
from stalltop.recordings.read.reading import Recorded, UnreadableFileError, WindowGoneError

SECONDS: Final = 1.5
"""Time in seconds for checking windows before a query is answered. It suffices for some hundred windows."""
_FIRST: Final = 0.1
"""Share of the time limit. After this share, checking stops if the time so far shows that checking all
windows would take longer than the limit."""
_MOST_TOLD: Final = 5
"""Largest number of damaged windows that are named in warnings."""


def damages(recorded: Recorded, seconds: float | None) -> tuple[str, ...]:
    """Return warnings about damaged windows, and about windows that were not checked for lack of time, one
    line each.

    Checks the newest windows first. ``seconds`` limits the time; None means no limit. If checking all windows
    would take longer, checking stops early, after the share ``_FIRST`` of ``seconds``.
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
    warnings = [
        f"{reason}: figures that the answer takes from there may be wrong" for reason in found[:_MOST_TOLD]
    ]
    if len(found) > _MOST_TOLD:
        warnings.append(f"{len(found) - _MOST_TOLD} more windows are damaged")
    if looked < len(numbers):
        warnings.append(
            f"{len(numbers) - looked} of {len(numbers)} windows were not compared with their checksums;"
            f" --check compares all{f', which takes about {all_take:.0f} s' if looked else ''}"
        )
    return tuple(warnings)


def missing(recorded: Recorded) -> tuple[str, ...]:
    """Return warnings about simulated figures and about calls that were not counted, one line each."""
    names = ", ".join(map(repr, sorted(UNCOUNTED)))
    try:
        [(lost,)] = recorded.connection.execute(
            f"SELECT total(max(count, 0)) FROM losses WHERE name IN ({names})"
        )
        [(simulated,)] = recorded.connection.execute("SELECT total(simulated <> 0) > 0 FROM windows")
    except sqlite3.Error:  # the check of windows, or the query itself, reports this error
        return ()
    found = ["SIMULATED: these figures are made up"] if simulated else []
    if lost:
        found.append(f"{lost:.0f} calls of this file were not counted: see --named losses")
    return tuple(found)


def _look(check: Callable[[], None], found: list[str]) -> None:
    try:
        check()
    except WindowGoneError:  # a recorder has merged the window with others
        return
    except UnreadableFileError as damaged:
        found.append(damaged.reason)
