"""HTTP server for browsers: authenticates them, serves the page, and starts a screen for each browser.

The terminal in the page and its WebSocket protocol are those of textual-serve. The server of textual-serve is
not used: it has no token and no TLS, does not check Host or Origin, starts shells, and its page loads a font
from another site.
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
"""Interval of WebSocket pings to a browser. A browser that does not answer a ping counts as gone."""
MESSAGE_BYTES = 256 << 10
"""Maximum size of a message from a browser, such as a pasted text."""
WAITING_BYTES = 16 << 10
"""Maximum bytes of output for a slow browser that wait in the server; the same amount may wait in the Linux
kernel. If more wait, the server stops reading the screen's pipe, so that the screen skips updates. The limit
is low because the user sees the effect of a key only after all waiting output."""
TCP_NOTSENT_LOWAT = 25
"""Socket option of tcp(7); Python's socket module has the constant since 3.12."""
FILES_KEPT = 8
"""Maximum number of files that wait to be downloaded; a further file replaces the oldest one."""
LEAVE_SECONDS = 4.0
"""Maximum time for which `BrowserServer.stop` waits until browsers have closed their connections."""
PAGE = Path(__file__).parent / "page"
STATIC: Final[dict[str, tuple[Path | str, str]]] = {
    "/page.css": (PAGE / "page.css", "text/css"),
    "/page.js": (PAGE / "page.js", "text/javascript"),
    "/xterm.css": ("css/xterm.css", "text/css"),
    "/textual.js": ("js/textual.js", "text/javascript"),
    "/mono.ttf": ("fonts/RobotoMono-VariableFont_wght.ttf", "font/ttf"),
}
"""All static files of the server, by URL path: the file and its MIME type. A `Path` is a file of this
package, a string the name of a file in textual-serve's folder ``static``."""
HEADERS: Final = {
    # Nothing is loaded from other sites, and no page may frame this one. The terminal needs inline styles.
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
"""Headers of every response. ``{socket}`` is replaced by the address of this server's WebSocket, which some
browsers do not count as 'self'."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where the server listens, and for how many browsers."""

    address: str = "127.0.0.1"
    """IP address to listen on."""
    port: int = 0
    """TCP port to listen on; 0: any free port."""
    tls: ssl.SSLContext | None = None
    sessions: int = 4
    """Maximum number of browsers at a time; each browser has a screen's process of its own."""


class BrowserServer:
    """Serves the windows of ``feed`` to browsers. ``command`` is the command that starts a screen's process
    (see ``serving.session.Session``)."""

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
        """Starts to listen and returns the port. Raises OSError if the server cannot listen there."""
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
        # Browsers share cookies between all ports of a host, so servers on one host need different names of
        # cookies.
        self._cookie = f"stalltop-{port}"
        return port

    async def stop(self) -> None:
        """Ends all screens, then stops listening."""
        closing = [browser.close(code=1001, message=b"the server has ended") for browser in list(self._open)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                await asyncio.gather(*closing, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()

    # ---- access

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuses requests whose Host header names another host, and requests without the token or the
        cookie."""
        if not self._access.is_host(request.headers.get("Host")):
            return _refused(
                421,
                "This server does not accept this host name",
                "Restart stalltop serve with --allow-host NAME, or open the address that it printed.",
            )
        if self._access.is_cookie(request.cookies.get(self._cookie, "")):
            return await handler(request)
        if request.path == "/" and self._access.is_token(request.query.get("token", "")):
            return self._welcome()
        return _refused(
            403,
            "This page needs a token",
            "Open the address that stalltop serve printed: it contains the token.",
        )

    def _welcome(self) -> web.Response:
        """Sets the cookie and redirects to the page without the token in the address."""
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
        # Only an accepted Host header may appear in the response.
        own = f" {scheme}://{host}" if self._access.is_host(host) else ""
        for name, value in HEADERS.items():
            answer.headers[name] = value.replace("{socket}", own)
        answer.headers.popall("Server", None)

    # ---- pages

    async def _index(self, request: web.Request) -> web.StreamResponse:
        if (
            request.query_string
        ):  # the token is no longer needed, and textual.js would interpret other parameters
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
        """Runs a screen for a browser until the screen or the browser ends."""
        if not is_same_origin(request.headers.get("Origin"), request.headers.get("Host")):
            return _refused(
                403, "This request came from another site", "Open the address that stalltop serve printed."
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
            return await _tell(
                browser,
                f"all {most} sessions are in use: close another browser, or restart stalltop serve with "
                "a larger "
                "--sessions",
            )
        self._open.add(browser)
        keys: list[str] = []
        try:
            size = TerminalSize.of(request.query.get("width"), request.query.get("height"))
            session = Session(browser, self._command, self._feed, lambda file: self._keep(file, keys))
            reason = await session.run(size)
        except OSError as error:
            reason = f"cannot start a screen: {error}"
        finally:
            self._open.discard(browser)
            for key in keys:
                self._files.pop(key, None)
        return await _tell(browser, reason) if reason else await _close(browser)

    def _keep(self, file: FilePacket, keys: list[str]) -> str:
        """Keeps a file until it is downloaded; returns its key, which only the browser that saved it gets."""
        key = secrets.token_urlsafe(16)
        keys.append(key)
        self._files[key] = file
        while len(self._files) > FILES_KEPT:
            self._files.popitem(last=False)
        return key

    async def _download(self, request: web.Request) -> web.StreamResponse:
        file = self._files.pop(request.match_info["key"], None)
        if file is None:
            return _refused(404, "This file is no longer available", "Save it again.")
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
    """Shows in the page's terminal why there is no screen, and closes the connection."""
    text = "\r\n ".join(f"stalltop: {reason}".splitlines())
    with contextlib.suppress(ConnectionError):
        # Leave the alternate screen, turn mouse reports off, reset colours, clear, then print the text.
        await browser.send_bytes(f"\x1b[?1049l\x1b[?1003l\x1b[?1000l\x1b[0m\x1b[2J\x1b[H\r\n {text}".encode())
    return await _close(browser)


def _refused(status: int, what: str, remedy: str) -> web.Response:
    page = (PAGE / "refused.html").read_text()
    text = page.replace("{what}", html.escape(what)).replace("{remedy}", html.escape(remedy))
    return web.Response(status=status, text=text, content_type="text/html")
