"""A problem as one sentence: who is slow, who does what to it, how much time that costs, and what helps.

If the line is too short, the lost time is shortened, then left out, then the process of the culprit is left
out. The victim and the culprit always stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len

from stalltop.model.text.figures import middle
from stalltop.model.text.glyphs import UNICODE, Glyphs

SentenceRole = Literal["victim", "culprit", "text", "lost"]
"""Role of a part of the sentence, which determines the style of the part."""
SentencePart = tuple[str, SentenceRole]

FIX = "Fix: "
LOOK = "Look: "
TELL = "Tell its owner: "
"""What stands before something that helps, before a command that shows more of the problem, and before a
change of a program that only its owner can make."""

LEAST_NAME = 8
"""Minimum width of a shortened name, in cells."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One problem as a sentence."""

    does: str
    """What the culprit does or, without a culprit, what happens to the victim."""
    victim: str = ""
    """Who is slow; empty if ``does`` already names the victim, or if the culprit itself is the problem."""
    state: str = ""
    """What is wrong with the victim, such as ``is slow``; shown only if a culprit follows."""
    culprit: str = ""
    detail: str = ""
    """The process of the culprit, such as ``encode, pid 21741``."""
    lost: str = ""
    """The time lost per second, such as ``516 ms of each second``; empty if none was lost yet."""
    lost_short: str = ""
    """The same in short, such as ``516 ms/s`` or ``392 of 516 ms/s``."""
    lost_shortest: str = ""
    """The whole loss alone, such as ``516 ms/s``."""
    advice: tuple[str, ...] = ()
    """What to do, if no command does it: as a long and as a short text, or as one text."""
    for_owner: bool = False
    """Whether ``advice`` is a change of a program, which only its owner can make."""
    owner: str = ""
    """Who the owner is; empty if unknown."""
    command: str = ""
    """The command that helps or, if there is none, one that shows more of the problem; empty if there is
    none."""
    looks: bool = False
    """Whether ``command`` only shows more of the problem."""
    effects: tuple[str, ...] = ()
    """What ``command`` does: as a long and as a short text, or as one text."""
    detail_short: str = ""
    """``detail`` in fewer words; empty if there are none."""
    because: str = ""
    """Why the culprit does that; empty if unknown. It is left out where there is little room."""

    @property
    def label(self) -> str:
        """Return what stands before ``command``."""
        return LOOK if self.looks else FIX

    @property
    def advice_label(self) -> str:
        """Return what stands before ``advice``."""
        if not self.for_owner:
            return FIX
        return f"{TELL.removesuffix(': ')}, {self.owner}: " if self.owner else TELL

    @property
    def times(self) -> tuple[str, ...]:
        """Return the lost time in its forms, the longest first."""
        return tuple(dict.fromkeys(filter(None, (self.lost, self.lost_short, self.lost_shortest))))

    def parts(
        self, *, detail: str | None = None, lost: str | None = None, because: str | None = None
    ) -> list[SentencePart]:
        """Return the sentence without its fix, in parts. ``detail`` is what stands behind the culprit,
        ``lost`` the lost time, and ``because`` the reason; None: in full."""
        detail = self.detail if detail is None else detail
        because = self.because if because is None else because
        parts: list[SentencePart] = []
        if self.victim:
            parts.append((self.victim, "victim"))
            parts.append((f" {self.state}: " if self.culprit else " ", "text"))
        if self.culprit:
            parts.append((self.culprit, "culprit"))
            parts.append((f" ({detail}) " if detail else " ", "text"))
        parts.append((f"{self.does}, {because}" if because else self.does, "text"))
        lost = self.lost if lost is None else lost
        if lost:
            parts += [(": ", "text"), (lost, "lost")]
        return parts

    def fitted(self, width: int, glyphs: Glyphs = UNICODE) -> list[SentencePart]:
        """Return the sentence without its fix, shortened to fit into ``width`` cells."""
        details = dict.fromkeys((self.detail, self.detail_short or self.detail))
        forms = [(detail, time, "") for time in (*self.times, "") for detail in details]
        if self.because:
            # Why it does that says more than which process it is.
            told = [(detail, time, self.because) for detail in (*details, "") for time in self.times or ("",)]
            forms = [*told, *forms]
        for detail, lost, because in (*forms, ("", "", "")):
            parts = self.parts(detail=detail, lost=lost, because=because)
            if cells(parts) <= width:
                return parts
        return _shortened(self.parts(detail="", lost="", because=""), width, glyphs)


def cells(parts: list[SentencePart]) -> int:
    """Return how many cells ``parts`` take."""
    return sum(cell_len(text) for text, _ in parts)


def _shortened(parts: list[SentencePart], width: int, glyphs: Glyphs) -> list[SentencePart]:
    """Return ``parts`` with characters cut out of the middles of names, the longest name first, until the
    parts fit into ``width`` cells or no name can be shortened further."""
    while cells(parts) > width:
        names = [at for at, (text, role) in enumerate(parts) if role in ("victim", "culprit")]
        at = max(names, key=lambda at: cell_len(parts[at][0]), default=-1)
        if at < 0 or cell_len(parts[at][0]) <= LEAST_NAME:
            break
        name, role = parts[at]
        room = max(cell_len(name) - max((cells(parts) - width + 1) // 2, 1), LEAST_NAME)
        parts[at] = (middle(name, room, glyphs), role)
    return parts
