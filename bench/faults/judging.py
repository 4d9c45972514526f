"""Compares what the diagnosis found with the fault that was injected."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from bench.faults.fault import Truth
from bench.faults.outsiders import is_about, is_excused, is_here, taken_by_outsiders
from bench.faults.stage import Place
from bench.faults.watcher import Seen, alarms
from stalltop.diagnosis.engine import SIGHTS
from stalltop.model.chain import Chain, worst_first
from stalltop.model.window import Window

_SHORT_ID: Final = 12
"""Characters of a container's id that stand for its name if it has none."""
MOST_OUTSIDE: Final = 0.03
"""Part of the victim's time that processes outside may take in a trial of chosen strength."""
MOST_OUTSIDE_OF_STRENGTH: Final = 0.25
"""The same in proportion to the strength, if that is more."""
_RECENT_LOOKS: Final = 8
"""Number of windows that are kept: more than the diagnosis looks back."""


@dataclass(slots=True)
class Outcome:
    """Result of one fault of a trial."""

    cause: str
    seed: int
    notes: dict[str, float | str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    """Causes injected at the same time."""
    name: str = ""
    """Name of the fault, if that is not its cause."""
    open_before: bool = False
    """Whether the victim had a chain of the right cause before the injection: then nothing was found."""
    detected_seconds: float | None = None
    """Time from the injection to the first new chain about the victim."""
    root_seconds: float | None = None
    """Time from the injection until the right cause is the victim's first chain."""
    found: str = ""
    """Cause of the victim's first chain at the end; '' if it had none."""
    found_raw: str = ""
    """The same without leaving out any chain, not even those that rightly blame a tenant outside of the
    trial."""
    named: bool = False
    """Whether the right cause was among the victim's chains at the end."""
    culprit_expected: bool = False
    """Whether another tenant is to blame."""
    culprit_right: bool = False
    """Whether the right chain blames that tenant first, or nobody else if nobody else is to blame."""
    healthy_seconds: float = 0.0
    early: tuple[str, ...] = ()
    """Alarms about tenants of this trial before the fault."""
    wrong: tuple[str, ...] = ()
    """Alarms since the fault began, of a cause that was not injected, about tenants of this trial."""
    disturbed: tuple[str, ...] = ()
    """Alarms before the fault that blame a process outside of the trial which did as much as it is charged
    with: the host was not quiet."""
    said: tuple[str, ...] = ()
    """The victim's chains at the end, as text."""
    error: str = ""
    """Why the trial could not be set up."""
    strength: float = 0.0
    """Share of its time that the victim was meant to lose; 0 if the script chose the strength."""
    lost_share: float | None = None
    """Share of its time that the victim lost, by its own count of steps; None if it was not counted."""
    outside_share: float = 0.0
    """Part of the time for which processes outside of the trial had the CPUs of the victim: before the fault
    or since then, whichever is more."""

    @property
    def fault(self) -> str:
        """Returns the name of the fault."""
        return self.name or self.cause

    @property
    def scored(self) -> bool:
        """Returns whether it counts: it could be set up, its cause was not found before it began, and the
        host was quiet enough."""
        return not self.error and not self.open_before and self.quiet

    @property
    def quiet(self) -> bool:
        """Returns whether the victim lost what it lost to the fault, as far as its strength was chosen, and
        not to processes outside of the trial."""
        most = max(MOST_OUTSIDE, MOST_OUTSIDE_OF_STRENGTH * self.strength)
        return not self.strength or self.outside_share <= most

    @property
    def right(self) -> bool:
        """Returns whether the right cause and the right culprit were found."""
        return self.scored and self.found == self.cause and self.culprit_right

    def plain(self) -> dict[str, Any]:
        """Returns the outcome as a dict for JSON."""
        return asdict(self)


def outcome_of(plain: Mapping[str, Any]) -> Outcome:
    """Returns the outcome for which `Outcome.plain` returned ``plain``, even after a way through JSON."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()
    }
    return Outcome(**values)


def judge(
    outcome: Outcome, truth: Truth, seen: Sequence[Seen], injected: float, places: Sequence[Place]
) -> None:
    """Fills in ``outcome`` from what was seen."""
    before = [look for look in seen if look.at <= injected]
    after = seen[len(before) :]
    outcome.healthy_seconds = sum(look.window.seconds for look in before)
    outcome.early, outcome.disturbed = alarms_in(before, places)
    outcome.wrong, _ = alarms_in(after, places, (outcome.cause, *outcome.others))
    outcome.culprit_expected = truth.culprit is not None
    if truth.victim is not None:
        shares = (taken_by_outsiders(part, truth.victim, places) for part in (before, after))
        outcome.outside_share = max(shares)
    if not after:
        return
    known = {chain.cause for chain in chains_of(before[-1].window, truth, places)} if before else set()
    outcome.open_before = outcome.cause in known
    for number, look in enumerate(after):
        at = len(before) + number
        chains = quiet_chains(seen[: at + 1], truth, places)
        # A chain that was open before and has closed counts as new if it opens again.
        known &= {chain.cause for chain in chains_of(look.window, truth, places)}
        fresh = [chain for chain in chains if chain.cause not in known and _since(chain, number, after)]
        if fresh and outcome.detected_seconds is None:
            outcome.detected_seconds = look.at - injected
        if (
            fresh
            and outcome.root_seconds is None
            and chains[0] is fresh[0]
            and fresh[0].cause == outcome.cause
        ):
            outcome.root_seconds = look.at - injected
    window = after[-1].window
    everything = chains_of(window, truth, places)
    chains = quiet_chains(seen, truth, places)
    outcome.found = chains[0].cause if chains else ""
    outcome.found_raw = everything[0].cause if everything else ""
    outcome.said = tuple(_told(chain, places) for chain in everything[:4])
    right = next((chain for chain in chains if chain.cause == outcome.cause), None)
    outcome.named = right is not None
    outcome.culprit_right = right is not None and _blames_right(window, right, truth, places)


def _told(chain: Chain, places: Sequence[Place]) -> str:
    """Returns a chain as text, with the names that the trial gives its tenants."""
    text = f"{chain.cause} ({chain.severity}, {chain.lost_ms_per_s:.0f} ms/s): {chain.summary}"
    for place in places:
        text = text.replace(place.identity[:_SHORT_ID], place.name)
    return text


def _since(chain: Chain, number: int, after: Sequence[Seen]) -> bool:
    """Returns whether window ``number`` after the injection shows a chain because of the injection. A chain
    first seen earlier counts only after as many windows as a chain needs to open."""
    return chain.since >= after[0].window.start or number + 1 >= SIGHTS


def _blames_right(window: Window, chain: Chain, truth: Truth, places: Sequence[Place]) -> bool:
    first = next(iter(chain.culprits), None)
    if truth.culprit is not None:
        return first is not None and is_about(window, first.tenant, truth.culprit)
    if first is None or not first.tenant:
        return True
    if truth.victim is not None:
        return is_about(window, first.tenant, truth.victim)
    return is_here(window, first.tenant, places)  # a device is at fault: its users may be named


def chains_of(window: Window, truth: Truth, places: Sequence[Place]) -> list[Chain]:
    """Returns the open chains about the victim, in the order of the screen. If a device is at fault, they are
    those about the device and all its users."""

    def concerns(chain: Chain) -> bool:
        if truth.victim is not None:
            # If several tenants wait for one, the chain names the first; its rows are those of all.
            tenants = {chain.tenant, *(row.tenant for row in chain.rows)}
            return any(is_about(window, tenant, truth.victim) for tenant in tenants)
        return not chain.tenant or is_here(window, chain.tenant, places)

    return sorted(
        (chain for chain in window.chains if chain.open and chain.severity != "info" and concerns(chain)),
        key=worst_first,
    )


def quiet_chains(seen: Sequence[Seen], truth: Truth, places: Sequence[Place]) -> list[Chain]:
    """Returns the same for the last window in ``seen``, without chains that rightly blame a process outside
    of the trial."""
    return [
        chain for chain in chains_of(seen[-1].window, truth, places) if not is_excused(seen, chain, places)
    ]


class Alarms:
    """Collects alarms about some tenants and the device, each once for as long as it is open."""

    def __init__(self, places: Sequence[Place], besides: Sequence[str] = ()) -> None:
        """Alarms of the causes ``besides`` are left out."""
        self._places = places
        self._besides = besides
        self._recent: deque[Seen] = deque(maxlen=_RECENT_LOOKS)
        self._counted: dict[tuple[str, float], str] = {}
        self._disturbed: dict[tuple[str, float], str] = {}

    def add(self, look: Seen) -> None:
        """Adds the next window."""
        self._recent.append(look)
        for chain in alarms(look.window):
            here = not chain.tenant or is_here(look.window, chain.tenant, self._places)
            if not here or chain.cause in self._besides:
                continue
            into = self._disturbed if is_excused(self._recent, chain, self._places) else self._counted
            into[chain.id, chain.since] = _told(chain, self._places)

    @property
    def counted(self) -> tuple[str, ...]:
        """Returns the alarms that count: those that were never excused."""
        return tuple(self._counted.values())

    @property
    def disturbed(self) -> tuple[str, ...]:
        """Returns the alarms that rightly blame a process outside of the trial."""
        return tuple(text for key, text in self._disturbed.items() if key not in self._counted)


def alarms_in(
    looks: Sequence[Seen], places: Sequence[Place], besides: Sequence[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the alarms in ``looks``, without those of the causes ``besides``: those that count, and those
    that rightly blame a process outside of the trial."""
    said = Alarms(places, besides)
    for look in looks:
        said.add(look)
    return said.counted, said.disturbed
