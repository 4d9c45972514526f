"""The palette: a list of all actions of the current screen, in which the user searches by name."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from textual import on
from textual.app import App
from textual.command import (
    Command,
    CommandList,
    CommandPalette,
    DiscoveryHit,
    Hit,
    Hits,
    Provider,
    SearchIcon,
)
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Input

from stalltop.tui.keys.actions import BY_ID, printed
from stalltop.tui.keys.words import words
from stalltop.tui.main.view import MainView
from stalltop.tui.past.times import length_text
from stalltop.tui.screens.bases import TopScreen
from stalltop.tui.settings.palettes import THEME_NAMES
from stalltop.tui.settings.settings import LENGTHS

LONGEST = 60
"""The most characters of a search. Textual starts a search at each character and does not wait for earlier
ones: a text pasted by mistake would block keys for minutes."""


@dataclass(frozen=True, slots=True)
class Doable:
    """An action of the palette."""

    name: str
    help: str
    keys: str
    """The names of the keys, such as ``Space``, separated by blanks."""
    action: str
    by: DOMNode
    words: str = ""
    """Words that are searched but not shown."""

    @property
    def text(self) -> str:
        """Return the text that is searched and shown."""
        about = f"{self.name}: {self.help}" if self.help else self.name
        return f"{about} ({self.keys})" if self.keys else about


def _minutes(length: float | None) -> str:
    return (
        f"Use a window of {length / 60:g} min" if length and length >= 60 else "Use a window of this length"
    )


WITHOUT_KEYS = (
    *((f"Theme {name}", "Use this theme", f"do('program.choose_theme', {name!r})") for name in THEME_NAMES),
    *((f"Window {length_text(one)}", _minutes(one), f"do('time.choose_window', {one})") for one in LENGTHS),
)
"""Actions without a key: names, help, and methods of the main screen."""


def doable(screen: Screen[Any]) -> list[Doable]:
    """Return the actions that are possible on ``screen``: those of ``tui.keys.actions`` in the order of the
    help, then other actions of ``screen``; on the main screen also those of ``WITHOUT_KEYS``."""
    found: dict[tuple[str, str], Doable] = {}
    for key, active in screen.active_bindings.items():
        binding = active.binding
        known = BY_ID.get(binding.id or "")
        inherited = isinstance(active.node, App) or binding.action.startswith(("app.", "screen."))
        if known is None and inherited:
            continue  # an action of Textual itself
        before = found.get((binding.id or "", binding.action))
        if before is not None and known is not None:
            continue  # another key for the same action
        keys = f"{before.keys} {printed(key)}" if before is not None else known.key if known else printed(key)
        name = known.label if known else binding.description or binding.action.partition("(")[0].capitalize()
        found[binding.id or "", binding.action] = Doable(
            name, known.help if known else "", keys, binding.action, active.node, words(binding.id or "")
        )
    order = {name: at for at, name in enumerate(BY_ID)}
    listed = [found[one] for one in sorted(found, key=lambda one: order.get(one[0], len(order)))]
    return listed + [
        Doable(name, help_, "", action, screen)
        for name, help_, action in WITHOUT_KEYS
        if screen is screen.app.screen_stack[0]
    ]


def found(among: list[Doable], typed: str) -> list[Doable]:
    """Return those of ``among`` whose text or words contain every word of ``typed``. First come actions whose
    name contains all of them, then those that have each as a whole word, such as ``kill``."""
    wanted = typed.casefold().split()
    matching = [one for one in among if all(word in f"{one.text} {one.words}".casefold() for word in wanted)]

    def rank(one: Doable) -> tuple[bool, bool]:
        whole = {*one.words.split(), *re.findall(r"\w+", one.text.casefold())}
        return not all(word in one.name.casefold() for word in wanted), not whole.issuperset(wanted)

    return sorted(matching, key=rank)


def _runs(app: App[Any], one: Doable) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        main: object = app.screen_stack[0]
        said = main.speech.count if isinstance(main, MainView) else 0
        await app.run_action(one.action, one.by)
        # The palette covers what the action changed. So a message confirms that the action ran, unless the
        # action showed a message itself.
        if isinstance(main, MainView) and app.screen is app.screen_stack[0] and main.speech.count == said:
            main.speech.say(f"done: {one.name}", "label")

    return run


class Actions(Provider):
    """Gives the palette the possible actions."""

    @property
    def _all(self) -> list[Doable]:
        palette = self.app.screen
        return palette.doable if isinstance(palette, ActionPalette) else []

    async def discover(self) -> Hits:
        """Yield all actions while nothing is typed."""
        for one in self._all:
            yield DiscoveryHit(one.text, _runs(self.app, one))

    async def search(self, query: str) -> Hits:
        """Yield the actions that ``found`` finds for ``query``, in its order."""
        for at, one in enumerate(found(self._all, query)):
            yield Hit(1.0 - at / 1000, one.text, _runs(self.app, one))


class ActionPalette(CommandPalette, TopScreen[None]):
    """Textual's palette with the actions of ``screen``, and without blinking."""

    def __init__(self, screen: Screen[Any]) -> None:
        super().__init__(
            [Actions], placeholder="Find an action: pause, gpu, export, why", id="--command-palette"
        )
        self.doable = doable(screen)
        """The actions that were possible when the palette was opened."""

    def on_mount(self) -> None:
        """Stop the cursor's blinking, limit the line to ``LONGEST`` characters, and put ``>`` in place of the
        emoji before it."""
        for line in self.query(Input):  # no input exists if the palette is closed already
            line.cursor_blink, line.max_length = False, LONGEST
        for sign in self.query(SearchIcon):
            sign.icon = ">"

    @on(Input.Submitted)
    def _typed(self, event: Input.Submitted) -> None:
        """On Enter run the best match of the typed text. The list may be behind: it may still show matches of
        a shorter text."""
        listed = self.query_one(CommandList).options
        matching = found(self.doable, event.value)
        texts = {str(option.hit.text) for option in listed if isinstance(option, Command)}
        if not event.value.strip() or texts == {one.text for one in matching}:
            return  # Textual runs the highlighted action
        event.stop()
        event.prevent_default()
        if matching:
            self.dismiss()
            self.app.call_later(_runs(self.app, matching[0]))
