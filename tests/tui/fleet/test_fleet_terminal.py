"""Tests ``stalltop fleet`` in a real terminal, with a real server and a simulated host."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from nats.aio.client import Client

import stalltop
from stalltop.fleet.connection import ServerAccess
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.rollup import TIERS, advance
from stalltop.fleet.server_place import Rack
from tests.tui.pseudo_terminal import PseudoTerminal
from tests.unit.fleet.clients import run, until, watching


async def merged(client: Client) -> None:
    """Merges all windows that the server has."""
    for tier in TIERS:
        while await advance(client, tier, Rack("prod", "r7"), 4e9):
            pass


def test_enter_opens_a_host_a_key_opens_the_past_and_q_goes_back() -> None:
    source = str(Path(stalltop.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source}
    with LocalServer() as server:
        command = [sys.executable, "-P", "-m", "stalltop"]
        place = ["--cluster", "prod", "--rack", "r7", "--host", "node-1"]
        sender = subprocess.Popen(
            [*command, "agent", "--simulated", "--no-state", "--nats", server.url, *place], env=environment
        )
        try:
            access = ServerAccess((server.url,))
            with watching(access, "prod") as watch:
                until(lambda: any(host.calls_per_s for host in watch.view().hosts))
            shown = [*command[1:], "fleet", "--no-state", "--no-config", "--nats", server.url]
            with PseudoTerminal(*shown, size=(120, 40), PYTHONPATH=source) as terminal:
                terminal.sees("prod/r7/node-1")
                terminal.press("\r")
                terminal.sees("simulated-host")
                terminal.press("q")
                terminal.sees("prod/r7/node-1")
                run(access, merged)
                time.sleep(0.5)
                terminal.press("[")
                terminal.sees("RECORDED")
                terminal.press("q")
                terminal.sees("prod/r7/node-1")
                time.sleep(0.5)
                terminal.press("q")
                assert terminal.wait() == 0
                assert terminal.restored()
        finally:
            sender.kill()
            sender.wait()
