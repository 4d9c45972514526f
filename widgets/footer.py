"""The last line of the screen. It shows the keys that are useful now, or a message for some seconds."""

from __future__ import annotations

from typing import Final

from rich.cells import cell_len
from rich.style import Style
from textual import events

from stalltop.model.text.figures import fit
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Line, Part, line_of, printable

_KEY: Final = Style(bold=True)


class KeyLine(Lines):
    """Shows as many keys and their labels as fit. A click on a key runs its action."""

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self._keys: tuple[tuple[str, str, str], ...] = ()
        self._places: list[tuple[int, int, str]] = []
        self._said = ("", "good")

    def show(self, keys: tuple[tuple[str, str, str], ...]) -> None:
        """Show ``keys``: (key as printed on it, label, Textual action), the most important first."""
        if keys != self._keys:
            self._keys = keys
            self.redraw()

    def say(self, text: str, role: str = "good") -> None:
        """Show ``text`` in place of the keys, in the style of ``role``; each of its lines takes a row.
        An empty ``text`` shows the keys again."""
        self._said = (text, role)
        self.styles.height = text.count("\n") + 1
        self.redraw()

    @property
    def said(self) -> str:
        """Return the message that is shown in place of the keys; empty if there is none."""
        return self._said[0]

    def lines(self, width: int, height: int, paint: Palette) -> list[Line]:
        """Return the keys in one line, or the lines of the message."""
        parts: list[Part] = []
        self._places = []
        said, role = self._said
        if said:
            room, look = max(width - 1, 0), paint.bar + getattr(paint, role)
            told = (fit(printable(line), room, self.glyphs) for line in said.split("\n"))
            return [line_of([(" " + text, look)], width, paint.bar) for text in told]
        at = 0
        for key, label, action in self._keys:
            wide = cell_len(key) + cell_len(label) + 3
            if at + wide > width:
                break
            parts += [(f" {key} ", paint.bar + paint.accent + _KEY), (f"{label} ", paint.bar + paint.dim)]
            self._places.append((at, at + wide, action))
            at += wide
        return [line_of(parts, width, paint.bar)]

    async def on_click(self, event: events.Click) -> None:
        """Run the action of the key under the mouse."""
        for first, end, action in self._places:
            if action and first <= event.x < end:
                await self.screen.run_action(action)
