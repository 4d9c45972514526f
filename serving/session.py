"""The session of one browser: connects a screen's process to the feed and to the browser's WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from aiohttp import WSMsgType, web

from stalltop.serving.feed import Feed
from stalltop.serving.packets import FilePacket, about, file_in, packed, packets

QUIT_SECONDS = 2.0
"""Seconds that a screen may take to end after it was asked to quit; then it is killed."""
STUCK_BYTES = 64 << 20
"""Maximum bytes of windows that wait for a screen to read them. If more wait, the screen counts as hung and
is ended."""
KEYS_BYTES = 1 << 20
"""Maximum bytes of browser input that wait for a screen to read them. If more wait, the screen counts as hung
and is ended."""
FAILED = (1, 2, 3)
"""Exit codes with which a screen reports a failure; it has printed the error on stderr."""
LEAST, MOST = (20, 5), (500, 200)
"""Bounds of the columns and rows that a browser may request."""
TOLD_BYTES = 2000
"""Number of last bytes of a screen's stderr that the browser shows if the screen fails."""
INHERITED = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "TZ", "PATH", "NO_COLOR", "PYTHONPATH")
"""Environment variables that a screen inherits from the server; it gets no others."""


class TerminalSize(NamedTuple):
    """Size of a terminal in cells."""

    columns: int
    rows: int

    @classmethod
    def of(cls, columns: object, rows: object) -> TerminalSize:
        """Converts a size from a browser and limits it; invalid values become 80 x 24."""
        return cls(_within(columns, LEAST[0], 80, MOST[0]), _within(rows, LEAST[1], 24, MOST[1]))


def _within(value: object, least: int, usual: int, most: int) -> int:
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return usual
    return min(max(int(number), least), most)


def environment(size: TerminalSize, inherited: Mapping[str, str]) -> dict[str, str]:
    """Builds the environment of a screen's process: settings of the terminal, and no secrets of the
    server."""
    return {
        **{name: inherited[name] for name in INHERITED if name in inherited},
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "TEXTUAL_COLOR_SYSTEM": "truecolor",
        "LANG": "C.UTF-8",
        "COLUMNS": str(size.columns),
        "ROWS": str(size.rows),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


class Session:
    """A screen's process and the browser that shows it.

    ``command`` starts a screen; the session adds the file descriptor of the socket for windows as its last
    argument. ``deliver`` keeps a file for this browser and returns the key for its download.
    """

    def __init__(
        self,
        browser: web.WebSocketResponse,
        command: Sequence[str],
        feed: Feed,
        deliver: Callable[[FilePacket], str],
    ) -> None:
        self._browser = browser
        self._command = command
        self._feed = feed
        self._deliver = deliver
        self._said = b""

    async def run(self, size: TerminalSize) -> str:
        """Shows the screen until the user leaves it or the browser is gone. Returns the reason if the screen
        failed, else ''."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    str(theirs.fileno()),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    pass_fds=(theirs.fileno(),),
                    env=environment(size, os.environ),
                    cwd="/",
                    start_new_session=True,  # Ctrl-C in the server's terminal must reach the server only
                )
            try:
                reason = await self._carry(process, ours)
            finally:
                await asyncio.shield(_end(process))
        finally:
            ours.close()
        if not reason and process.returncode in FAILED:
            reason = (
                _plain(self._said) or f"the screen ended with exit code {process.returncode}; reload the page"
            )
        return reason

    async def _carry(self, process: asyncio.subprocess.Process, link: socket.socket) -> str:
        """Passes windows and input to the screen, and the screen's output to the browser, until the screen or
        the browser ends. Returns the error if the screen failed, else ''."""
        errors = asyncio.create_task(self._errors(process))
        tasks = {
            asyncio.create_task(work)
            for work in (self._windows(link), self._output(process), self._input(process))
        }
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not self._browser.closed:  # the screen ended first: wait for its error on stderr
                await asyncio.wait({errors}, timeout=QUIT_SECONDS)
            for task in done:
                try:
                    task.result()
                except ConnectionError:
                    pass  # the browser or the screen is gone
                except ValueError as error:
                    return str(error)
            return ""
        finally:
            for task in (errors, *tasks):
                task.cancel()
            await asyncio.gather(errors, *tasks, return_exceptions=True)

    async def _windows(self, link: socket.socket) -> None:
        """Passes frames from the feed to the screen."""
        loop = asyncio.get_running_loop()
        link.setblocking(False)
        _, writer = await asyncio.open_connection(sock=link)
        stuck = asyncio.Event()

        def write(frame: bytes) -> None:
            if writer.transport.get_write_buffer_size() > STUCK_BYTES:
                stuck.set()
            elif not writer.transport.is_closing():
                writer.write(frame)

        def take(frame: bytes) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(write, frame)

        self._feed.listen(take)
        try:
            await stuck.wait()
        finally:
            self._feed.leave(take)
            writer.transport.abort()
        raise ValueError("the screen hangs: it reads no more windows; reload the page")

    async def _output(self, process: asyncio.subprocess.Process) -> None:
        """Passes output and files from the screen to the browser."""
        assert process.stdout is not None
        async for kind, content in packets(process.stdout):
            if kind == b"D":
                await self._browser.send_bytes(content)
            elif kind == b"F":
                await self._browser.send_str(
                    json.dumps(["deliver_file_start", self._deliver(file_in(content))])
                )
            elif kind == b"M" and json.loads(content).get("type") == "exit":
                return

    async def _input(self, process: asyncio.subprocess.Process) -> None:
        """Passes input, terminal sizes and focus changes from the browser to the screen, and answers the
        browser's pings; ignores all other messages."""
        assert process.stdin is not None
        async for message in self._browser:
            if message.type != WSMsgType.TEXT:
                continue
            packet = _packet(message.data)
            if packet is None:
                await _answer(self._browser, message.data)
            else:
                # No drain(): while it waits, this loop reads nothing from the browser, not even pongs, and
                # aiohttp would close the connection as dead.
                process.stdin.write(packet)
                if process.stdin.transport.get_write_buffer_size() > KEYS_BYTES:
                    raise ValueError("the screen hangs: it reads no more keys; reload the page")

    async def _errors(self, process: asyncio.subprocess.Process) -> None:
        """Reads the screen's stderr until its end, and keeps the last ``TOLD_BYTES`` of it in ``_said``."""
        assert process.stderr is not None
        while part := await process.stderr.read(4096):
            self._said = (self._said + part)[-TOLD_BYTES:]


def _packet(text: str) -> bytes | None:
    """Converts a message from the browser to a packet for the screen; None if the screen does not need it."""
    kind, value = _message(text)
    if kind == "stdin" and isinstance(value, str):
        return packed(b"D", value.encode("utf-8", "replace"))
    if kind == "resize" and isinstance(value, dict):
        size = TerminalSize.of(value.get("width"), value.get("height"))
        return about("resize", width=size.columns, height=size.rows)
    if kind in ("focus", "blur"):
        return about(kind)
    return None


def _plain(said: bytes) -> str:
    """Decodes a screen's stderr and replaces control characters by spaces."""
    text = said.decode("utf-8", "replace").strip()
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)


async def _answer(browser: web.WebSocketResponse, text: str) -> None:
    kind, value = _message(text)
    if kind == "ping" and isinstance(value, str):
        await browser.send_str(json.dumps(["pong", value[:32]]))


def _message(text: str) -> tuple[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return "", None
    if not isinstance(found, list) or not found or not isinstance(found[0], str):
        return "", None
    return found[0], found[1] if len(found) > 1 else None


async def _end(process: asyncio.subprocess.Process) -> None:
    """Asks the screen to quit; kills it after ``QUIT_SECONDS``."""
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError, RuntimeError):
        process.stdin.write(about("quit"))
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), QUIT_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def screen_command(flags: Sequence[str]) -> tuple[str, ...]:
    """Returns the command that starts a screen's process with these options."""
    return (sys.executable, "-P", "-m", "stalltop.cli.browser", *flags)
