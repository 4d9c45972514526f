"""Every action by its name: what can be done on the screen that is shown, to be found by typing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from textual.app import App
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider, SearchIcon
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Input

from tui.keys import BY_ID, printed


@dataclass(frozen=True, slots=True)
class Doable:
    """An action, and whoever does it."""

    name: str
    help: str
    keys: str
    """As printed on them."""
    action: str
    by: DOMNode

    @property
    def text(self) -> str:
        """What is searched, and shown: all that is known of it."""
        about = f"{self.name}: {self.help}" if self.help else self.name
        return f"{about} ({self.keys})" if self.keys else about


WITHOUT_KEYS = (("Reset layout", "Panels, sizes, columns and order as they were at first", "usual_layout"),)
"""What is found here only: names, help, and actions of the main screen."""


def doable(screen: Screen[Any]) -> list[Doable]:
    """What the keys of now do on ``screen``: first ours in the order of the help, then the screen's own."""
    found: dict[tuple[str, str], Doable] = {}
    for key, active in screen.active_bindings.items():
        binding = active.binding
        known = BY_ID.get(binding.id or "")
        inherited = isinstance(active.node, App) or binding.action.startswith(("app.", "screen."))
        if known is None and inherited:
            continue  # Textual's own
        before = found.get((binding.id or "", binding.action))
        if before is not None and known is not None:
            continue  # another key for the same
        keys = f"{before.keys} {printed(key)}" if before is not None else known.key if known else printed(key)
        name = known.label if known else binding.description or binding.action.partition("(")[0].capitalize()
        found[binding.id or "", binding.action] = Doable(
            name, known.help if known else "", keys, binding.action, active.node
        )
    order = {name: at for at, name in enumerate(BY_ID)}
    listed = [found[one] for one in sorted(found, key=lambda one: order.get(one[0], len(order)))]
    return listed + [
        Doable(name, help_, "", action, screen)
        for name, help_, action in WITHOUT_KEYS
        if hasattr(screen, f"action_{action}")
    ]


@runtime_checkable
class SaysMore(Protocol):
    """A screen that says what was done."""

    @property
    def said(self) -> int:
        """How often it has said something."""

    def say(self, text: str, role: str = "good", seconds: float | None = None) -> None:
        """Say something."""


class Actions(Provider):
    """Gives the palette what can be done."""

    def _run(self, one: Doable) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            main = getattr(self.app, "main", None)
            before = getattr(main, "said", None)
            await self.app.run_action(one.action, one.by)
            # What a key does is seen where it was pressed; here the list has lain over it.
            shown: object = self.app.screen
            if isinstance(main, SaysMore) and shown is main and main.said == before:
                main.say(f"done: {one.name}", "label")

        return run

    @property
    def _all(self) -> list[Doable]:
        palette = self.app.screen
        return palette.doable if isinstance(palette, Palette) else []

    async def discover(self) -> Hits:
        """All of them, where nothing is typed yet."""
        for one in self._all:
            yield DiscoveryHit(one.text, self._run(one))

    async def search(self, query: str) -> Hits:
        """Those that have every word of ``query``, whose names have them first."""
        words = query.casefold().split()
        for at, one in enumerate(self._all):
            if all(word in one.text.casefold() for word in words):
                named = all(word in one.name.casefold() for word in words)
                yield Hit((2.0 if named else 1.0) - at / 1000, one.text, self._run(one))


class Palette(CommandPalette):
    """Textual's palette, with what can be done on ``screen``, and nothing that blinks."""

    def __init__(self, screen: Screen[Any]) -> None:
        super().__init__([Actions], placeholder="Find an action by its name", id="--command-palette")
        self.doable = doable(screen)
        """What can be done, as it was when the palette was opened."""

    def on_mount(self) -> None:
        """The cursor stays still, and the sign before it is no picture."""
        self.query_one(Input).cursor_blink = False
        self.query_one(SearchIcon).icon = ">"
