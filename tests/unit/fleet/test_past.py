"""Tests that the past of a fleet is what its hosts recorded, and that commands read it like a recording."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from nats.aio.client import Client

from stalltop.cli import main as cli
from stalltop.cli.agent.tools import HostTools
from stalltop.cli.commands import mcp
from stalltop.cli.fleet.given import fleets_as_files
from stalltop.cli.fleet.past import FleetPast, save_past
from stalltop.cli.tellings import tellings
from stalltop.cli.whole_file import whole_file
from stalltop.demo.simulated.windows import SimulatedSource
from stalltop.fleet.connection import ServerAccess
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.messages.problem_message import decoded_change, encoded_change
from stalltop.fleet.rollup import TIERS, advance
from stalltop.fleet.server_place import Rack
from stalltop.formats.metrics.exposition import Exposition
from stalltop.formats.metrics.fleet import pass_on_fleet
from stalltop.model.fleet.fleet_digest import digest_of
from stalltop.model.fleet.fleet_state import FleetState
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.fleet.problem_changes import ProblemChange
from stalltop.model.fleet.rolling import percentiles_by_tenant, rolled
from stalltop.model.window import Window
from stalltop.recordings.read.reading import open_file
from stalltop.recordings.write.recording import Recording
from tests.unit.fleet.clients import agent, run, until
from tests.unit.model.fleet.summaries import NOW, at, problem, rank, summary
from tests.windows.by_hand import row_table
from tests.windows.full import full_window

SECONDS = 25
HOSTS = {"node-1": "r1", "node-2": "r1", "node-3": "r2"}


def recorded(path: Path, seed: int, start: float) -> list[Window]:
    """Records simulated tenants, and returns the windows that the file has."""
    source, recording = SimulatedSource(seed), Recording(path)
    for number in range(SECONDS):
        window = replace(source.read(), start=start + number, seconds=1.0, host=path.stem)
        slow = full_window().chains if path.stem == "node-1" and 5 < number < 20 else ()
        recording.add(
            replace(window, chains=tuple(replace(one, since=start + 6, seen=window.end) for one in slow))
        )
    recording.close()
    with open_file(path) as file:
        return list(file.windows())


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerAccess, list[Path]]]:
    """Returns a server that has the windows of three recordings, merged, and the recordings."""
    folder, start = tmp_path_factory.mktemp("hosts"), time.time() // 60 * 60 - 120
    with LocalServer() as server:
        access, files = ServerAccess((server.url,)), []
        for seed, (host, rack) in enumerate(HOSTS.items()):
            files.append(folder / f"{host}.stalltop")
            windows = recorded(files[-1], seed, start)
            with agent(access, HostAddress("prod", rack, host)) as made:
                for window in windows:
                    made.take(window)
                until(lambda: made.sent == SECONDS)

        async def roll(client: Client) -> None:
            for rack in sorted(set(HOSTS.values())):
                for tier in TIERS:
                    while await advance(client, tier, Rack("prod", rack), 4e9):
                        pass

        run(access, roll)
        yield access, files


def test_the_fleet_has_the_percentiles_of_the_merged_recordings(
    fleet: tuple[ServerAccess, list[Path]], tmp_path: Path
) -> None:
    access, files = fleet
    merged, past = tmp_path / "merged.stalltop", tmp_path / "past.stalltop"
    assert cli.main(["merge", *map(str, files), "-o", str(merged)]) == 0
    wanted = rolled([whole_file(merged)[0]], "fleet", 0.0, 1.0)
    assert len(wanted.rows) > 20
    for seconds in (3600.0, 86_400.0):  # the tier of 10 s, and that of 1 min
        save_past(access, FleetPast("prod", seconds), past, overwrite=True)
        found = rolled([whole_file(past)[0]], "fleet", 0.0, 1.0)
        assert row_table(found.rows) == row_table(wanted.rows)  # every counter of every histogram
        percents = (50.0, 95.0, 99.0, 99.9)
        assert percentiles_by_tenant([found], percents) == percentiles_by_tenant([wanted], percents)


def test_commands_read_the_past_of_a_fleet(
    fleet: tuple[ServerAccess, list[Path]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    access, files = fleet
    monkeypatch.setenv("STALLTOP_NATS", access.urls[0])
    made = 0
    for path in files:
        with open_file(path) as file:
            made += int(file.whole().rows.calls.sum())
    sql = "SELECT SUM(calls) AS n FROM operations"
    assert cli.main(["query", "fleet:prod@1h", sql, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["n"] == made
    assert cli.main(["explain", "fleet:", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert any("prod/r1/node-1: " in one["summary"] for one in told["chains"])
    page = tmp_path / "fleet.html"
    assert cli.main(["export", "fleet:", "--to", "html", "-o", str(page)]) == 0
    assert "r1" in page.read_text()
    assert cli.main(["diff", "fleet:prod", "fleet:prod"]) == 0
    assert cli.main(["open", "fleet:", "--json"]) == 0
    capsys.readouterr()
    assert cli.main(["query", "fleet:elsewhere", sql]) == 1
    assert "no merged windows" in capsys.readouterr().err
    assert cli.main(["query", "fleet:prod@soon", sql]) == 2
    assert "examples: fleet:prod@2h" in capsys.readouterr().err


def test_the_past_has_windows_of_ten_seconds_by_rack(
    fleet: tuple[ServerAccess, list[Path]], tmp_path: Path
) -> None:
    access, _ = fleet
    path = tmp_path / "past.stalltop"
    save_past(access, FleetPast(), path)
    with open_file(path) as file:
        windows = list(file.windows())
    assert len(windows) == 3
    assert {window.seconds for window in windows} == {10.0}
    assert {key.host for window in windows for key in window.rows.keys} == {"r1", "r2"}
    assert [[chain.open for chain in window.chains] for window in windows] == [[True], [True], [False]]
    (tenant,) = {chain.tenant for window in windows for chain in window.chains}
    assert all(tenant in window.tenants for window in windows)


def test_a_change_of_a_problem_survives_the_wire() -> None:
    one = ProblemChange("opened", problem(), NOW)
    assert decoded_change(encoded_change(one)) == one
    older = json.loads(encoded_change(one))
    del older["confidence"]
    assert decoded_change(json.dumps(older).encode()).problem.confidence == 0.0
    del older["line"]
    assert decoded_change(json.dumps(older).encode()).problem.line == ""
    for content in (b"", b"[]", b"{}", b'{"version": 1, "change": "opened", "at": 1}', b"\xff", b"[" * 9999):
        with pytest.raises(ValueError, match=r"\w"):
            decoded_change(content)


def test_the_metrics_of_a_fleet() -> None:
    state = FleetState()
    state.take(at("a"), summary(problem(lost=250.0)), NOW)
    state.take(at("b"), summary(ranks=(rank(0, 5),)), NOW)
    state.take(at("c"), summary(), NOW - 60)
    made = Exposition(openmetrics=True)
    pass_on_fleet(digest_of(state.view(NOW)), "1.2.3", made)
    text = made.text()
    assert 'stalltop_fleet_hosts{cluster="prod",state="live"} 2' in text
    assert 'stalltop_fleet_hosts{cluster="prod",state="silent"} 1' in text
    assert "stalltop_fleet_problem_lost_seconds{" in text
    assert "} 0.25" in text
    assert 'stalltop_fleet_job_stands_seconds{communicator="c0ffee"' in text


def test_tools_for_language_models_answer_about_a_fleet(
    fleet: tuple[ServerAccess, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    access, _ = fleet
    monkeypatch.setenv("STALLTOP_NATS", access.urls[0])
    options = cli.parsed(["mcp", "fleet:prod"])
    with fleets_as_files(options), mcp.place(options) as found:
        tools = HostTools(found, tellings())
        assert "node-1" in json.dumps(tools.problems(), ensure_ascii=False)
        asked = tools.query("SELECT SUM(calls) AS n FROM operations")
        assert asked["rows"]
    assert not options.file.exists()  # the file was for this command only
