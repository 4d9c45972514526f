"""Tests ``stalltop serve`` with real screens and with a client that takes the place of a browser."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psutil
import pyte
import pytest

from stalltop.recordings.read.reading import load
from tests.tui.serving.browsers import DEADLINE, Browser, serving, until_gone

pytestmark = pytest.mark.timeout(400)


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


async def test_two_browsers_share_a_source_and_have_screens_of_their_own() -> None:
    async with command("--theme", "light") as here, here.terminal() as one, here.terminal() as other:
        await one.sees("SIMULATED")
        await other.sees("SIMULATED")
        assert len(here.screens()) == 2
        await one.types("?")
        await one.sees("Group rows by container")
        await other.types(" ")
        await other.sees("FROZEN")
        assert not any("FROZEN" in line for line in one.screen.display)
        first = here.screens()
        await other.types("q")
        await other.browser.ends()
        await one.browser.line.close()
        for pid in first:
            await until_gone(pid)
        here.process.terminate()
        assert await asyncio.wait_for(here.process.wait(), DEADLINE) == 130


async def test_saving_makes_a_file_for_the_browser_and_none_on_the_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    async with command() as here, here.terminal() as terminal:
        await terminal.sees("SIMULATED")
        await terminal.types("w")
        await terminal.sees("the browser stores it")
        await terminal.types("\r")
        async with asyncio.timeout(DEADLINE):
            while not terminal.browser.texts:
                assert await terminal.browser.receive()
        kind, key = terminal.browser.texts[0]
        assert kind == "deliver_file_start"
        async with here.client.get(f"{here.address}/download/{key}") as answer:
            assert ".stalltop" in answer.headers["Content-Disposition"]
            path = tmp_path / "w.stalltop"
            path.write_bytes(await answer.read())
            assert load(path).simulated
    assert list(state.rglob("*")) == []


async def test_a_screen_in_a_browser_cannot_be_suspended() -> None:
    async with command() as here, here.terminal() as terminal:
        await terminal.sees("SIMULATED")
        pid = here.screens()[0]
        await terminal.types("\x1a")
        await terminal.sees("no shell")
        state = Path(f"/proc/{pid}/status").read_text()
        assert "State:\tT" not in state
        assert "NoNewPrivs:\t1" in state


async def test_screens_end_with_a_server_that_is_killed() -> None:
    async with command() as here, here.terminal() as terminal:
        await terminal.sees("SIMULATED")
        pid = here.screens()[0]
        os.kill(here.process.pid, signal.SIGKILL)
        await until_gone(pid)
