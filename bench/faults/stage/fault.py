"""Defines a fault: a script that first sets up healthy tenants, and then harms one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from bench.faults.stage.stage import Place, Stage
from stalltop.diagnosis.causes import CAUSES


@dataclass(frozen=True, slots=True)
class Truth:
    """Who the victim and the culprit of a trial are. They are known because the script chooses them."""

    victim: Place | None
    """The tenant that is slowed down; None if a device is at fault."""
    culprit: Place | None = None
    """The other tenant that causes the fault; None if no other tenant does."""


Script = Callable[[Stage], Iterator[Truth]]
"""Generator function of a fault. It sets up the tenants and yields the truth; when it is resumed, it injects
the fault. The stage ends everything that the script has started."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    name: str
    """Name of the fault: a name of its own, or the name of its cause."""
    cause: str
    """The cause that the diagnosis should find: a key of ``diagnosis.causes.CAUSES``."""
    script: Script
    common: bool = False
    """Whether the cause is one of the most frequent ones on a host. Such causes get more trials."""
    watch_seconds: float = 8.0
    """Time for which a trial goes on after the fault was injected."""
    healthy_seconds: float = 3.0
    """Time without a fault before the injection: as long as the past that the diagnosis examines, or longer
    if the cause is found by comparing with a baseline."""
    strength: float = 0.0
    """Share of the victim's time that the fault is meant to take; 0 if the script chooses the strength."""
    real: bool = False
    """Whether the fault needs the public packages of ``bench.faults.real``."""


FAULTS: Final[dict[str, Fault]] = {}
"""All faults by name, in the order of their definition."""


def fault(
    cause: str,
    name: str = "",
    *,
    common: bool = False,
    watch_seconds: float = 8.0,
    healthy_seconds: float = 3.0,
) -> Callable[[Script], Script]:
    """Returns a decorator that registers a script as a fault of ``cause``. The fault gets the name ``name``,
    or the name of its cause if ``name`` is ''."""
    name = name or cause
    if cause not in CAUSES or name in FAULTS:
        raise ValueError(f"not a cause, or a name that already has a script: {name}")

    def register(script: Script) -> Script:
        real = script.__module__.startswith("bench.faults.real.")
        FAULTS[name] = Fault(name, cause, script, common, watch_seconds, healthy_seconds, real=real)
        return script

    return register
