"""Tests ``stalltop serve`` with real screens and with a client that takes the place of a browser."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from stalltop.recordings.read.reading import load
from tests.tui.serve_command import command
from tests.tui.serving.browsers import DEADLINE, until_gone

pytestmark = pytest.mark.timeout(400)


async def test_two_browsers_share_a_source_and_have_screens_of_their_own() -> None:
    async with command("--theme", "light") as here, here.terminal() as one, here.terminal() as other:
        await one.sees("SIMULATED")
        await other.sees("SIMULATED")
        assert len(here.screens()) == 2
        await one.types("?")
        await one.sees("Legend")
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
