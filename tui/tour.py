"""The line that names the first few keys. Pure functions."""

from __future__ import annotations

from tui.status import ago_text
from widgets.timeline import Stretch, span_text

NEWCOMER_SECONDS = 30.0
"""How long a newcomer may read it."""
_TO_THE_SECOND = 600.0
"""A recording that is shorter, in seconds, is said to be as long as it is."""
FILE_SECONDS = 12.0
"""How long it stands where a recording is opened, each time."""
_FIRST = "First start: Enter looks into a row, Esc goes back, a says what is wrong, ? all keys"
_FIRST_ASIDE = "New here? Enter into a row, Esc back, a what is wrong, ? all keys"


def for_newcomers(width: int) -> str:
    """What is said at the first start, on ``width`` cells."""
    return _FIRST if width > len(_FIRST) + 2 else _FIRST_ASIDE


def of_file(past: Stretch, width: int) -> str:
    """What is said of a recording of ``past``."""
    seconds = float(past.end[-1] - past.start[0])
    length = (ago_text if seconds < _TO_THE_SECOND else span_text)(seconds)[1:]
    long = f"a recording of {length}: [ ] step, ( ) go to faults, T to a moment, P plays, ? all keys"
    short = f"recorded {length}: [ ] step  ( ) faults  T go to  P play  ? all keys"
    return long if width > len(long) + 2 else short
