"""Defines root causes of time lost on the host, and what each of them adds to the chain that reports it."""

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
    """The part of a chain that depends on the cause. In a chain, it follows the effect and the mechanisms."""

    summary: str
    """Says in one line who loses what to whom."""
    links: tuple[Link, ...]
    """Links for the culprits, their reasons, and factors."""
    fixes: tuple[Fix, ...]
    confidence: float
    unknown: tuple[str, ...] = ()
    about: str = ""
    title: str = ""
    """Title of the problem if that of the cause does not fit; else ''."""


def charged(_: Facts, loss: Loss) -> Mapping[Who, float]:
    """Returns how much of the loss is charged to each culprit, ns."""
    return loss.culprits


@dataclass(frozen=True, slots=True)
class HostCause:
    """A root cause to which `diagnosis.attribution` attributes lost time."""

    cause: Cause
    describe: Callable[[Facts, Loss], Description | None]
    """Describes a loss through this cause; returns None if it turns out that this is not the cause."""
    certain: bool = False
    """Whether there is other evidence of the cause than the lost time, such as a limit that was reached, page
    faults or retransmits. Smaller losses are then reported, too."""
    culprits: Callable[[Facts, Loss], Mapping[Who, float]] = charged
    """Returns how much each culprit took in the window, in any unit. The loss is divided among the culprits
    in proportion to these amounts."""
