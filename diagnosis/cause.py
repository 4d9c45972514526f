"""Defines the fixed properties of a cause: its texts, its least severity, and when its problems open and
close."""

from __future__ import annotations

from dataclasses import dataclass

from stalltop.model.chain import Severity
from stalltop.model.telling import Telling


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause that the diagnosis can name."""

    id: str
    title: str
    """Title of a few words, as the screen shows it."""
    about: str
    """One line that says what happens."""
    telling: Telling
    """The words with which the first line of the screen tells a problem of this cause."""
    fault: bool = True
    """Whether the cause is a fault. False for a cause that is only worth knowing, such as a GPU-bound
    program."""
    least: Severity = "low"
    """Least severity of its problems, however little time they cost."""
    last_resort: bool = False
    """Whether the cause may turn out to be harmless. It is reported only if nothing else is wrong with the
    tenant, and its severity is always low."""
    at_once: bool = False
    """Whether a single window is enough to open a problem, because the cause does not come and go by
    chance."""
    stays_seconds: float = 5.0
    """Seconds for which a problem stays open after its cause was last seen; longer for causes that happen in
    an instant, such as a kill."""
