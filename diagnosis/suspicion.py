"""Defines what one rule finds in one window: a suspicion. The engine follows suspicions over time and makes
chains of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import Who
from stalltop.model.chain import Fix, Link
from stalltop.model.row_key import RowKey


@dataclass(frozen=True, slots=True)
class Suspicion:
    """One cause that a rule found in a window, with the time that was lost through it."""

    cause: str
    """A key of ``diagnosis.causes.CAUSES``."""
    tenant: str
    """Id of the tenant that loses time; '' if the whole host does."""
    summary: str
    """Says in one line who loses what to whom. Does not begin with a figure that changes every second."""
    lost_ns_per_s: float
    """Measured time lost through this cause; 0 if the cause costs no time yet, such as a leak or an XID."""
    confidence: float
    """Confidence from 0 to 1."""
    links: tuple[Link, ...] = ()
    """Links of the chain, from the effect (depth 0) down to the root."""
    fixes: tuple[Fix, ...] = ()
    effect: RowKey | None = None
    """Key of the row that loses most time; None if no row does."""
    rows: tuple[RowKey, ...] = ()
    pid: int = 0
    process: str = ""
    about: str = ""
    """Distinguishes this suspicion from others of the same cause and tenant, for example by a device or a
    communicator; '' if there can be no others."""
    unknown: tuple[str, ...] = ()
    p99_ns: int | None = None
    normal_p99_ns: int | None = None
    calls: int = 0
    share: float | None = None
    """Part of the victim's time that is lost, 0 to 1. If None, `verdict` computes it for process ``pid``
    or, if that is 0, for the process of ``effect``."""
    small: bool = False
    """Whether the loss is reported only if it lasts. Losses of this size also occur on healthy hosts, but
    only for a moment."""
    suffering: frozenset[str] = frozenset()
    """Ids of all tenants that the cause may slow down, such as all users of a device. Empty if these are only
    ``tenant``."""
    title: str = ""
    """Title of the problem if it says more than the title of its cause, such as ``Straggler: rank 1``; else
    ''."""
    taken: Mapping[int, Mapping[Who, float]] = field(default_factory=dict)
    """For each process that loses time (by PID): the weighted sum of what each culprit took from it over time
    (`diagnosis.blame`)."""


Rule = Callable[[Facts], Iterable[Suspicion]]
"""A function that looks for one cause, or for several causes with the same evidence. It is pure, and yields
nothing if it finds no cause."""
