"""The screen in a real browser: what it shows, what it asks for, what keys do. Chromium, headless."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path

import pyte
import pytest

from stalltop.recordings.read.reading import load
from tests.browser.chromium import DEADLINE, PROGRAM, Page, browsing
from tests.tui.browsers import serving

pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium here: ./run-tests browser installs it as root"),
    pytest.mark.timeout(900),
]
PICTURES = os.environ.get("STALLTOP_PICTURES", "")
"""A folder that gets pictures of the page, to be looked at."""


async def shows(page: Page, text: str) -> str:
    """Wait until what the page's terminal got shows ``text``, and return all of it."""
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


async def picture(page: Page, name: str) -> None:
    if PICTURES:
        await page.picture(Path(PICTURES) / f"{name}.png")


async def test_the_screen_in_a_browser(tmp_path: Path) -> None:
    async with serving() as (_, address), browsing(tmp_path) as page:
        await page.go(address)
        await page.until("document.body.classList.contains('-first-byte')")
        await shows(page, "SIMULATED")
        await picture(page, "screen")
        own = address.partition("?")[0]
        assert await page.ask("location.href") == own
        # Nothing is asked for elsewhere, and nothing of ours is refused by our own policy.
        host = own.removeprefix("http:")
        assert all(one.partition(":")[2].startswith(host) for one in page.requests), page.requests
        assert not [one for one in page.complaints if "Content Security Policy" in one or "Refused" in one]
        assert await page.ask("document.fonts.check('15px \"Roboto Mono\"')")
        # Cookie and token are out of the page's reach.
        assert await page.ask("document.cookie") == ""

        await page.press("?", "?")
        await shows(page, "By container")
        await picture(page, "help")
        await page.press("Escape", code=27)
        await shows(page, "SIMULATED")  # Esc and a letter at once are a letter with Alt
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


async def test_another_page_gets_nothing(tmp_path: Path) -> None:
    async with serving() as (_, address), browsing(tmp_path) as page:
        await page.go(address)
        await page.until("document.body.classList.contains('-first-byte')")
        # A page of another origin, in the browser that has the cookie, asks for the WebSocket.
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


async def test_without_the_token_the_page_says_so(tmp_path: Path) -> None:
    async with serving() as (_, address), browsing(tmp_path) as page:
        await page.go(address.partition("?")[0])
        text = await page.until("document.body.innerText", lambda text: text and "not open" in text)
        assert "stalltop serve printed" in text
        await picture(page, "refused")
