"""Tests the screen in headless Chromium: what it shows, what it requests, and its keys."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path

import pyte
import pytest

from stalltop.recordings.read.reading import load
from tests.browser.chromium import DEADLINE, PROGRAM, BrowserPage, browsing
from tests.tui.serving.browsers import serving

pytestmark = [
    pytest.mark.skipif(
        PROGRAM is None, reason="Chromium is not installed: ./run-tests browser installs it as root"
    ),
    pytest.mark.timeout(900),
]
PICTURES = os.environ.get("STALLTOP_PICTURES", "")
"""A folder for screenshots of the page, for manual review; '' makes none."""


async def shows(page: BrowserPage, text: str) -> str:
    """Wait until the terminal of the page shows ``text``, and return everything that it shows."""
    size = next(re.search(r"width=(\d+)&height=(\d+)", one) for one in page.requests if "/ws?" in one)
    assert size is not None
    end = time.monotonic() + DEADLINE
    while True:
        screen = pyte.Screen(int(size[1]), int(size[2]))
        pyte.ByteStream(screen).feed(page.received)
        shown = "\n".join(line.rstrip() for line in screen.display)
        if text in shown:
            return shown
        assert time.monotonic() < end, f"{text!r} is not in\n{shown}\n{page.complaints}"
        await asyncio.sleep(0.2)


async def picture(page: BrowserPage, name: str) -> None:
    if PICTURES:
        await page.picture(Path(PICTURES) / f"{name}.png")


async def test_a_browser_shows_the_screen_handles_keys_and_stores_files(tmp_path: Path) -> None:
    async with serving() as (_, address), browsing(tmp_path) as page:
        await page.go(address)
        await page.until("document.body.classList.contains('-first-byte')")
        await shows(page, "SIMULATED")
        await picture(page, "screen")
        own = address.partition("?")[0]
        assert await page.ask("location.href") == own
        # The page requests nothing from other hosts, and its Content Security Policy refuses nothing that it
        # needs.
        host = own.removeprefix("http:")
        assert all(one.partition(":")[2].startswith(host) for one in page.requests), page.requests
        assert not [one for one in page.complaints if "Content Security Policy" in one or "Refused" in one]
        assert await page.ask("document.fonts.check('15px \"Roboto Mono\"')")
        # Scripts of the page cannot read the cookie.
        assert await page.ask("document.cookie") == ""

        await page.press("?", "?")
        await shows(page, "Legend")
        await picture(page, "help")
        await page.press("Escape", code=27)
        await shows(page, "SIMULATED")  # a letter right after Esc would be read as Alt and the letter
        await page.press("w", "w")
        await shows(page, "the browser stores it")
        await page.press("Enter", "\r", code=13)
        end = time.monotonic() + DEADLINE
        while not (stored := list((tmp_path / "downloads").glob("*.stalltop"))):
            assert time.monotonic() < end, list(tmp_path.rglob("*"))
            await asyncio.sleep(0.2)
        assert load(stored[0]).simulated

        await page.press("q", "q")
        await page.until("document.body.classList.contains('-closed')")
        await picture(page, "ended")
        sockets = len([one for one in page.requests if "/ws?" in one])
        await page.press("Enter", "\r", code=13)
        await page.until("document.body.classList.contains('-first-byte')")
        assert len([one for one in page.requests if "/ws?" in one]) == sockets + 1


async def test_a_page_of_another_origin_cannot_open_the_websocket(tmp_path: Path) -> None:
    async with serving() as (_, address), browsing(tmp_path) as page:
        await page.go(address)
        await page.until("document.body.classList.contains('-first-byte')")
        # The browser has the cookie. A page of another origin asks for the WebSocket, and must not get it.
        own = address.partition("?")[0]
        (tmp_path / "evil.html").write_text("<title>evil</title>")
        await page.go(f"file://{tmp_path}/evil.html")
        await page.until("document.title == 'evil'")
        socket = own.replace("http:", "ws:") + "ws?width=80&height=24"
        told = await page.ask(
            f"new Promise(done => {{ const line = new WebSocket({socket!r}); "
            "line.onopen = () => done('open'); line.onerror = () => done('refused'); })"
        )
        assert told == "refused"


async def test_without_the_token_the_page_says_where_to_find_it(tmp_path: Path) -> None:
    async with serving() as (_, address), browsing(tmp_path) as page:
        await page.go(address.partition("?")[0])
        text = await page.until("document.body.innerText", lambda text: text and "not open" in text)
        assert "stalltop serve printed" in text
        await picture(page, "refused")
