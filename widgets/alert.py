"""One line that is always there: the worst of what is wrong, or that nothing is."""

from __future__ import annotations

from rich.cells import cell_len
from textual.strip import Strip

from outputs.figures import fit, middle
from widgets.lines import Lines
from widgets.palette import Palette
from widgets.strips import printable, strip_of

LEAST_NAME = 16
"""Cells that a name keeps."""


class AlertLine(Lines):
    """Shows the first warning and how many more there are; for some seconds also what a key has done."""

    def __init__(self, widget_id: str | None = None, *, unicode: bool = True) -> None:
        super().__init__(widget_id, unicode=unicode)
        self._worst = ("", "dim")
        self._name = ""
        self._more = 0
        self._said = ("", "good")

    def show(self, worst: str, role: str, more: int, name: str = "") -> None:
        """Show the warning ``worst`` in the style of ``role``, and that there are ``more``.

        ``name`` is a part of it, such as a path, that is cut in its middle first where there is no room.
        """
        self._worst, self._more, self._name = (worst, role), more, name
        self.redraw()

    def say(self, text: str, role: str = "good") -> None:
        """Show ``text`` in place of the warning; empty: show the warning again."""
        self._said = (text, role)
        self.redraw()

    def lines(self, width: int, height: int, paint: Palette) -> list[Strip]:
        """The one line."""
        text, role = self._said if self._said[0] else self._worst
        more = f"  +{self._more} more, press a " if self._more and not self._said[0] else ""
        text = printable(text)
        room = width - len(more) - 1
        if self._name and not self._said[0] and cell_len(text) > room:
            name = printable(self._name)
            short = max(cell_len(name) - (cell_len(text) - room), LEAST_NAME)
            if short < cell_len(name):
                text = text.replace(name, middle(name, short, unicode=self.unicode), 1)
        text = fit(text, min(cell_len(text), room), unicode=self.unicode)
        return [strip_of([(" ", None), (text, getattr(paint, role)), (more, paint.dim)], width)]
