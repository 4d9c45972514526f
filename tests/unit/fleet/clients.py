"""Helps tests that talk with a NATS server, or run commands that do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from nats.aio.client import Client

import stalltop
from stalltop.cli import main as cli
from stalltop.fleet.agent import AgentOptions, FleetAgent
from stalltop.fleet.connection import FleetLoop, ServerAccess, close, connected
from stalltop.fleet.remote_host import request
from stalltop.fleet.watch import FleetWatch
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, window

T = TypeVar("T")


def until(look: Callable[[], object], seconds: float = 60.0) -> None:
    """Waits until ``look`` returns something true."""
    end = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < end
        time.sleep(0.01)


def run(access: ServerAccess, work: Callable[[Client], Awaitable[T]]) -> T:
    """Runs ``work`` with a connection."""

    async def whole() -> T:
        client = await connected(access, "test")
        try:
            return await work(client)
        finally:
            await close(client)

    loop = FleetLoop("test")
    try:
        return loop.wait(whole(), 60.0)
    finally:
        loop.stop()


@contextmanager
def agent(
    access: ServerAccess, address: HostAddress, said: list[str] | None = None, **more: Any
) -> Iterator[FleetAgent]:
    """Runs an agent."""
    options = AgentOptions(access, address, "0.1.0", "root 4711", **more)
    made = FleetAgent(options, print if said is None else said.append)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def watching(access: ServerAccess, cluster: str, **more: Any) -> Iterator[FleetWatch]:
    """Follows a cluster."""
    watch = FleetWatch(access, cluster=cluster, **more)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


def second(number: int, host: str = "n1", start: float | None = None) -> Window:
    """Returns the window of a second: three calls of a tenant, whose durations tell the second."""
    begin = 1_800_000_000.0 if start is None else start
    durations = [1_000 + number, 50_000 + number, 7_000_000 + number]
    return window([Calls(key(tenant="cri:bb", host=host), durations)], start=begin + number, host=host)


def ask(watch: FleetWatch, address: HostAddress, asked: dict[str, Any], seconds: float = 30.0) -> bytes:
    """Asks a host (``fleet.answers``), and returns the content of its answer. Raises FleetError."""
    return bytes(watch.loop.wait(request(watch.client, address, asked, seconds)).data)


def start(access: ServerAccess, *arguments: str) -> subprocess.Popen[str]:
    """Starts a command of stalltop."""
    command = [sys.executable, "-P", "-m", "stalltop", *arguments, "--nats", access.urls[0]]
    environment = {**os.environ, "PYTHONPATH": str(Path(stalltop.__file__).parents[1])}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)


def ended(process: subprocess.Popen[str]) -> str:
    """Ends a command as Ctrl-C does, and returns what it said."""
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 0, said
    return said


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Returns the JSON object that a command prints."""
    assert cli.main(arguments) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found
