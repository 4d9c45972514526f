"""Defines what one rule finds in one stretch of time: a chain before it is followed over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.losses import Who
from stalltop.model.chain import Fix, Link
from stalltop.model.row_key import RowKey


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One cause that is at work, with the time that it takes."""

    cause: str
    """A key of ``diagnosis.causes.CAUSES``."""
    tenant: str
    """Id of the tenant that loses; '' if the whole host does."""
    summary: str
    """One line: who loses what to whom. It does not begin with a figure that changes every second."""
    lost_ns_per_s: float
    """Measured time lost through this cause; 0 if none was lost yet (a leak, an XID)."""
    confidence: float
    """Confidence from 0 to 1."""
    links: tuple[Link, ...] = ()
    """From the effect (depth 0) to the root."""
    fixes: tuple[Fix, ...] = ()
    effect: RowKey | None = None
    """Row that loses most; None if it is not a row."""
    rows: tuple[RowKey, ...] = ()
    pid: int = 0
    process: str = ""
    about: str = ""
    """Distinguishes it from another of the same cause and tenant: a device, a communicator. '': not
    needed."""
    unknown: tuple[str, ...] = ()
    p99_ns: int | None = None
    normal_p99_ns: int | None = None
    calls: int = 0
    share: float | None = None
    """Part of the victim's time that is lost, 0 to 1; if None, the engine computes it from ``pid``."""
    small: bool = False
    """Whether it is reported only if it lasts: such losses also occur on healthy hosts for a moment."""
    suffering: frozenset[str] = frozenset()
    """All tenants (ids) that it may slow down, if more than ``tenant``: a device's users."""
    taken: Mapping[int, Mapping[Who, float]] = field(default_factory=dict)
    """By process that loses: what each culprit took, added up over time (`diagnosis.blame`)."""


Rule = Callable[[Facts], Iterable[Suspicion]]
"""Looks for one cause, or a few that share their evidence. Pure; yields nothing if all is well."""
