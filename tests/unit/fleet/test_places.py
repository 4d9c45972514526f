"""Tests that a server keeps what belongs to its place in the fleet, and that a check says what does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.js.api import StreamConfig

from stalltop.cli import main as cli
from stalltop.fleet.connection import FleetError, FleetLoop, ServerAccess, close, connected
from stalltop.fleet.known_racks import known_racks
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.rollup import RollupWorker
from stalltop.fleet.server_place import HUB_DOMAIN, Rack, ServerPlace, place_in
from stalltop.fleet.streams import make_streams
from stalltop.model.fleet.host_summary import HostAddress
from tests.unit.fleet.clients import agent, run, second, until

RACKS = (Rack("prod", "r1"), Rack("", "r.1"), Rack("a-b", "ü"))


@contextmanager
def placed(domain: str, folder: Path) -> Iterator[ServerAccess]:
    """Runs a server with this domain."""
    store = f'jetstream {{ store_dir: "{folder}", domain: "{domain}" }}'
    with LocalServer(jetstream=False, configuration=store) as server:
        yield ServerAccess((server.url,))


def verdicts(access: ServerAccess, capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, str]]:
    """Returns what a check says, by name."""
    capsys.readouterr()
    cli.main(["fleet", "check", "--json", "--nats", access.urls[0]])
    findings = json.loads(capsys.readouterr().out)["findings"]
    return {one["name"]: (one["verdict"], one["seen"]) for one in findings}


def test_the_domain_of_a_server_says_its_place() -> None:
    assert place_in("") == place_in("somewhere") == ServerPlace()
    assert place_in(HUB_DOMAIN) == ServerPlace(hub=True)
    for rack in RACKS:
        assert place_in(rack.domain) == ServerPlace(rack)
    assert place_in("a/=FF").whole


def test_streams_that_do_not_belong_to_a_place_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def wide(client: Client) -> None:
        await client.jetstream().add_stream(StreamConfig(name="ST1_WIN", subjects=["st1.win.>"]))
        await make_streams(client)

    for domain, said in (
        (RACKS[0].domain, "it keeps st1.win.>, not st1.win.prod.r1.>"),
        (HUB_DOMAIN, "all racks send their messages here"),
    ):
        with placed(domain, tmp_path / domain) as access:
            run(access, wide)
            found = verdicts(access, capsys)
        assert found["ST1_WIN"][0] == "warn"
        assert said in found["ST1_WIN"][1]
        assert found["ST1_SUM"][0] == "ok"


def test_an_agent_of_another_rack_is_told_that_its_windows_are_not_kept(tmp_path: Path) -> None:
    said: list[str] = []
    with (
        placed(RACKS[0].domain, tmp_path) as access,
        agent(access, HostAddress("prod", "r2", "n1"), said) as made,
    ):
        made.take(second(0))
        until(lambda: said)
    assert said == ["the NATS server keeps no windows of the rack prod/r2; see stalltop fleet check"]


def test_racks_whose_workers_answer_are_known_without_streams(tmp_path: Path) -> None:
    """Streams in memory end with the server."""

    async def look(client: Client) -> list[Rack]:
        return await known_racks(client, "prod")

    loop = FleetLoop("test")

    def known() -> bool:
        with suppress(FleetError):
            return run(access, look) == [RACKS[0]]
        return False

    with placed(RACKS[0].domain, tmp_path) as access:
        with pytest.raises(FleetError, match="there is no stream ST1_SUM"):
            run(access, look)
        worker = loop.wait(connected(access, "worker"))
        try:
            loop.begin(RollupWorker(worker, print).run())
            until(known)
        finally:
            loop.wait(close(worker))
            loop.stop()


def test_a_rack_without_traffic_is_not_said_to_lack_a_worker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with placed(RACKS[0].domain, tmp_path) as access:
        run(access, make_streams)
        verdict, said = verdicts(access, capsys)["rollup"]
    assert verdict == "warn"
    assert said == "nothing was merged lately: no worker merges windows, or no host of the rack sends any"
