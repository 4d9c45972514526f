"""What was said, held against what was done."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.faults.fault import Truth
from bench.faults.stage import Place
from bench.faults.watcher import Seen, alarms
from model.chain import Chain, worst_first
from model.window import Window


@dataclass(slots=True)
class Outcome:
    """What came of one fault of a trial."""

    cause: str
    seed: int
    notes: dict[str, float | str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    """Causes injected at the same time."""
    detected_seconds: float | None = None
    """From the injection to the first chain about the victim."""
    root_seconds: float | None = None
    """To the right cause as the victim's first chain."""
    found: str = ""
    """The victim's first chain in the end: its cause; empty where there was none."""
    named: bool = False
    """Whether the right cause was among the victim's chains in the end."""
    culprit_expected: bool = False
    """Whether another tenant is to blame."""
    culprit_right: bool = False
    """Whether that one is the first that the right chain blames."""
    healthy_seconds: float = 0.0
    early: tuple[str, ...] = ()
    """Alarms about tenants of this trial before the fault."""
    disturbed: tuple[str, ...] = ()
    """The same where whoever is blamed is no part of the trial: the host was not quiet."""
    said: tuple[str, ...] = ()
    """The victim's chains in the end, for people."""
    error: str = ""

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def judge(
    outcome: Outcome, truth: Truth, seen: Sequence[Seen], injected: float, places: Sequence[Place]
) -> None:
    """Fill in what was seen."""
    before = [look for look in seen if look.at <= injected]
    after = [look for look in seen if look.at > injected]
    outcome.healthy_seconds = sum(look.window.seconds for look in before)
    outcome.early, outcome.disturbed = early_alarms(before, places)
    outcome.culprit_expected = truth.culprit is not None
    for look in after:
        chains = chains_of(look.window, truth, places)
        if chains and outcome.detected_seconds is None:
            outcome.detected_seconds = look.at - injected
        if chains and outcome.root_seconds is None and chains[0].cause == outcome.cause:
            outcome.root_seconds = look.at - injected
    if not after:
        return
    window = after[-1].window
    chains = chains_of(window, truth, places)
    outcome.found = chains[0].cause if chains else ""
    outcome.said = tuple(f"{chain.cause} ({chain.severity}): {chain.summary}" for chain in chains[:4])
    right = next((chain for chain in chains if chain.cause == outcome.cause), None)
    outcome.named = right is not None
    if right is not None and truth.culprit is not None and right.culprits:
        outcome.culprit_right = is_about(window, right.culprits[0].tenant, truth.culprit)


def chains_of(window: Window, truth: Truth, places: Sequence[Place]) -> list[Chain]:
    """The open chains about the victim (or, where a device is at fault, about it and all its users), the
    worst first. Those that blame somebody who is no part of the trial are true, but not what was asked."""

    def concerns(chain: Chain) -> bool:
        if truth.victim is not None:
            return is_about(window, chain.tenant, truth.victim)
        return not chain.tenant or _is_here(window, chain.tenant, places)

    about = [
        chain
        for chain in window.chains
        if chain.open
        and chain.severity != "info"
        and concerns(chain)
        and not _blames_others(window, chain, places)
    ]
    # Not the newest: what costs most is what a person should see to first.
    return sorted(about, key=lambda chain: (worst_first(chain)[:2], -chain.lost_ms_per_s))


def early_alarms(looks: Sequence[Seen], places: Sequence[Place]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Alarms about these tenants and the device, by text, once each: those that blame nobody who is no part
    of the trial, and those that do."""
    early: dict[str, str] = {}
    disturbed: dict[str, str] = {}
    for look in looks:
        for chain in alarms(look.window):
            if chain.tenant and not _is_here(look.window, chain.tenant, places):
                continue
            into = disturbed if _blames_others(look.window, chain, places) else early
            into[chain.id] = f"{chain.cause} ({chain.severity}): {chain.summary}"
    return tuple(early.values()), tuple(disturbed.values())


def _blames_others(window: Window, chain: Chain, places: Sequence[Place]) -> bool:
    """Whether whom it blames first is no part of the trial. The tracer, which runs in this process, is."""
    first = next(iter(chain.culprits), None)
    if first is None or not first.tenant or first.pid == os.getpid():
        return False
    return not _is_here(window, first.tenant, places)


def _is_here(window: Window, tenant: str, places: Sequence[Place]) -> bool:
    return any(is_about(window, tenant, place) for place in places)


def is_about(window: Window, tenant: str, place: Place) -> bool:
    """Whether the window's tenant is that one."""
    found = window.tenants.get(tenant)
    return found is not None and found.container_id == place.identity
