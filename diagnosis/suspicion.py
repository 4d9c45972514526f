"""Defines what one rule finds in one window. The engine follows suspicions over time and makes chains of
them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import Who
from stalltop.model.chain import Fix, Link
from stalltop.model.row_key import RowKey


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One cause that a rule found at work, with the time that was lost through it."""

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
    """Links of the chain, from the effect (depth 0) to the root."""
    fixes: tuple[Fix, ...] = ()
    effect: RowKey | None = None
    """Row that loses most time; None if no row does."""
    rows: tuple[RowKey, ...] = ()
    pid: int = 0
    process: str = ""
    about: str = ""
    """What distinguishes this suspicion from others of the same cause and tenant, such as a device or a
    communicator; '' if there are no others."""
    unknown: tuple[str, ...] = ()
    p99_ns: int | None = None
    normal_p99_ns: int | None = None
    calls: int = 0
    share: float | None = None
    """Part of the victim's time that is lost, 0 to 1; if None, the engine computes it from ``pid``."""
    small: bool = False
    """Whether the loss is reported only if it lasts, because losses of this size also occur on healthy hosts
    for a moment."""
    suffering: frozenset[str] = frozenset()
    """Ids of all tenants that the cause may slow down, if there are others besides ``tenant``: the users of a
    device."""
    taken: Mapping[int, Mapping[Who, float]] = field(default_factory=dict)
    """For each process that loses time (by PID): what each culprit took, added up over time
    (`diagnosis.blame`)."""


Rule = Callable[[Facts], Iterable[Suspicion]]
"""A function that looks for one cause, or for several causes that share their evidence. It is pure, and
yields nothing if all is well."""
