"""Compares what the diagnosis found with the fault that was injected."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from bench.faults.stage.fault import Truth
from bench.faults.stage.stage import Place
from bench.faults.trial.outcome import Outcome
from bench.faults.trial.outsiders import is_about, is_excused, is_here, taken_by_outsiders
from bench.faults.trial.watcher import Seen, alarms
from stalltop.diagnosis.engine import SIGHTS
from stalltop.model.chain import Chain, worst_first
from stalltop.model.window import Window

_SHORT_ID: Final = 12
"""Number of first characters of a container's id that windows show if the container has no name."""
_RECENT_LOOKS: Final = 8
"""Number of last windows that `Alarms` keeps: more than the diagnosis examines at a time."""


def judge(
    outcome: Outcome, truth: Truth, seen: Sequence[Seen], injected: float, places: Sequence[Place]
) -> None:
    """Fills in ``outcome`` by comparing the windows ``seen`` with the ``truth``. ``injected`` is when the
    fault began (time.monotonic()), ``places`` are the tenants of the trial."""
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
    """Returns a chain as text, in which the tenants of the trial have the names that the script gave them."""
    text = f"{chain.cause} ({chain.severity}, {chain.lost_ms_per_s:.0f} ms/s): {chain.summary}"
    for place in places:
        text = text.replace(place.identity[:_SHORT_ID], place.name)
    return text


def _since(chain: Chain, number: int, after: Sequence[Seen]) -> bool:
    """Returns whether ``chain``, open in window ``number`` (from 0) after the injection, may result from the
    injection. If it was first seen before the injection, it counts only once ``SIGHTS`` windows have passed
    since the injection: that many windows have to show a cause before its chain opens, so a chain that is
    open earlier results in part from windows before the injection."""
    return chain.since >= after[0].window.start or number + 1 >= SIGHTS


def _blames_right(window: Window, chain: Chain, truth: Truth, places: Sequence[Place]) -> bool:
    first = next(iter(chain.culprits), None)
    if truth.culprit is not None:
        return first is not None and is_about(window, first.tenant, truth.culprit)
    if first is None or not first.tenant:
        return True
    if truth.victim is not None:
        return is_about(window, first.tenant, truth.victim)
    # A device is at fault, not a tenant. The chain may still name a tenant of the trial, which uses the
    # device.
    return is_here(window, first.tenant, places)


def chains_of(window: Window, truth: Truth, places: Sequence[Place]) -> list[Chain]:
    """Returns the open chains about the victim, in the order of the screen, without those of the severity
    information. If a device is at fault (no victim), returns the chains about the tenants of the trial and
    those about no tenant, such as a device."""

    def concerns(chain: Chain) -> bool:
        if truth.victim is not None:
            # If several tenants wait for one other tenant, a single chain describes all these waits:
            # ``chain.tenant`` is the first of these tenants, and ``chain.rows`` has the rows of all of them.
            tenants = {chain.tenant, *(row.tenant for row in chain.rows)}
            return any(is_about(window, tenant, truth.victim) for tenant in tenants)
        return not chain.tenant or is_here(window, chain.tenant, places)

    return sorted(
        (chain for chain in window.chains if chain.open and chain.severity != "info" and concerns(chain)),
        key=worst_first,
    )


def quiet_chains(seen: Sequence[Seen], truth: Truth, places: Sequence[Place]) -> list[Chain]:
    """Returns the chains of `chains_of` for the last window in ``seen``, except those that rightly blame a
    process outside of the trial."""
    return [
        chain for chain in chains_of(seen[-1].window, truth, places) if not is_excused(seen, chain, places)
    ]


class Alarms:
    """Collects alarms about the tenants ``places``, and alarms about no tenant, such as those about a device.
    An alarm that is open in several windows is collected once."""

    def __init__(self, places: Sequence[Place], besides: Sequence[str] = ()) -> None:
        """``places`` are the tenants of the trial. Alarms of the causes ``besides`` are ignored."""
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
        """Returns the false alarms: those that in at least one window did not rightly blame a process outside
        of the trial."""
        return tuple(self._counted.values())

    @property
    def disturbed(self) -> tuple[str, ...]:
        """Returns the alarms that in every window rightly blamed a process outside of the trial."""
        return tuple(text for key, text in self._disturbed.items() if key not in self._counted)


def alarms_in(
    looks: Sequence[Seen], places: Sequence[Place], besides: Sequence[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns two groups of the alarms in ``looks``: those that count as false, and those that rightly blame
    a process outside of the trial. Alarms of the causes ``besides`` are left out."""
    said = Alarms(places, besides)
    for look in looks:
        said.add(look)
    return said.counted, said.disturbed
