"""Drives headless Chromium by its DevTools protocol over a WebSocket of aiohttp."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

DEADLINE = 120.0
"""Longest time to wait for the browser, s: the test machine may be slow and have no graphics processor."""
PROGRAM = os.environ.get("STALLTOP_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
"""The browser's program; None if none is installed."""


class BrowserPage:
    """A page of a running browser."""

    def __init__(self, line: aiohttp.ClientWebSocketResponse) -> None:
        self._line = line
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.requests: list[str] = []
        """Addresses that the page requested."""
        self.complaints: list[str] = []
        """Exceptions of the page's scripts, and messages in the browser's log."""
        self.received = b""
        """Binary data that the page received over WebSockets: the output of stalltop to the terminal in the
        page."""
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._line:
            found = message.json()
            if "id" in found:
                self._answers.pop(found["id"]).set_result(found)
                continue
            details = found.get("params", {})
            if found["method"] == "Network.requestWillBeSent":
                self.requests.append(details["request"]["url"])
            elif found["method"] == "Network.webSocketCreated":
                self.requests.append(details["url"])
            elif found["method"] == "Network.webSocketFrameReceived":
                if details["response"]["opcode"] == 2:
                    self.received += base64.b64decode(details["response"]["payloadData"])
            elif found["method"] == "Runtime.exceptionThrown":
                self.complaints.append(str(details["exceptionDetails"]))
            elif found["method"] == "Log.entryAdded":
                self.complaints.append(str(details["entry"].get("text")))

    async def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Run one command of the protocol and return its result."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._line.send_json({"id": number, "method": method, "params": parameters})
        found = await asyncio.wait_for(answer, DEADLINE)
        assert "error" not in found, found
        result: dict[str, Any] = found["result"]
        return result

    async def ask(self, script: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        found = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def until(self, script: str, right: Callable[[Any], object] = bool) -> Any:
        """Wait until ``right`` accepts the value of ``script``; return it. ``script`` may fail until then."""
        end = time.monotonic() + DEADLINE
        while True:
            found = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
            value = found["result"].get("value")
            if "exceptionDetails" not in found and right(value):
                return value
            assert time.monotonic() < end, (script, found, self.complaints)
            await asyncio.sleep(0.1)

    async def go(self, address: str) -> None:
        """Open ``address``."""
        await self.call("Page.navigate", url=address)

    async def press(self, key: str, text: str = "", code: int = 0) -> None:
        """Press a key, given by the browser's name; ``text`` is the text that it types."""
        more = {"text": text} if text else {}
        number = {"windowsVirtualKeyCode": code} if code else {}
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **more, **number)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **number)

    async def picture(self, path: Path) -> None:
        """Write a screenshot of the page, as PNG."""
        found = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        """Stop reading messages of the browser."""
        self._reader.cancel()


@asynccontextmanager
async def browsing(folder: Path, width: int = 1280, height: int = 800) -> AsyncIterator[BrowserPage]:
    """Run a browser and yield its page; its files are in ``folder``, downloads in ``folder/downloads``."""
    assert PROGRAM is not None
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--ignore-certificate-errors",
        "--remote-debugging-port=0",
        f"--user-data-dir={folder / 'profile'}",
        f"--window-size={width},{height}",
        "about:blank",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "HOME": str(folder)},
    )
    try:
        port = await _port(folder / "profile" / "DevToolsActivePort")
        async with aiohttp.ClientSession() as client:
            async with client.get(f"http://127.0.0.1:{port}/json/list") as answer:
                target = next(one for one in await answer.json() if one["type"] == "page")
            async with client.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as line:
                page = BrowserPage(line)
                for part in ("Page", "Network", "Runtime", "Log"):
                    await page.call(f"{part}.enable")
                await page.call(
                    "Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder / "downloads")
                )
                try:
                    yield page
                finally:
                    page.close()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _port(path: Path) -> int:
    """Wait for the file with the browser's DevTools port, and return the port."""
    end = time.monotonic() + DEADLINE
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < end, "the browser did not start"
        await asyncio.sleep(0.1)
    return int(path.read_text().split()[0])
