"""The two or three lines above the header: the worst problem as a sentence with its fix, and how many more
there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.message import Message

from stalltop.model.text.figures import fit
from stalltop.model.text.sentence import Sentence, SentencePart, SentenceRole, cells
from stalltop.model.text.words import numbered
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette, palette
from stalltop.widgets.drawing.strips import Line, Part, line_of, printable

LINES = 2
"""Number of lines that show a problem which they have room for."""
_INDENT = 3
"""Cells before the text of both lines: the first line has the letter of the severity there."""
_BREAK = 16
"""Cells that the break between two lines of a sentence may leave empty."""
_COPIES, _COPIES_SHORT = " copies the command", " copies it"
"""Say what the key does: the first where there is room."""
_LEAST_ABOUT = 24
"""The note of a host without a problem is shown if it has at least this many cells."""


@dataclass(frozen=True, slots=True)
class AnswerState:
    """The problem, its fix and the other problems that ``AnswerLines`` shows."""

    mark: str = " "
    """The letter of the severity."""
    severity: str = ""
    """The severity as a word. It replaces the letter if the whole sentence still fits."""
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
        if height > LINES and state.sentence is not None:
            return self._in_full(state.sentence, width, paint)
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
        longer = len(state.severity) - len(state.mark)
        fitting = sentence.fitted(room - longer, self.glyphs)
        fits = cells(fitting) <= room - longer
        if (
            state.severity
            and fits
            and cells(fitting) in {cells(sentence.parts(lost=one)) for one in sentence.times or ("",)}
        ):
            first[1] = (state.severity.upper(), role)
        else:
            fitting = sentence.fitted(room, self.glyphs)
        said = [(printable(text), part) for text, part in fitting]
        loud, styles = _styles(role, paint)
        first += [(text, styles[part]) for text, part in said]
        if height == 1:
            whole = cells(said) == cells(sentence.parts())
            fix = self._remedy(("",), loud, room - cells(said) - 1, paint) if whole else []
            return [line_of([*first, (" ", None), *fix] if fix else first, width)]
        # If the first line has no room for the lost time, the second line begins with that.
        told = any(part == "lost" for _, part in said)
        times = () if told else sentence.times
        below = self._remedy((*times, ""), loud, room, paint) or self._cut(room, paint)
        return [line_of(first, width), *self._second(below, room, paint, width)][:height]

    def wanted(self, width: int) -> int:
        """Return how many lines the problem needs in ``width`` cells: one more than ``LINES`` if these would
        leave out part of the sentence, or cut the command."""
        sentence, room = self._state.sentence, width - _INDENT - 1
        if sentence is None:
            return LINES
        said = sentence.fitted(room, self.glyphs)
        told = any(part == "lost" for _, part in said)
        whole = cells(said) in _whole(sentence, (*sentence.times, ""))
        if not (sentence.command or sentence.advice):
            return LINES if whole and (told or not sentence.lost) else LINES + 1
        times = () if told else sentence.times
        below = self._remedy(times or ("",), Style(), room, palette(self.app))
        return LINES if whole and below else LINES + 1

    def _in_full(self, sentence: Sentence, width: int, paint: Palette) -> list[Line]:
        """Return the whole sentence in two lines, and below it its fix."""
        state, room = self._state, width - _INDENT - 1
        role: Style = getattr(paint, state.role)
        loud, styles = _styles(role, paint)
        said = sentence.fitted(2 * room - _BREAK, self.glyphs)
        first, second = _in_two([(printable(text), part) for text, part in said], room)
        lines: list[list[Part]] = [[(" ", None), (state.mark, role), (" ", None)], [(" " * _INDENT, None)]]
        for line, parts in zip(lines, (first, second), strict=True):
            line += [(text, styles[part]) for text, part in parts]
        below = self._remedy(("",), loud, room, paint) or self._cut(room, paint)
        return [*(line_of(line, width) for line in lines), *self._second(below, room, paint, width)]

    def _remedy(self, times: Sequence[str], loud: Style, room: int, paint: Palette) -> list[Part]:
        """Return the lost time (one of ``times``) and what to do, for ``room`` cells; nothing if the command
        and its key do not fit.

        A command is never cut for something else: what it does is left out first, then the lost time, the
        number of other problems, the word beside the key, and what to do besides. What a command does stands
        in brackets behind it.
        """
        sentence = self._state.sentence
        assert sentence is not None
        more = self._state.more
        reserves = (cell_len(f"   {len(more)} more"), 0) if more else (0,)
        advice = tuple(self.glyphs.plain(printable(text)) for text in sentence.advice)
        orders: Iterable[tuple[str, str, int, str, str]]
        if not sentence.command:
            orders = product(("",), ("",), reserves, advice, times)
        else:
            effects = (*(printable(text) for text in sentence.effects), "")
            # A few words on what the command does say more than the lost time in words.
            both = sorted(product(times, effects), key=lambda pair: (not pair[0], not pair[1]))
            found = product((*advice[-1:], ""), (_COPIES_SHORT, ""), reserves, both)
            orders = ((before, word, reserve, text, time) for before, word, reserve, (time, text) in found)
        for before, word, reserve, text, time in orders:
            shown: list[Part] = [(time, loud), ("  ", None)] if time else []
            if sentence.command:
                label = (sentence.advice_label, paint.label)
                shown += [label, (before, paint.text), ("  ", None)] if before else []
                shown.append((sentence.label, paint.label))
                shown += [(self.glyphs.plain(printable(sentence.command)), paint.accent)]
                shown += [(f" ({text})", paint.text)] if text else []
                shown += self._key(word, paint)
            else:
                shown += [(sentence.advice_label, paint.label), (text, paint.text)]
            if _cells(shown) <= room - reserve:
                rest = room - reserve - _cells(shown)
                if word and self._state.copy_key and len(_COPIES) - len(word) <= rest:
                    shown[-1] = (_COPIES, paint.dim)
                return shown
        return []

    def _key(self, word: str, paint: Palette) -> list[Part]:
        """Return the key that copies the command, followed by ``word``."""
        if not self._state.copy_key:
            return []
        return [("  ", None), (self._state.copy_key, paint.accent), (word, paint.dim)]

    def _cut(self, room: int, paint: Palette) -> list[Part]:
        """Return a command that is longer than ``room`` cells, cut; the key copies all of it. Return nothing
        if there is no command: half a sentence does not help."""
        sentence = self._state.sentence
        if sentence is None or not sentence.command:
            return []
        key = self._key("", paint)
        rest = room - cell_len(sentence.label) - _cells(key)
        command = fit(printable(sentence.command), max(rest, 0), self.glyphs)
        return [(sentence.label, paint.label), (command, paint.accent), *key]

    def _second(self, fix: list[Part], room: int, paint: Palette, width: int) -> list[Line]:
        """Return the second line: ``fix``, and as many of the other problems as there is room for."""
        state = self._state
        used = _cells(fix)
        parts: list[Part] = [(" " * _INDENT, None), *fix]
        keys: list[Part] = [(state.list_key, paint.accent), (" all problems", paint.dim)]
        wide = _cells(keys)
        if not state.list_key:
            keys, wide = [], 0
        rest = room - used - (3 if fix else 0)
        told = self._more(rest - wide - 2) or (self._more(rest) if state.more else "")
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
            return fit(about, min(cell_len(about), room), self.glyphs) if room >= _LEAST_ABOUT else ""
        text = f"{len(state.more)} more"
        alone = numbered(len(state.more), "more problem")
        if cell_len(text) > room:
            return ""
        for number, one in enumerate(state.more):
            dots = "" if number == len(state.more) - 1 else f", {self.glyphs.dots}"
            longer = f"{text}{': ' if not number else ', '}{printable(one)}"
            if cell_len(longer + dots) > room:
                if number:
                    return f"{text}, {self.glyphs.dots}"
                return alone if cell_len(alone) <= room else text
            text = longer
        return self.glyphs.plain(text)


def _whole(sentence: Sentence, times: Sequence[str]) -> set[int]:
    """Return how many cells ``sentence`` takes with each of ``times`` as the lost time. Its details may be
    short or, if it says why the culprit does that, left out."""
    details = (None, sentence.detail_short or None, "" if sentence.because else None)
    return {cells(sentence.parts(lost=lost, detail=detail)) for lost in times for detail in details}


def _styles(role: Style, paint: Palette) -> tuple[Style, dict[SentenceRole, Style]]:
    """Return the style of what is loud in a problem of the severity that ``role`` shows, and the styles of
    the parts of its sentence."""
    loud = role if not role.bgcolor else paint.bad
    return loud, {
        "victim": loud + Style(bold=True),
        "culprit": paint.text + Style(bold=True),
        "text": paint.text,
        "lost": loud,
    }


def _in_two(parts: Sequence[SentencePart], room: int) -> tuple[list[SentencePart], list[SentencePart]]:
    """Divide a sentence into two lines at the last blank that leaves at most ``room`` cells to the first."""
    whole = "".join(text for text, _ in parts)
    blanks = [at for at, one in enumerate(whole) if one == " " and cell_len(whole[:at]) <= room]
    if cell_len(whole) <= room or not blanks:
        return list(parts), []
    return _slice(parts, 0, blanks[-1]), _slice(parts, blanks[-1] + 1, len(whole))


def _slice(parts: Sequence[SentencePart], start: int, end: int) -> list[SentencePart]:
    """Return the characters of a sentence from ``start`` up to ``end``."""
    found, at = [], 0
    for text, part in parts:
        piece = text[max(start - at, 0) : max(end - at, 0)]
        at += len(text)
        if piece:
            found.append((piece, part))
    return found


def _cells(parts: list[Part]) -> int:
    """Return how many cells ``parts`` take."""
    return sum(cell_len(text) for text, _ in parts)
