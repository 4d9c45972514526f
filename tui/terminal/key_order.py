"""Handles keys one after another: a key waits until the key before it has had its effect.

Textual sends each key to the widget that has the focus when the key arrives. If keys arrive faster than they
are handled, the first of them may open a dialogue while the others are already on their way to the widget
below it, and are lost there.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from textual import events
from textual.app import App
from textual.message import Message
from textual.screen import Screen

Typed = events.Key | events.Paste

LOOK_SECONDS = 0.1
"""Seconds between two checks whether the widget that has the key still exists."""
BLOCKED_SECONDS = 10.0
"""Seconds after which the next key no longer waits for a widget that exists but handles no messages."""


class KeyHandled(Message):
    """Sent right after a key. It takes the same way, from widget to widget up to the app, and arrives after
    the key."""

    def __init__(self, screen: Screen[Any]) -> None:
        super().__init__()
        self.passed = screen
        """The screen that has handled all messages that came before this one."""


class KeyOrder:
    """Keeps the keys of ``app`` that wait. ``forward`` handles a key as Textual does."""

    def __init__(self, app: App[Any], forward: Callable[[Typed], Awaitable[None]]) -> None:
        self._app = app
        self._forward = forward
        self._waiting: deque[Typed] = deque()
        self._before: KeyHandled | None = None
        """The message sent after the key that is being handled; None if no key is being handled."""
        self._key: Typed | None = None
        self._at: Any = None
        """The widget or screen to which the last message was sent."""
        self._since = 0.0
        """Time at which that message was sent (``time.monotonic``)."""
        self._looks = False
        """Whether a timer for ``_look`` runs."""

    def __len__(self) -> int:
        """Return how many keys wait."""
        return len(self._waiting)

    async def take(self, key: Typed) -> None:
        """Handle ``key`` now, or after the keys before it."""
        self._waiting.append(key)
        if self._before is None:
            await self._next()
        else:
            self._look_later()

    async def arrived(self, key: events.Event) -> None:
        """Note that no widget stopped ``key``: the app itself has handled it."""
        if key is self._key and self._app.screen_stack:
            await self._done(self._at.screen if self._at.is_attached else None)

    async def handled(self, message: KeyHandled) -> None:
        """Note that a widget has handled the key before ``message``, or that a screen has opened."""
        if message is self._before and self._app.screen_stack:
            await self._done(message.passed)

    async def _done(self, passed: Screen[Any] | None) -> None:
        """Handle the next key. If the key before it has changed the screen, first wait until the new screen
        exists and has the focus."""
        self._key = None
        if self._app.screen is not passed:
            self._follow(self._app.screen)
            return
        self._before = None
        await self._next()

    async def _next(self) -> None:
        if not self._waiting or not self._app.screen_stack:
            return
        self._key = key = self._waiting.popleft()
        # Determine ``target`` first: the app handles some keys at once, and they may change the screen.
        target = self._app.focused or self._app.screen
        await self._forward(key)
        self._follow(target)
        if self._waiting:
            self._look_later()

    def _follow(self, target: Any) -> None:
        """Send a ``KeyHandled`` after what was sent to ``target``."""
        self._at, self._since = target, time.monotonic()
        self._before = KeyHandled(target.screen if target.is_attached else self._app.screen)
        if not target.post_message(self._before):
            self._app.post_message(self._before)  # the widget is being removed

    def _look_later(self) -> None:
        if not self._looks:
            self._looks = True
            self._app.set_timer(LOOK_SECONDS, self._look)

    async def _look(self) -> None:
        """While keys wait, check whether the message after the last key was lost: its widget was removed,
        or has handled nothing for ``BLOCKED_SECONDS``. If so, handle the next key."""
        self._looks = False
        if not self._waiting or not self._app.screen_stack:
            return
        lost = not self._at.is_attached or time.monotonic() > self._since + BLOCKED_SECONDS
        if self._before is not None and lost:
            self._before = None
            await self._done(self._app.screen)
        if self._waiting:
            self._look_later()
