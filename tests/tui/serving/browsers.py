"""Starts servers for browsers, and clients that take the place of a browser."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import psutil

from stalltop.model.source import Source
from stalltop.serving.access import Access, known_hosts
from stalltop.serving.feed import Feed
from stalltop.serving.server import BrowserServer, ServeOptions
from tests.tui.sources import MadeSource, numbered

DEADLINE = 90.0
STANDIN = Path(__file__).resolve().parent / "standin_screen.py"


@dataclass
class Browser:
    """A client with a WebSocket like that of the page in a browser, and everything received through the
    WebSocket."""

    line: aiohttp.ClientWebSocketResponse
    binary: bytes = b""
    texts: list[list[object]] = field(default_factory=list)

    async def say(self, *message: object) -> None:
        await self.line.send_str(json.dumps(message))

    async def sees(self, text: str) -> str:
        """Wait until ``text`` is received, and return all text received so far."""
        end = time.monotonic() + DEADLINE
        while text not in self.text:
            assert time.monotonic() < end, (text, self.text)
            assert await self.receive(), (text, self.text)
        return self.text

    async def ends(self) -> str:
        """Wait until the server closes the connection, and return all text received."""
        while await self.receive():
            pass
        return self.text

    async def receive(self) -> bool:
        """Receive one message; return False once the connection is closed."""
        message = await self.line.receive(timeout=DEADLINE)
        if message.type == aiohttp.WSMsgType.BINARY:
            self.binary += message.data
        elif message.type == aiohttp.WSMsgType.TEXT:
            self.texts.append(json.loads(message.data))
        else:
            return False
        return True

    @property
    def text(self) -> str:
        return self.binary.decode("utf-8", "replace")

    async def pid(self) -> int:
        """Return the PID of the process that stands in for the screen."""
        text = await self.sees("\n")
        return int(text.split()[1])


@dataclass
class Served:
    """A running server and a client that has no cookie yet."""

    server: BrowserServer
    access: Access
    client: aiohttp.ClientSession
    address: str
    failures: list[BaseException]

    async def enter(self) -> None:
        """Log in with the token; the client keeps the cookie."""
        async with self.client.get(f"{self.address}/?token={self.access.token}") as answer:
            assert answer.status == 200

    @asynccontextmanager
    async def browser(self, query: str = "?width=100&height=30") -> AsyncIterator[Browser]:
        async with self.client.ws_connect(
            f"{self.address}/ws{query}", headers={"Origin": self.address}, max_msg_size=0
        ) as line:
            yield Browser(line)


@asynccontextmanager
async def served(
    kind: str = "echo",
    *,
    sessions: int = 4,
    tls: ssl.SSLContext | None = None,
    hosts: Sequence[str] = (),
    source: Source | None = None,
    address: str = "127.0.0.1",
) -> AsyncIterator[Served]:
    """Run a server whose screens are stand-ins of ``kind`` (see ``standin_screen.py``)."""
    failures: list[BaseException] = []
    feed = Feed(source or MadeSource(numbered), 0.05, failures.append)
    access = Access(known_hosts(hosts))
    command = (sys.executable, "-P", str(STANDIN), kind)
    server = BrowserServer(feed, access, command, ServeOptions(address, 0, tls, sessions))
    port = await server.start()
    feed.start()
    try:
        # aiohttp's cookie jar ignores cookies of IP addresses unless ``unsafe`` is set; browsers keep them.
        jar = aiohttp.CookieJar(unsafe=True)
        connector = aiohttp.TCPConnector(ssl=False)
        async with aiohttp.ClientSession(cookie_jar=jar, connector=connector) as client:
            scheme = "http" if tls is None else "https"
            yield Served(server, access, client, f"{scheme}://127.0.0.1:{port}", failures)
    finally:
        await server.stop()
        await asyncio.to_thread(feed.stop, 10.0)


@asynccontextmanager
async def serving(*arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run ``stalltop serve`` on simulated tenants; yield its process and the address that it prints."""
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-P",
            "-m",
            "stalltop",
            "serve",
            "--demo",
            "--simulated",
            "--port",
            "0",
            "--no-config",
        ),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        found = None
        while found is None:
            line = await asyncio.wait_for(process.stderr.readline(), DEADLINE)
            assert line, "the server ended"
            found = re.search(r"open (https?://\S+)", line.decode())
        yield process, found[1]
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def until_gone(pid: int) -> None:
    """Wait for a process to end; a zombie counts as ended."""
    end = time.monotonic() + DEADLINE
    while psutil.pid_exists(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return
        assert time.monotonic() < end, f"process {pid} is still there"
        await asyncio.sleep(0.02)
