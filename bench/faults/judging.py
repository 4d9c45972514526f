"""What was said, held against what was done."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from bench.faults.fault import Truth
from bench.faults.outsiders import is_about, is_excused, is_here
from bench.faults.stage import Place
from bench.faults.watcher import Seen, alarms
from stalltop.diagnosis.engine import SIGHTS
from stalltop.model.chain import Chain, worst_first
from stalltop.model.window import Window

_SHORT_ID: Final = 12
"""Characters of a container's id that it is known by where it has no name."""
_RECENT_LOOKS: Final = 8
"""More than the diagnosis looks back."""


@dataclass(slots=True)
class Outcome:
    """What came of one fault of a trial."""

    cause: str
    seed: int
    notes: dict[str, float | str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    """Causes injected at the same time."""
    open_before: bool = False
    """Whether the victim had a chain of the right cause before the injection: then nothing was found."""
    detected_seconds: float | None = None
    """From the injection to the first chain about the victim that was not there before."""
    root_seconds: float | None = None
    """To the right cause as the victim's first chain."""
    found: str = ""
    """The victim's first chain in the end: its cause; empty where there was none."""
    found_raw: str = ""
    """The same with nothing left out: not even chains that rightly blame a tenant outside of the trial."""
    named: bool = False
    """Whether the right cause was among the victim's chains in the end."""
    culprit_expected: bool = False
    """Whether another tenant is to blame."""
    culprit_right: bool = False
    """Whether the right chain blames that one first, or nobody else where nobody else is to blame."""
    healthy_seconds: float = 0.0
    early: tuple[str, ...] = ()
    """Alarms about tenants of this trial before the fault."""
    disturbed: tuple[str, ...] = ()
    """The same where whoever is blamed is no part of the trial, and did as much: the host was not quiet."""
    said: tuple[str, ...] = ()
    """The victim's chains in the end, for people."""
    error: str = ""
    """Why it could not be set up."""

    @property
    def scored(self) -> bool:
        """Whether it counts: it could be set up, and was not seen before it began."""
        return not self.error and not self.open_before

    @property
    def right(self) -> bool:
        """Whether the cause and who is to blame were found."""
        return self.scored and self.found == self.cause and self.culprit_right

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def judge(
    outcome: Outcome, truth: Truth, seen: Sequence[Seen], injected: float, places: Sequence[Place]
) -> None:
    """Fill in what was seen."""
    before = [look for look in seen if look.at <= injected]
    after = seen[len(before) :]
    outcome.healthy_seconds = sum(look.window.seconds for look in before)
    outcome.early, outcome.disturbed = early_alarms(before, places)
    outcome.culprit_expected = truth.culprit is not None
    if not after:
        return
    known = {chain.cause for chain in chains_of(before[-1].window, truth, places)} if before else set()
    outcome.open_before = outcome.cause in known
    for number, look in enumerate(after):
        at = len(before) + number
        chains = quiet_chains(seen[: at + 1], truth, places)
        # What was open before and has closed since is news when it opens again.
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
    """For people, by the names that the trial gives its tenants."""
    text = f"{chain.cause} ({chain.severity}, {chain.lost_ms_per_s:.0f} ms/s): {chain.summary}"
    for place in places:
        text = text.replace(place.identity[:_SHORT_ID], place.name)
    return text


def _since(chain: Chain, number: int, after: Sequence[Seen]) -> bool:
    """Whether look ``number`` after the injection shows a chain by what came after it: one first seen before
    would have opened only when it had been seen often enough since."""
    return chain.since >= after[0].window.start or number + 1 >= SIGHTS


def _blames_right(window: Window, chain: Chain, truth: Truth, places: Sequence[Place]) -> bool:
    first = next(iter(chain.culprits), None)
    if truth.culprit is not None:
        return first is not None and is_about(window, first.tenant, truth.culprit)
    if first is None or not first.tenant:
        return True
    if truth.victim is not None:
        return is_about(window, first.tenant, truth.victim)
    return is_here(window, first.tenant, places)  # a device is at fault: those that use it may be named


def chains_of(window: Window, truth: Truth, places: Sequence[Place]) -> list[Chain]:
    """The open chains about the victim (or, where a device is at fault, about it and all its users), in the
    order in which the screen lists them."""

    def concerns(chain: Chain) -> bool:
        if truth.victim is not None:
            # Of several that wait for one, the chain is told of the first, and its rows are of all of them.
            tenants = {chain.tenant, *(row.tenant for row in chain.rows)}
            return any(is_about(window, tenant, truth.victim) for tenant in tenants)
        return not chain.tenant or is_here(window, chain.tenant, places)

    return sorted(
        (chain for chain in window.chains if chain.open and chain.severity != "info" and concerns(chain)),
        key=worst_first,
    )


def quiet_chains(seen: Sequence[Seen], truth: Truth, places: Sequence[Place]) -> list[Chain]:
    """The same of the last look in ``seen``, but for those that rightly blame an outsider."""
    return [
        chain for chain in chains_of(seen[-1].window, truth, places) if not is_excused(seen, chain, places)
    ]


class Alarms:
    """Alarms about some tenants and the device, once for each time that one goes on."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = places
        self._recent: deque[Seen] = deque(maxlen=_RECENT_LOOKS)
        self._counted: dict[tuple[str, float], str] = {}
        self._disturbed: dict[tuple[str, float], str] = {}

    def add(self, look: Seen) -> None:
        """The next look."""
        self._recent.append(look)
        for chain in alarms(look.window):
            if chain.tenant and not is_here(look.window, chain.tenant, self._places):
                continue
            into = self._disturbed if is_excused(self._recent, chain, self._places) else self._counted
            into[chain.id, chain.since] = _told(chain, self._places)

    @property
    def counted(self) -> tuple[str, ...]:
        """Those that count: without excuse at any time."""
        return tuple(self._counted.values())

    @property
    def disturbed(self) -> tuple[str, ...]:
        """Those that rightly blame somebody who is no part of it."""
        return tuple(text for key, text in self._disturbed.items() if key not in self._counted)


def early_alarms(looks: Sequence[Seen], places: Sequence[Place]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Alarms in ``looks``: those that count, and those that rightly blame an outsider."""
    said = Alarms(places)
    for look in looks:
        said.add(look)
    return said.counted, said.disturbed
