"""The words that describe each cause in a sentence, such as ``train is slow: encode takes its CPU``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Telling:
    """The words for one cause, in the sentence that describes a problem.

    If a culprit is known, the sentence is ``VICTIM state: CULPRIT does``, or only ``CULPRIT does`` if the
    victim itself is the culprit; otherwise it is ``VICTIM without``. ``{device}`` stands for the device of
    the problem, ``{operation}`` for its operation.
    """

    does: str
    """What the culprit does, such as ``takes its CPU`` (the CPU of the victim)."""
    without: str
    """What the victim does, such as ``waits for a CPU``; used if no culprit is known."""
    state: str = "is slow"
    """What is wrong with the victim; used if a culprit is known."""
    at_fault: str = ""
    """What is at fault instead of a tenant, such as ``cooling``, if the culprit is a device; '' if a tenant
    may be."""
    device: str = "the GPU"
    """Replaces ``{device}`` if the problem names no device."""
    parts: tuple[str, ...] = ()
    """The parts of a row's split in which the time is lost (names of ``model.window.SPLITS``); () if it is
    the whole time of the row."""


Tellings = Mapping[str, Telling]
"""The words for each cause, by its id."""
NO_TELLINGS: Final[Tellings] = MappingProxyType({})
