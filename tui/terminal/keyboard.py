"""Turns the bytes of a keyboard into Textual's events. No input stops it or blocks it for ever.

Textual's own input threads decode strictly, end at the first sequence that their parser rejects, and wait
without limit for the end of a paste.
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
from stalltop.tui.reading.collector import Failed
from stalltop.tui.terminal.textual_internals import BRACKETED_PASTE_END, Parser

READ_BYTES = 1024
"""The most bytes read at once. Until a key is handled, its event takes a thousand times the memory of its
byte."""
POLL_SECONDS = 0.1
"""Seconds without input after which the parser is asked for keys that it holds back. An Esc that nothing
follows counts as the key after Textual's ``ESCAPE_DELAY`` (0.1 s), before that as the start of a sequence."""
PASTE_SECONDS = 2.0
"""Seconds without input after which a paste counts as ended. Slow connections pause for less."""
UNHANDLED_BYTES = 256
"""After this many bytes the thread waits for the app. Text that is pasted without paste markers arrives
faster than keys are handled; it then waits in the terminal, not in memory."""
UNHANDLED_EVENTS = 32
"""The thread waits while more events than this wait in any widget."""
UNHANDLED_SECONDS = 1.0
"""The longest time in seconds to wait for a widget that handles no events."""


def lost(error: Exception) -> Failed:
    """Return the message that ends the app because keys cannot be read any more: without keys the user could
    not leave the screen."""
    return Failed(
        StalltopError(f"cannot read keys: {described(error)}", "start stalltop again in a terminal")
    )


class Keyboard:
    """Decodes and parses the input of one keyboard for ``app``, in a thread of its own."""

    def __init__(self, app: App[Any], loop: asyncio.AbstractEventLoop, ended: Event) -> None:
        self._handles = app
        self._runs = loop
        self._ended = ended
        self._unhandled = 0
        """Bytes since the thread last waited for the app."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parser = Parser()
        self._since: float | None = None
        """Time at which the last bytes arrived; None if none have arrived yet, or none for ``PASTE_SECONDS``:
        then an open paste has been ended."""

    def read(self, descriptor: int) -> Iterator[bytes]:
        """Yield the input until the app ends, and empty bytes if none arrived for ``POLL_SECONDS``.

        Raises EOFError at the end of the input, and OSError if the terminal is gone.
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
        """Wait until the app has handled its events."""
        self._unhandled = 0
        handled = asyncio.run_coroutine_threadsafe(_handled(self._handles), self._runs)
        until = time.monotonic() + UNHANDLED_SECONDS
        while not handled.done() and not self._ended.is_set() and time.monotonic() < until:
            concurrent.futures.wait((handled,), POLL_SECONDS)
        handled.cancel()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the events in ``data``. If ``data`` is empty, no bytes arrived for a while: then yield events
        for bytes that were held back because they could have been the start of a sequence."""
        if text := self._decoder.decode(data):
            self._since = time.monotonic()
            yield from self._events(text)
        elif self._since is not None and time.monotonic() > self._since + PASTE_SECONDS:
            self._since = None
            yield from self._events(BRACKETED_PASTE_END)  # ends an open paste, if there is one
        yield from self._parser.tick()

    def _events(self, text: str) -> Iterator[Message]:
        for message in self._parser.feed(text):
            # A size of the terminal in the input is ignored: the kernel reports the real size. A size in the
            # input may have any value, and code that divides by it, such as for mouse positions in pixels,
            # could divide by zero.
            if isinstance(message, events.Resize):
                self._parser.mouse_pixels = False
            elif not isinstance(message, InBandWindowResize):
                yield message


async def _handled(app: App[Any]) -> None:
    """Wait until at most ``UNHANDLED_EVENTS`` events wait in each widget of the screen."""
    while any(
        pump.message_queue_size > UNHANDLED_EVENTS
        for pump in (app, *app.screen.walk_children(with_self=True))
    ):
        await asyncio.sleep(0.01)
