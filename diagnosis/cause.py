"""Defines the properties of a cause: its texts, its least severity, and when its problems open and close."""

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
    """The words for a problem of this cause in the first line of the screen."""
    fault: bool = True
    """Whether the cause is a fault. False for a cause that is only worth knowing, such as a GPU-bound
    program."""
    least: Severity = "low"
    """Least severity of its problems, even if they cost little time."""
    last_resort: bool = False
    """Whether the cause may turn out to be harmless. Such a cause is reported only if no other fault of the
    tenant was found, and always with low severity."""
    at_once: bool = False
    """Whether a problem opens as soon as one window shows the cause, because the cause does not come and go
    by chance."""
    stays_seconds: float = 5.0
    """For how many seconds a problem stays open after its cause was last seen. Longer for causes that last
    only an instant, such as a kill."""
