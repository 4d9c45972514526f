"""Turns bytes from a keyboard into Textual's events. No bytes make it fail, and none make it deaf.

Textual's own input threads decode strictly, end with the first sequence that their parser cannot take, and
wait for ever for the end of a paste.
"""

from __future__ import annotations

import asyncio
import codecs
import concurrent.futures
import os
import select
import time
from collections.abc import Iterator
from threading import Event
from typing import Any

from textual import events
from textual.app import App
from textual.message import Message
from textual.messages import InBandWindowResize

from stalltop.model.errors import StalltopError, described
from stalltop.tui.collector import Failed
from stalltop.tui.terminal.textual_internals import BRACKETED_PASTE_END, Parser

READ_BYTES = 1024
"""Most that is read at once: an event takes a thousand times the memory of its byte until it is handled."""
POLL_SECONDS = 0.1
"""As often as this an Esc that nothing follows is told from the start of a sequence."""
PASTE_SECONDS = 2.0
"""A paste whose end does not come counts as ended after so long a silence; slow lines pause for less."""
UNHANDLED_BYTES = 256
"""After so many bytes the app is waited for. Text that is pasted where pastes are not marked comes faster
than keys are handled; it waits in the terminal then, not here."""
UNHANDLED_EVENTS = 32
"""Events that may wait in a widget."""
UNHANDLED_SECONDS = 1.0
"""Longest that keys wait for a widget that handles none."""


def lost(error: Exception) -> Failed:
    """What the app is told where keys can no longer be read: nobody could leave the screen."""
    return Failed(
        StalltopError(f"cannot read keys any more: {described(error)}", "start stalltop again in a terminal")
    )


class Keyboard:
    """Decodes and parses what one keyboard sends to ``app``, in a thread of its own."""

    def __init__(self, app: App[Any], loop: asyncio.AbstractEventLoop, ended: Event) -> None:
        self._handles = app
        self._runs = loop
        self._ended = ended
        self._unhandled = 0
        """Bytes since the app was last waited for."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parser = Parser()
        self._since: float | None = None
        """When the last bytes came; None: a paste cannot be open."""

    def read(self, descriptor: int) -> Iterator[bytes]:
        """Yield what is typed until the app ends; empty bytes where nothing came for ``POLL_SECONDS``.

        Raises EOFError where there will be no more, OSError where the terminal is gone.
        """
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while not self._ended.is_set():
            if not poll.poll(POLL_SECONDS * 1000):
                yield b""
                continue
            data = os.read(descriptor, READ_BYTES)
            if not data:
                raise EOFError("the input has ended")
            yield data
            self._unhandled += len(data)
            if self._unhandled > UNHANDLED_BYTES:
                self._wait()

    def _wait(self) -> None:
        """Wait for the app to handle what it was sent."""
        self._unhandled = 0
        handled = asyncio.run_coroutine_threadsafe(_handled(self._handles), self._runs)
        until = time.monotonic() + UNHANDLED_SECONDS
        while not handled.done() and not self._ended.is_set() and time.monotonic() < until:
            concurrent.futures.wait((handled,), POLL_SECONDS)
        handled.cancel()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the events in ``data``; with empty bytes those that are due as nothing followed."""
        if text := self._decoder.decode(data):
            self._since = time.monotonic()
            yield from self._events(text)
        elif self._since is not None and time.monotonic() > self._since + PASTE_SECONDS:
            self._since = None
            yield from self._events(BRACKETED_PASTE_END)  # without a paste this means nothing
        yield from self._parser.tick()

    def _events(self, text: str) -> Iterator[Message]:
        for message in self._parser.feed(text):
            # The kernel tells the size of a terminal. One that is typed may be of any size, and what is
            # measured with it, such as a mouse in pixels, may be divided by zero.
            if isinstance(message, events.Resize):
                self._parser.mouse_pixels = False
            elif not isinstance(message, InBandWindowResize):
                yield message


async def _handled(app: App[Any]) -> None:
    """Return when few events wait in the widgets of the screen."""
    while any(
        pump.message_queue_size > UNHANDLED_EVENTS
        for pump in (app, *app.screen.walk_children(with_self=True))
    ):
        await asyncio.sleep(0.01)
