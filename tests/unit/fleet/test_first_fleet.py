"""Tests that programs of the first revision with a fleet and the present ones work together on one server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from stalltop.cli.fleet.host_past import host_windows
from stalltop.fleet.connection import ServerAccess
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.rollup import TIERS, batches
from stalltop.fleet.server_place import Rack
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.fleet.rolling import period_of
from stalltop.model.window import Window
from tests.revisions import ROOT, files_of
from tests.unit.fleet.clients import run, until

FIRST = "37717ad8a1124d08d39fe276acf9d6cdbec2dd32"
"""The first revision whose fleet is complete, of 2026-11-27."""
RACK = Rack("prod", "r1")
pytestmark = pytest.mark.timeout(600)
MERGED_SECONDS = 200.0
"""Workers merge windows of 10 s after these, and look every few seconds."""
PLACE = ("--cluster", RACK.cluster, "--rack", RACK.rack)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the first revision."""
    return files_of(FIRST, tmp_path_factory.mktemp("first"))


class RevisionPrograms:
    """Starts programs of both revisions on one server."""

    def __init__(self, server: LocalServer, ends: ExitStack) -> None:
        self._server, self._ends = server, ends

    def start(self, root: Path, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts a command, which ends with the test at the latest."""
        process = subprocess.Popen(
            self._command(*arguments), env=self._environment(root), stderr=subprocess.DEVNULL
        )
        self._ends.callback(process.wait)
        self._ends.callback(process.kill)
        return process

    def seen(self, root: Path) -> dict[str, Any]:
        """Returns what a revision prints about the fleet; nothing if it cannot."""
        command, environment = self._command("fleet", "--once", "--json"), self._environment(root)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        found: dict[str, Any] = {"hosts": [], "problems": []} if done.returncode else json.loads(done.stdout)
        return found

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-P", "-m", "stalltop", *arguments, "--nats", self._server.url]

    @staticmethod
    def _environment(root: Path) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(root / "src")}


@pytest.fixture
def programs(server: LocalServer) -> Iterator[RevisionPrograms]:
    with ExitStack() as ends:
        yield RevisionPrograms(server, ends)


def test_agents_and_screens_of_both_revisions_see_the_same_hosts(
    first: Path, programs: RevisionPrograms
) -> None:
    for root, host in ((first, "old"), (ROOT, "new")):
        programs.start(root, "agent", "--simulated", "--no-state", *PLACE, "--host", host)

    def both(root: Path) -> bool:
        found = programs.seen(root)
        hosts = {one["host"]: one for one in found["hosts"]}
        return (
            hosts.keys() == {"old", "new"}
            and all(one["state"] == "live" and one["summary"]["calls"] > 0 for one in hosts.values())
            and any({"old", "new"} <= {who["host"] for who in one["hosts"]} for one in found["problems"])
        )

    until(lambda: both(ROOT), MERGED_SECONDS)
    until(lambda: both(first), MERGED_SECONDS)


def test_windows_of_both_revisions_are_merged_to_the_call(
    first: Path, programs: RevisionPrograms, server: LocalServer
) -> None:
    access = ServerAccess((server.url,))
    agents = [
        programs.start(root, "agent", "--simulated", "--no-state", *PLACE, "--host", host)
        for root, host in ((first, "old"), (ROOT, "new"))
    ]
    programs.start(ROOT, "rollup")

    def sent(host: str) -> Counter[float]:
        return calls_in(host_windows(access, HostAddress(*RACK, host), 600.0, print))

    def merged() -> Counter[float]:
        found = run(access, lambda client: batches(client, TIERS[0], RACK))
        return calls_in(window for batch in found for window in batch.windows)

    until(lambda: merged().total(), MERGED_SECONDS)
    for process in agents:
        process.send_signal(signal.SIGINT)
        process.wait()
    old, new = sent("old"), sent("new")
    assert old.total() > 0
    assert new.total() > 0
    until(lambda: merged() == old + new, MERGED_SECONDS)


def calls_in(windows: Iterable[Window]) -> Counter[float]:
    """Returns the number of calls by period of a merged window."""
    found: Counter[float] = Counter()
    for window in windows:
        found[period_of(window, TIERS[0].seconds)] += int(window.rows.calls.sum())
    return found
