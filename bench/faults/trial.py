"""One trial: healthy for a while, then a fault; what the diagnosis said before, when, and in the end."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from bench.faults.fault import FAULTS, Truth
from bench.faults.stage import Files, Place, Stage
from bench.faults.watcher import Seen, Watcher, alarms
from bench.faults.workloads import noise
from demo.build import Built
from model.chain import Chain, worst_first
from model.window import Window

_GLANCE_SECONDS: Final = 0.2
"""Between two looks at what was said."""


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


def run_trial(
    watcher: Watcher,
    built: Built,
    files: Files,
    causes: Sequence[str],
    seed: int,
    *,
    patience_seconds: float = 0.0,
) -> list[Outcome]:
    """Inject the faults of ``causes`` together and watch for as long as each needs; with ``patience_seconds``
    up to so long instead, and no longer than until everything is diagnosed right.

    Raises Told where the host cannot do that.
    """
    outcomes = [Outcome(cause, seed, others=tuple(c for c in causes if c != cause)) for cause in causes]
    with Stage(built, files, random.Random(seed)) as stage:
        files.device.show()
        noise(stage)
        scripts = [FAULTS[cause].script(stage) for cause in causes]
        truths = [next(script) for script in scripts]
        watcher.begin()
        # Not in step with the looks: a fault begins at any time.
        time.sleep(max(FAULTS[cause].healthy_seconds for cause in causes) + stage.chance.random())
        injected = time.monotonic()
        for script in scripts:
            next(script, None)
        watched = patience_seconds or max(FAULTS[cause].watch_seconds for cause in causes)
        while time.monotonic() < injected + watched:
            time.sleep(_GLANCE_SECONDS)
            if patience_seconds and _all_right(outcomes, truths, watcher.seen(), injected, stage.places):
                break
        seen = watcher.seen()
        for outcome, truth in zip(outcomes, truths, strict=True):
            outcome.notes = dict(stage.notes)
            judge(outcome, truth, seen, injected, stage.places)
    return outcomes


def _all_right(
    outcomes: Sequence[Outcome],
    truths: Sequence[Truth],
    seen: Sequence[Seen],
    injected: float,
    places: Sequence[Place],
) -> bool:
    for outcome, truth in zip(outcomes, truths, strict=True):
        judged = replace(outcome)
        judge(judged, truth, seen, injected, places)
        if judged.found != judged.cause or judged.culprit_right != judged.culprit_expected:
            return False
    return True


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
        chains = chains_of(look.window, truth.victim, outcome.cause)
        if chains and outcome.detected_seconds is None:
            outcome.detected_seconds = look.at - injected
        if chains and outcome.root_seconds is None and chains[0].cause == outcome.cause:
            outcome.root_seconds = look.at - injected
    if not after:
        return
    window = after[-1].window
    chains = chains_of(window, truth.victim, outcome.cause)
    outcome.found = chains[0].cause if chains else ""
    outcome.said = tuple(f"{chain.cause} ({chain.severity}): {chain.summary}" for chain in chains[:4])
    right = next((chain for chain in chains if chain.cause == outcome.cause), None)
    outcome.named = right is not None
    if right is not None and truth.culprit is not None and right.culprits:
        outcome.culprit_right = is_about(window, right.culprits[0].tenant, truth.culprit)


def chains_of(window: Window, victim: Place | None, cause: str) -> list[Chain]:
    """The open chains about the victim, the worst first; without one, those of the fault's own cause."""
    about = [
        chain
        for chain in window.chains
        if chain.open
        and chain.severity != "info"
        and (is_about(window, chain.tenant, victim) if victim is not None else chain.cause == cause)
    ]
    # Not the newest: what costs most is what a person should see to first.
    return sorted(about, key=lambda chain: (worst_first(chain)[:2], -chain.lost_ms_per_s))


def early_alarms(looks: Sequence[Seen], places: Sequence[Place]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Alarms about these tenants, by text, once each: those that blame nobody else, and those that do."""
    early: dict[str, str] = {}
    disturbed: dict[str, str] = {}
    for look in looks:
        for chain in alarms(look.window):
            if not any(is_about(look.window, chain.tenant, place) for place in places):
                continue
            blamed = [link.tenant for link in chain.culprits]
            outside = bool(blamed) and not any(is_about(look.window, blamed[0], place) for place in places)
            into = disturbed if outside else early
            into[chain.id] = f"{chain.cause} ({chain.severity}): {chain.summary}"
    return tuple(early.values()), tuple(disturbed.values())


def is_about(window: Window, tenant: str, place: Place) -> bool:
    """Whether the window's tenant is that one."""
    found = window.tenants.get(tenant)
    return found is not None and found.container_id == place.identity
