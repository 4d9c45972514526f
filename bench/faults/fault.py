"""What a fault is: a script that first sets healthy tenants up, and then does them harm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from bench.faults.stage import Place, Stage
from stalltop.diagnosis.causes import CAUSES


@dataclass(frozen=True, slots=True)
class Truth:
    """What a script does: known because it does it."""

    victim: Place | None
    """Who loses; None where it is a device that is at fault."""
    culprit: Place | None = None
    """The other tenant to blame; None where nobody else is."""


Script = Callable[[Stage], Iterator[Truth]]
"""Sets up, yields the truth, and injects the fault when it is asked to go on. What it started ends with the
stage."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    cause: str
    """The key of ``diagnosis.causes.CAUSES`` that names it."""
    script: Script
    common: bool = False
    """One of the commonest causes on a host: more trials."""
    watch_seconds: float = 8.0
    """How long it is watched after it began."""
    healthy_seconds: float = 3.0
    """How long all is well before it begins: as much as a diagnosis looks back; more where it shows
    only against what is normal."""


FAULTS: Final[dict[str, Fault]] = {}
"""All by cause, in the order of their definition."""


def fault(
    cause: str, *, common: bool = False, watch_seconds: float = 8.0, healthy_seconds: float = 3.0
) -> Callable[[Script], Script]:
    """Register a script as the fault that ``cause`` names."""
    if cause not in CAUSES or cause in FAULTS:
        raise ValueError(f"no cause, or one that has a script: {cause}")

    def register(script: Script) -> Script:
        FAULTS[cause] = Fault(cause, script, common, watch_seconds, healthy_seconds)
        return script

    return register
