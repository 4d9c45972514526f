"""The two lines above the header: the worst problem as a sentence with its fix, and how many more there
are."""

from __future__ import annotations

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
    """When the problem began, and its confidence; if there is no problem, a note such as the number of
    silenced problems, or which resource limits a tenant."""
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
        """Return the lines. The fix is on the first one if it fits there, else on the second one."""
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
        # The fix is on the first line only if the whole sentence fits before it. If the first line has no
        # room for the lost time, the second line begins with that.
        whole = cells(said) == cells(sentence.parts())
        fix = self._fix(room - cells(said) - 1, paint) if whole else []
        if fix:
            first += [(" ", None), *fix]
        below = []
        if not fix:
            lost = sentence.lost if all(part != "lost" for _, part in said) else ""
            below = [(f"{lost} ", loud)] if lost else []
            below += self._fix(room - sum(cell_len(text) for text, _ in below), paint, cut=True)
        return [line_of(first, width), *self._second(below, room, paint, width)][:height]

    def _fix(self, room: int, paint: Palette, *, cut: bool = False) -> list[Part]:
        """Return the fix for ``room`` cells; none if it does not fit. With ``cut``, it is cut if needed: the
        key copies the whole command."""
        state, sentence = self._state, self._state.sentence
        if sentence is None or not sentence.fix:
            return []
        arrow, fix = self.glyphs.remedy, printable(sentence.fix)
        key: list[Part] = [("  ", None), (state.copy_key, paint.head), (" copy", paint.dim)]
        if sentence.effect and cut:
            # There is room on the second line to say what the command does.
            shown = [
                (self.glyphs.plain(fix), paint.accent),
                *key,
                (f"   {printable(sentence.effect)}", paint.text),
            ]
            if cell_len(arrow) + sum(cell_len(text) for text, _ in shown) <= room:
                return [(arrow, paint.dim), *shown]
        if sentence.look:
            key = [("  ", None), (state.copy_key, paint.head), (" copies a command", paint.dim)]
            shown = [
                ("  ", None),
                (printable(sentence.look), paint.accent),
                ("  ", None),
                *key[1:2],
                (" copy", paint.dim),
            ]
            if cell_len(arrow) + cell_len(fix) + sum(cell_len(text) for text, _ in shown) <= room:
                return [(arrow, paint.dim), (self.glyphs.plain(fix), paint.text), *shown]
        elif not sentence.command:
            key = []
        rest = room - cell_len(arrow) - sum(cell_len(text) for text, _ in key)
        if cell_len(fix) <= rest:
            return [(arrow, paint.dim), (self.glyphs.plain(fix), paint.accent), *key]
        if not cut:
            return []
        if rest < _LEAST_REMEDY:
            return [(state.copy_key, paint.head), (" copies the fix", paint.dim)] if sentence.command else []
        return [(arrow, paint.dim), (fit(fix, rest, self.glyphs), paint.accent), *key]

    def _second(self, fix: list[Part], room: int, paint: Palette, width: int) -> list[Line]:
        """Return the second line: ``fix``, and as many of the other problems as there is room for."""
        state = self._state
        used = sum(cell_len(text) for text, _ in fix)
        parts: list[Part] = [(" " * _INDENT, None), *fix]
        keys: list[Part] = [(state.list_key, paint.head), (" all problems", paint.dim)]
        wide = sum(cell_len(text) for text, _ in keys)
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
            if state.sentence is not None and cell_len(about) > room:
                about = about.rpartition(", ")[2]  # the confidence
                return about if cell_len(about) <= room else ""
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
