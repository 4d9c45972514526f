"""Defines root causes of lost time on the host, and what each adds to the chain that reports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stalltop.diagnosis.attribution.losses import Loss
from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import Who
from stalltop.model.chain import Fix, Link


@dataclass(frozen=True, slots=True)
class Description:
    """The parts of a chain that follow the effect and the mechanisms."""

    summary: str
    """One line: who loses what to whom."""
    links: tuple[Link, ...]
    """Culprits, their reasons, and factors."""
    fixes: tuple[Fix, ...]
    confidence: float
    unknown: tuple[str, ...] = ()
    about: str = ""


def charged(_: Facts, loss: Loss) -> Mapping[Who, float]:
    """Returns the culprits to whom the loss was charged."""
    return loss.culprits


@dataclass(frozen=True, slots=True)
class HostCause:
    """A root cause to which `diagnosis.attribution` attributes lost time."""

    cause: Cause
    describe: Callable[[Facts, Loss], Description | None]
    """Describes a loss; returns None if this is not the cause after all."""
    certain: bool = False
    """Whether the cause has evidence of its own besides the lost time: a limit reached, faults, retransmits.
    Then smaller losses are reported, too."""
    culprits: Callable[[Facts, Loss], Mapping[Who, float]] = charged
    """Returns how much each culprit took in the window, in any unit: the loss is divided among the culprits
    in this proportion."""
