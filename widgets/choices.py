"""The body of a small dialogue: a list of choices, and lines of text around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual import events
from textual.message import Message

from stalltop.model.text.figures import fit, printable
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Line, Part, line_of


@dataclass(frozen=True, slots=True)
class Choice:
    """One line of the list: a label and a description."""

    label: str
    about: str
    problem: str = ""
    """Why this choice is not available; shown in place of ``about``. Empty if it is available."""


class Choices(Lines, can_focus=True):
    """Shows a title and one line for each choice. The cursor is on one choice."""

    @dataclass
    class Clicked(Message):
        """Reports that a choice was clicked."""

        at: int

    def __init__(self, title: str, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self._title = title
        self._choices: tuple[Choice, ...] = ()
        self._at = 0

    def show(self, choices: Sequence[Choice], at: int) -> None:
        """Show ``choices`` with the cursor on number ``at``."""
        self._choices, self._at = tuple(choices), at
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Post ``Clicked`` for the choice under the mouse."""
        if 0 <= event.y - 1 < len(self._choices):
            self.post_message(self.Clicked(event.y - 1))

    def watch_has_focus(self, has_focus: bool) -> None:
        """Highlight the cursor while the list has the focus."""
        super().watch_has_focus(has_focus)
        self.redraw()

    def lines(self, width: int, height: int, paint: Palette) -> list[Line]:
        """Return the title and one line for each choice."""
        shown = [line_of([(fit(f" {self._title}", width, self.glyphs), paint.head)], width)]
        wide = max((cell_len(choice.label) for choice in self._choices), default=0)
        for at, choice in enumerate(self._choices):
            cursor = at == self._at
            over = paint.cursor if cursor and self.has_focus else None
            sign = self.glyphs.cursor if cursor else " "
            label = fit(choice.label, wide + 2, self.glyphs)
            parts: list[Part] = [(f" {sign} {at + 1} ", over or paint.dim), (label, over or paint.text)]
            text = printable(choice.problem or choice.about)
            room = max(width - wide - 8, 0)
            parts.append((fit(text, room, self.glyphs), over or paint.dim))
            shown.append(line_of(parts, width, over))
        return shown


class Note(Lines):
    """Shows lines of plain text, each in the style of its role."""

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self._said: tuple[tuple[str, str], ...] = ()

    def show(self, *said: tuple[str, str]) -> None:
        """Show ``said``: one (text, role) for each line."""
        self._said = said
        self.redraw()

    def lines(self, width: int, height: int, paint: Palette) -> list[Line]:
        """Return the lines."""
        return [
            line_of(
                [(" " + fit(printable(text), max(width - 1, 0), self.glyphs), getattr(paint, role))],
                width,
            )
            for text, role in self._said
        ]
