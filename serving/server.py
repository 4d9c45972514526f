"""The server that browsers talk to: who is let in, the page, and a screen for each.

The terminal in the page, and what it says through its WebSocket, are textual-serve's. Its server is not
used: it knows no token, no TLS, no Host or Origin, starts shells, and its page loads a font from elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import importlib.resources
import secrets
import socket
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from aiohttp import web

from stalltop.serving.access import Access, is_same_origin
from stalltop.serving.feed import Feed
from stalltop.serving.packets import FilePacket
from stalltop.serving.session import Session, TerminalSize

HEARTBEAT_SECONDS = 15.0
"""A browser that does not answer within about so long is gone."""
MESSAGE_BYTES = 256 << 10
"""Largest message that is taken from a browser: a pasted text, at the most."""
WAITING_BYTES = 16 << 10
"""Output that may wait here, and as much in the kernel, before the screen feels it and leaves pictures out:
on a slow line, what a key does would be seen after all of it."""
TCP_NOTSENT_LOWAT = 25
"""tcp(7); socket has its name since Python 3.12."""
FILES_KEPT = 8
"""Files that wait to be fetched; a ninth takes the place of the oldest."""
LEAVE_SECONDS = 4.0
PAGE = Path(__file__).parent / "page"
STATIC: Final[dict[str, tuple[Path | str, str]]] = {
    "/page.css": (PAGE / "page.css", "text/css"),
    "/page.js": (PAGE / "page.js", "text/javascript"),
    "/xterm.css": ("css/xterm.css", "text/css"),
    "/textual.js": ("js/textual.js", "text/javascript"),
    "/mono.ttf": ("fonts/RobotoMono-VariableFont_wght.ttf", "font/ttf"),
}
"""All files that are served: ours, and by relative names those of textual-serve."""
HEADERS: Final = {
    # Nothing comes from elsewhere, no page holds this one. The terminal sets styles of its own.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "font-src 'self'; img-src 'self' data:; connect-src 'self'{socket}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "clipboard-read=(), camera=(), microphone=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Of every answer. ``{socket}`` is this server's WebSocket: not every browser counts it as 'self'."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where and for whom."""

    address: str = "127.0.0.1"
    """IP address to listen on."""
    port: int = 0
    """0: any that is free."""
    tls: ssl.SSLContext | None = None
    sessions: int = 4
    """Browsers at a time: each has a process of its own."""


class BrowserServer:
    """Serves the windows of ``feed``; ``command`` starts a screen (serving.session)."""

    def __init__(self, feed: Feed, access: Access, command: Sequence[str], options: ServeOptions) -> None:
        self._feed = feed
        self._access = access
        self._command = command
        self._options = options
        self._open: set[web.WebSocketResponse] = set()
        self._files: OrderedDict[str, FilePacket] = OrderedDict()
        self._runner: web.AppRunner | None = None
        self._cookie = "stalltop"

    async def start(self) -> int:
        """Listen, and return the port. Raises OSError where that is not possible."""
        app = web.Application(middlewares=[self._guard])
        app.on_response_prepare.append(self._add_headers)
        app.router.add_get("/", self._index)
        app.router.add_get("/ws", self._screen)
        app.router.add_get("/download/{key}", self._download)
        for path in STATIC:
            app.router.add_get(path, self._static)
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=LEAVE_SECONDS
        )
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, self._options.address, self._options.port, ssl_context=self._options.tls
        )
        await site.start()
        port = int(self._runner.addresses[0][1])
        # Cookies know no ports: two servers on one host must not take each other's.
        self._cookie = f"stalltop-{port}"
        return port

    async def stop(self) -> None:
        """End every screen, then stop listening."""
        closing = [browser.close(code=1001, message=b"the server has ended") for browser in list(self._open)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await asyncio.gather(*closing, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()

    # ---- who is let in

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer only those who ask for this server, by its token or the cookie for it."""
        if not self._access.is_host(request.headers.get("Host")):
            return _refused(421, "This server has another name", "Start it with --allow-host for this one.")
        if self._access.is_cookie(request.cookies.get(self._cookie, "")):
            return await handler(request)
        if request.path == "/" and self._access.is_token(request.query.get("token", "")):
            return self._welcome()
        return _refused(
            403, "This page is not open to everybody", "Open the address that stalltop serve printed."
        )

    def _welcome(self) -> web.Response:
        """Give the cookie for the token, and have the browser come again without it in its address."""
        answer = web.Response(status=303, headers={"Location": "/"})
        answer.set_cookie(
            self._cookie,
            self._access.cookie,
            httponly=True,
            samesite="Strict",
            secure=self._options.tls is not None,
            path="/",
        )
        return answer

    async def _add_headers(self, request: web.Request, answer: web.StreamResponse) -> None:
        host = request.headers.get("Host", "")
        scheme = "wss" if self._options.tls is not None else "ws"
        # Only a Host that was found right is said again.
        own = f" {scheme}://{host}" if self._access.is_host(host) else ""
        for name, value in HEADERS.items():
            answer.headers[name] = value.replace("{socket}", own)
        answer.headers.popall("Server", None)

    # ---- what there is

    async def _index(self, request: web.Request) -> web.StreamResponse:
        if request.query_string:  # a token that is no longer needed; the page's script would take others
            return web.Response(status=303, headers={"Location": "/"})
        return web.Response(text=(PAGE / "index.html").read_text(), content_type="text/html")

    async def _static(self, request: web.Request) -> web.StreamResponse:
        name, kind = STATIC[request.path]
        if isinstance(name, Path):
            content = name.read_bytes()
        else:
            content = importlib.resources.files("textual_serve").joinpath("static", name).read_bytes()
        return web.Response(body=content, content_type=kind)

    async def _screen(self, request: web.Request) -> web.StreamResponse:
        """A screen of its own for a browser, as long as that is there."""
        if not is_same_origin(request.headers.get("Origin"), request.headers.get("Host")):
            return _refused(
                403, "Another page asked for this", "Open the address that stalltop serve printed."
            )
        browser = web.WebSocketResponse(
            heartbeat=HEARTBEAT_SECONDS, max_msg_size=MESSAGE_BYTES, writer_limit=WAITING_BYTES
        )
        connection = request.transport.get_extra_info("socket") if request.transport is not None else None
        if connection is not None:
            connection.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, WAITING_BYTES)
        await browser.prepare(request)
        if len(self._open) >= self._options.sessions:
            most = self._options.sessions
            return await _tell(browser, f"{most} browsers look already, which is the most (--sessions).")
        self._open.add(browser)
        keys: list[str] = []
        try:
            size = TerminalSize.of(request.query.get("width"), request.query.get("height"))
            session = Session(browser, self._command, self._feed, lambda file: self._keep(file, keys))
            reason = await session.run(size)
        except OSError as error:
            reason = f"no screen can be started: {error}"
        finally:
            self._open.discard(browser)
            for key in keys:
                self._files.pop(key, None)
        return await _tell(browser, reason) if reason else await _close(browser)

    def _keep(self, file: FilePacket, keys: list[str]) -> str:
        """Keep a file until it is fetched; its key is known to the browser that wants it."""
        key = secrets.token_urlsafe(16)
        keys.append(key)
        self._files[key] = file
        while len(self._files) > FILES_KEPT:
            self._files.popitem(last=False)
        return key

    async def _download(self, request: web.Request) -> web.StreamResponse:
        file = self._files.pop(request.match_info["key"], None)
        if file is None:
            return _refused(404, "This file is not there any more", "Save it again.")
        return web.Response(
            body=file.content,
            content_type="application/octet-stream",
            headers={"Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}"},
        )


async def _close(browser: web.WebSocketResponse) -> web.WebSocketResponse:
    with contextlib.suppress(ConnectionError):
        await browser.close()
    return browser


async def _tell(browser: web.WebSocketResponse, reason: str) -> web.WebSocketResponse:
    """Say in the page's terminal why there is no screen, or no longer one."""
    text = "\r\n ".join(f"stalltop: {reason}".splitlines())
    with contextlib.suppress(ConnectionError):
        # Off the alternate screen, everything away, then the text.
        await browser.send_bytes(f"\x1b[?1049l\x1b[?1003l\x1b[?1000l\x1b[0m\x1b[2J\x1b[H\r\n {text}".encode())
    return await _close(browser)


def _refused(status: int, what: str, remedy: str) -> web.Response:
    page = (PAGE / "refused.html").read_text()
    text = page.replace("{what}", html.escape(what)).replace("{remedy}", html.escape(remedy))
    return web.Response(status=status, text=text, content_type="text/html")
