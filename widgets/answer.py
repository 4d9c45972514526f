"""The two lines above the header: the worst problem as a sentence with its fix, and how many more there
are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.message import Message

from stalltop.model.text.figures import fit
from stalltop.model.text.sentence import Sentence, cells
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Line, Part, line_of, printable

_INDENT = 3
"""Cells before the text of both lines: the first line has the letter of the severity there."""
_LEAST_REMEDY = 24
"""A remedy may be cut to this many cells."""


@dataclass(frozen=True, slots=True)
class AnswerState:
    """What the two lines show."""

    mark: str = " "
    """The letter of the severity."""
    role: str = "dim"
    """Name of the palette's style for the severity."""
    sentence: Sentence | None = None
    """The worst problem; None if there is none."""
    text: str = ""
    """What is shown if there is no problem."""
    slowest: str = ""
    """What follows ``text``, after a comma. It is shown on the second line if the first line has no room for
    it."""
    about: str = ""
    """If there is no problem, a note such as the number of silenced problems, or which resource limits a
    tenant."""
    more: tuple[str, ...] = ()
    """The other problems, the worst first."""
    copy_key: str = ""
    list_key: str = ""
    """The keys that copy the fix, and go to the list of problems."""


class AnswerLines(Lines):
    """Shows an ``AnswerState``."""

    class Chosen(Message):
        """Reports that the lines were clicked."""

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self._state = AnswerState()

    def show(self, state: AnswerState) -> None:
        """Show ``state``."""
        if state != self._state:
            self._state = state
            self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Notify the main screen, which opens the problem."""
        event.stop()
        if self._state.sentence is not None:
            self.post_message(self.Chosen())

    def lines(self, width: int, height: int, paint: Palette) -> list[Line]:
        """Return the sentence, and below it its fix with what the fix does."""
        state = self._state
        role: Style = getattr(paint, state.role)
        first: list[Part] = [(" ", None), (state.mark, role), (" ", None)]
        room = width - _INDENT - 1
        sentence = state.sentence
        if sentence is None:
            text, slowest = printable(state.text), printable(state.slowest)
            below: list[Part] = []
            if slowest and cell_len(text) + cell_len(slowest) + 2 <= room:
                text = f"{text}, {slowest}"
            elif slowest:
                below = [(fit(slowest, min(cell_len(slowest), room), self.glyphs), role)]
            first.append((fit(text, min(cell_len(text), room), self.glyphs), role))
            return [line_of(first, width), *self._second(below, room, paint, width)][:height]
        said = [(printable(text), part) for text, part in sentence.fitted(room, self.glyphs)]
        loud = role if not role.bgcolor else paint.bad
        styles = {
            "victim": loud + Style(bold=True),
            "culprit": paint.text + Style(bold=True),
            "text": paint.text,
            "lost": loud,
        }
        first += [(text, styles[part]) for text, part in said]
        if height == 1:
            whole = cells(said) == cells(sentence.parts())
            fix = self._fix(room - cells(said) - 1, paint) if whole else []
            return [line_of([*first, (" ", None), *fix] if fix else first, width)]
        # If the first line has no room for the lost time, the second line begins with that.
        times = (sentence.lost, sentence.lost_short)
        told = any(part == "lost" for _, part in said)
        below = self._remedy(("",) if told else times, loud, room, paint)
        return [line_of(first, width), *self._second(below, room, paint, width)][:height]

    def _remedy(self, times: Sequence[str], loud: Style, room: int, paint: Palette) -> list[Part]:
        """Return the lost time, the longest of ``times`` that fits, and the fix with its effect, for ``room``
        cells. The effect is shortened first, then the lost time; the effect is never cut."""
        sentence = self._state.sentence
        assert sentence is not None
        before: list[Part] = []
        left = room
        for time in dict.fromkeys(times):
            before = [(time, loud), (" ", None)] if time else []
            left = room - _cells(before)
            for effect in filter(None, (sentence.effect, sentence.briefly)):
                fix = self._fix(left, paint, effect)
                if fix:
                    return [*before, *fix]
        return [*before, *(self._fix(left, paint) or self._cut(left, paint))]

    def _fix(self, room: int, paint: Palette, effect: str = "") -> list[Part]:
        """Return the fix, then ``effect``, for ``room`` cells; nothing if they do not fit."""
        state, sentence = self._state, self._state.sentence
        if sentence is None or not sentence.fix:
            return []
        key: list[Part] = [("  ", None), (state.copy_key, paint.head), (" copy", paint.dim)]
        fix = (self.glyphs.plain(printable(sentence.fix)), paint.accent if sentence.command else paint.text)
        shown: list[Part] = [(self.glyphs.remedy, paint.dim), fix]
        if sentence.look and _cells(shown) + cell_len(sentence.look) + _cells(key) + 2 <= room:
            return [*shown, ("  ", None), (printable(sentence.look), paint.accent), *key]
        if sentence.command:
            shown += [*key, *([(f"  {printable(effect)}", paint.text)] if effect else [])]
        elif sentence.look:
            shown += [*key[:2], (" copies a command", paint.dim)]
        return shown if _cells(shown) <= room else []

    def _cut(self, room: int, paint: Palette) -> list[Part]:
        """Return the fix cut to ``room`` cells: a command anywhere, because the key copies all of it; a text
        after a word."""
        state, sentence = self._state, self._state.sentence
        if sentence is None or not sentence.fix:
            return []
        copies = sentence.command or bool(sentence.look)
        key: list[Part] = [("  ", None), (state.copy_key, paint.head), (" copy", paint.dim)] if copies else []
        rest = room - cell_len(self.glyphs.remedy) - _cells(key)
        if rest < _LEAST_REMEDY:
            return [(state.copy_key, paint.head), (" copies the fix", paint.dim)] if sentence.command else []
        fix = printable(sentence.fix)
        if sentence.command:
            return [(self.glyphs.remedy, paint.dim), (fit(fix, rest, self.glyphs), paint.accent), *key]
        whole = fit(fix, rest - 1, self.glyphs).removesuffix(self.glyphs.dots).rpartition(" ")[0]
        return [(self.glyphs.remedy, paint.dim), (f"{whole} {self.glyphs.dots}", paint.text), *key]

    def _second(self, fix: list[Part], room: int, paint: Palette, width: int) -> list[Line]:
        """Return the second line: ``fix``, and as many of the other problems as there is room for."""
        state = self._state
        used = _cells(fix)
        parts: list[Part] = [(" " * _INDENT, None), *fix]
        keys: list[Part] = [(state.list_key, paint.head), (" all problems", paint.dim)]
        wide = _cells(keys)
        if not state.list_key:
            keys, wide = [], 0
        told = self._more(room - used - wide - 2 - (3 if fix else 0))
        if told:
            parts += [("   " if fix else "", None), (told, paint.dim)]
            used += cell_len(told) + (3 if fix else 0)
        if keys and used + wide + 2 <= room:
            parts += [("  " if used else "", None), *keys]
        return [line_of(parts, width)]

    def _more(self, room: int) -> str:
        """Return how many more problems there are, with the names of those that fit into ``room`` cells. If
        there are no more, return ``about`` instead, cut to ``room`` cells."""
        state = self._state
        if not state.more:
            about = printable(state.about)
            return fit(about, min(cell_len(about), room), self.glyphs) if room >= _LEAST_REMEDY else ""
        text = f"{len(state.more)} more"
        if cell_len(text) > room:
            return ""
        for number, one in enumerate(state.more):
            dots = "" if number == len(state.more) - 1 else f", {self.glyphs.dots}"
            longer = f"{text}{': ' if not number else ', '}{printable(one)}"
            if cell_len(longer + dots) > room:
                return f"{text}, {self.glyphs.dots}" if number else text
            text = longer
        return self.glyphs.plain(text)


def _cells(parts: list[Part]) -> int:
    """Return how many cells ``parts`` take."""
    return sum(cell_len(text) for text, _ in parts)
