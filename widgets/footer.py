"""The last line: the keys that matter now."""

from __future__ import annotations

from rich.cells import cell_len
from textual import events
from textual.strip import Strip

from widgets.lines import Lines
from widgets.palette import Palette
from widgets.strips import Part, strip_of


class KeyLine(Lines):
    """Shows keys with what they do, as many as fit; a click does it."""

    def __init__(self, widget_id: str | None = None, *, unicode: bool = True) -> None:
        super().__init__(widget_id, unicode=unicode)
        self._keys: tuple[tuple[str, str, str], ...] = ()
        self._places: list[tuple[int, int, str]] = []

    def show(self, keys: tuple[tuple[str, str, str], ...]) -> None:
        """Show ``keys``: (key as printed on it, label, Textual action), the most important first."""
        self._keys = keys
        self.redraw()

    def lines(self, width: int, height: int, paint: Palette) -> list[Strip]:
        """The one line."""
        parts: list[Part] = []
        self._places = []
        at = 0
        for key, label, action in self._keys:
            wide = cell_len(key) + cell_len(label) + 3
            if at + wide > width:
                break
            parts += [(f" {key} ", paint.bar + paint.head), (f"{label} ", paint.bar + paint.dim)]
            self._places.append((at, at + wide, action))
            at += wide
        return [strip_of(parts, width, paint.bar)]

    async def on_click(self, event: events.Click) -> None:
        """Do what the key under the mouse does."""
        for first, end, action in self._places:
            if action and first <= event.x < end:
                await self.screen.run_action(action)
