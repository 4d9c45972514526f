"""A few things to choose one of, and lines of text around them: the body of a small dialogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual import events
from textual.message import Message
from textual.strip import Strip

from stalltop.model.text.figures import fit, printable
from stalltop.widgets.lines import Lines
from stalltop.widgets.palette import Palette
from stalltop.widgets.strips import Part, strip_of


@dataclass(frozen=True, slots=True)
class Choice:
    """One line: its name, and what is to be known of it."""

    label: str
    about: str
    problem: str = ""
    """Why it cannot be had; said in place of ``about``."""


class Choices(Lines, can_focus=True):
    """Shows a title and one line for each choice; the cursor is on one of them."""

    @dataclass
    class Clicked(Message):
        """The mouse pointed at a choice."""

        at: int

    def __init__(self, title: str, widget_id: str | None = None, *, unicode: bool = True) -> None:
        super().__init__(widget_id, unicode=unicode)
        self._title = title
        self._choices: tuple[Choice, ...] = ()
        self._at = 0

    def show(self, choices: Sequence[Choice], at: int) -> None:
        """Show ``choices`` with the cursor on one."""
        self._choices, self._at = tuple(choices), at
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Tell which choice the mouse points at."""
        if 0 <= event.y - 1 < len(self._choices):
            self.post_message(self.Clicked(event.y - 1))

    def watch_has_focus(self, has_focus: bool) -> None:
        """Show where keys go."""
        super().watch_has_focus(has_focus)
        self.redraw()

    def lines(self, width: int, height: int, paint: Palette) -> list[Strip]:
        """The title and the choices."""
        shown = [strip_of([(fit(f" {self._title}", width, unicode=self.unicode), paint.head)], width)]
        wide = max((cell_len(choice.label) for choice in self._choices), default=0)
        for at, choice in enumerate(self._choices):
            cursor = at == self._at
            over = paint.cursor if cursor and self.has_focus else None
            arrow = ("▸" if self.unicode else ">") if cursor else " "
            label = fit(choice.label, wide + 2, unicode=self.unicode)
            parts: list[Part] = [(f" {arrow} {at + 1} ", over or paint.dim), (label, over or paint.text)]
            text = printable(choice.problem or choice.about)
            room = max(width - wide - 8, 0)
            parts.append((fit(text, room, unicode=self.unicode), over or paint.dim))
            shown.append(strip_of(parts, width, over))
        return shown


class Note(Lines):
    """Lines of plain text, each with the role of its style."""

    def __init__(self, widget_id: str | None = None, *, unicode: bool = True) -> None:
        super().__init__(widget_id, unicode=unicode)
        self._said: tuple[tuple[str, str], ...] = ()

    def show(self, *said: tuple[str, str]) -> None:
        """Show (text, role) line by line."""
        self._said = said
        self.redraw()

    def lines(self, width: int, height: int, paint: Palette) -> list[Strip]:
        """The lines."""
        return [
            strip_of(
                [(" " + fit(printable(text), max(width - 1, 0), unicode=self.unicode), getattr(paint, role))],
                width,
            )
            for text, role in self._said
        ]
