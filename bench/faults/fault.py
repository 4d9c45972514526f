"""Defines a fault: a script that first sets up healthy tenants, and then harms one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from bench.faults.stage import Place, Stage
from stalltop.diagnosis.causes import CAUSES


@dataclass(frozen=True, slots=True)
class Truth:
    """The victim and the culprit of a script, which are known because the script chooses them."""

    victim: Place | None
    """The tenant that loses; None if a device is at fault."""
    culprit: Place | None = None
    """The other tenant to blame; None if there is none."""


Script = Callable[[Stage], Iterator[Truth]]
"""Sets up, yields the truth, and injects the fault when it is resumed. The stage ends what the script
started."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    name: str
    """Its own, or that of its cause."""
    cause: str
    """The key of ``diagnosis.causes.CAUSES`` that names it."""
    script: Script
    common: bool = False
    """Whether it is one of the most frequent causes on a host, which get more trials."""
    watch_seconds: float = 8.0
    """Time for which it is watched after it began."""
    healthy_seconds: float = 3.0
    """Time without a fault before it begins: as long as the diagnosis looks back, longer if the cause is
    defined against a baseline."""
    strength: float = 0.0
    """Share of its time that the victim is meant to lose; 0 if the script chooses the strength."""
    real: bool = False
    """Whether it needs the public packages of ``bench.faults.real``."""


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
    """Registers a script as a fault of ``cause``: the one of its name, or one with a ``name`` of its own."""
    name = name or cause
    if cause not in CAUSES or name in FAULTS:
        raise ValueError(f"not a cause, or a name that already has a script: {name}")

    def register(script: Script) -> Script:
        real = script.__module__.startswith("bench.faults.real.")
        FAULTS[name] = Fault(name, cause, script, common, watch_seconds, healthy_seconds, real=real)
        return script

    return register
