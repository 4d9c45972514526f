"""What a sentence says of each cause that a diagnosis can name: who does what, to whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Telling:
    """The words with which a sentence tells a problem of one cause.

    With a culprit the sentence is ``VICTIM is slow: CULPRIT does``, otherwise ``VICTIM without``.
    ``{device}`` stands for the device of the problem, ``{operation}`` for its operation.
    """

    does: str
    """What the culprit does, such as ``takes its CPU``; "its" means the victim's."""
    without: str
    """What the victim does, where no culprit is known, such as ``waits for a CPU``."""
    state: str = "is slow"
    """What is wrong with the victim, if a culprit is named after it."""
    device: str = "the GPU"
    """Stands for ``{device}`` if the problem names none."""
    parts: tuple[str, ...] = ()
    """The parts of a row's split in which the time is lost (names of ``model.window.SPLITS``); () if it is
    the whole time of the row."""


Tellings = Mapping[str, Telling]
"""The words for each cause, by its id."""
NO_TELLINGS: Final[Tellings] = MappingProxyType({})
