"""Runs ``stalltop serve`` with real screens, and a client that emulates the terminal of its page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import psutil
import pyte

from tests.tui.serving.browsers import DEADLINE, Browser, serving


@dataclass
class PageTerminal:
    """Emulates the terminal in the page that a browser shows."""

    browser: Browser
    screen: pyte.Screen

    async def sees(self, text: str) -> None:
        """Wait until ``text`` is on the emulated terminal."""
        stream = pyte.ByteStream(self.screen)
        async with asyncio.timeout(DEADLINE):
            there = True
            while text not in (shown := "\n".join(line.rstrip() for line in self.screen.display)):
                assert there, f"{text!r} is not in\n{shown.strip()}"
                there = await self.browser.receive()
                stream.feed(self.browser.binary)
                self.browser.binary = b""

    async def types(self, keys: str) -> None:
        await self.browser.say("stdin", keys)


@dataclass
class ServeCommand:
    """A running ``stalltop serve``, and a client that has logged in."""

    process: asyncio.subprocess.Process
    address: str
    client: aiohttp.ClientSession

    @asynccontextmanager
    async def terminal(self) -> AsyncIterator[PageTerminal]:
        async with self.client.ws_connect(
            f"{self.address}/ws?width=110&height=36", headers={"Origin": self.address}, max_msg_size=0
        ) as line:
            yield PageTerminal(Browser(line), pyte.Screen(110, 36))

    def screens(self) -> list[int]:
        """Return the PIDs of the command's screens, which are its child processes."""
        return [child.pid for child in psutil.Process(self.process.pid).children()]


@asynccontextmanager
async def command(*arguments: str) -> AsyncIterator[ServeCommand]:
    async with serving(*arguments) as (process, url):
        address = url.partition("/?")[0]
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as client:
            async with client.get(url) as answer:
                assert answer.status == 200
            yield ServeCommand(process, address, client)
