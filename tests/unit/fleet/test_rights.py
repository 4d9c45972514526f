"""Tests the configuration files in deploy/nats with a real server: who may see and send what."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from nats.aio.client import Client

from stalltop.cli import main as cli
from stalltop.fleet import subjects
from stalltop.fleet.connection import (
    ConnectionListener,
    FleetError,
    FleetLoop,
    ServerAccess,
    close,
    connected,
)
from stalltop.fleet.digest_watch import DigestWatch
from stalltop.fleet.digest_worker import DigestWorker
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.messages.summary_message import encoded
from stalltop.fleet.rollup import TIERS, advance, batches
from stalltop.fleet.server_place import Rack
from stalltop.fleet.streams import make_streams
from stalltop.fleet.subjects import STREAMS
from stalltop.model.fleet.condensing import ANOTHER, seen_by
from stalltop.model.fleet.host_summary import HostAddress
from tests.unit.fleet.clients import agent, ask, run, second, until, watching
from tests.unit.fleet.shipped import USERS, Authority, ShippedServer, permissions, seed_of
from tests.unit.model.fleet.summaries import problem, summary
from tests.windows.full import full_window

MINE = HostAddress("prod", "r1", "node-1")
OTHER = HostAddress("prod", "r1", "node-2")


@dataclass
class Guarded:
    """A server with users, and access as each of them."""

    url: str
    seeds: dict[str, Path]

    def access(self, user: str) -> ServerAccess:
        return ServerAccess((self.url,), nkey=self.seeds[user])


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("keys")
    seeds = {user: folder / user for user in USERS}
    for user, path in seeds.items():
        path.write_bytes(seed_of(user))
    with LocalServer(configuration=permissions()) as server:
        made = Guarded(server.url, seeds)
        assert run(made.access("ADMIN"), make_streams) == tuple(stream.name for stream in STREAMS)
        yield made


def published(guarded: Guarded, user: str, subject: str, content: bytes) -> None:
    async def publish(client: Client) -> None:
        await client.publish(subject, content)
        await client.flush()
        await asyncio.sleep(0.05)

    run(guarded.access(user), publish)


def test_a_stranger_is_refused(guarded: Guarded) -> None:
    with pytest.raises(FleetError, match="refuses this user"):
        run(ServerAccess((guarded.url,)), make_streams)


def test_an_agent_sends_under_its_own_name_only(guarded: Guarded) -> None:
    said: list[str] = []
    with agent(guarded.access("AGENT"), MINE, said) as made:
        made.take(second(0))
        until(lambda: made.sent == 1)
    assert not [line for line in said if "permissions" in line.lower()], said
    published(guarded, "AGENT", subjects.of_host(subjects.SUMMARY, OTHER), encoded(summary(end=time.time())))
    with watching(guarded.access("VIEWER"), "prod") as watch:
        assert watch.join(30)
        assert [host.address for host in watch.view().hosts] == [MINE]


def test_an_agent_cannot_read_what_others_send(guarded: Guarded) -> None:
    with watching(guarded.access("AGENT"), "prod") as watch:
        published(
            guarded, "ADMIN", subjects.of_host(subjects.SUMMARY, MINE), encoded(summary(end=time.time()))
        )
        assert watch.join(30)
        assert not watch.messages


def test_a_team_sees_its_namespace_only(guarded: Guarded) -> None:
    whole = summary(problem(namespace="ml"), problem(namespace="web", victim="shop"), end=time.time())
    for namespace in ("ml", "web"):
        subject = subjects.of_namespace(MINE, namespace)
        published(guarded, "ADMIN", subject, encoded(seen_by(whole, namespace)))
    published(guarded, "ADMIN", subjects.of_host(subjects.SUMMARY, MINE), encoded(whole))
    team = guarded.access("TEAM")
    with watching(team, "prod", namespace="ml") as watch:
        assert watch.join(30)
        (host,) = watch.view().hosts
        assert host.worst is not None
        assert (host.worst.victim, host.worst.culprit) == ("train", ANOTHER)
    for more in ({"namespace": "web"}, {}):
        with watching(team, "prod", **more) as watch:
            assert watch.join(30)
            assert not watch.messages


def test_a_team_cannot_ask_hosts(guarded: Guarded) -> None:
    with (
        agent(guarded.access("AGENT"), MINE),
        watching(guarded.access("TEAM"), "prod", namespace="ml") as watch,
        pytest.raises(FleetError),
    ):
        ask(watch, MINE, {"what": "query", "sql": "SELECT 1"}, 1.0)


def test_a_rollup_merges_and_sees_nothing_else(guarded: Guarded) -> None:
    with agent(guarded.access("AGENT"), MINE) as made:
        made.take(full_window())
        until(lambda: made.sent == 1)

    async def work(client: Client) -> None:
        assert await advance(client, TIERS[0], Rack("prod", "r1"), 4e9) > 0
        assert await batches(client, TIERS[0], Rack("prod", "r1"))

    run(guarded.access("ROLLUP"), work)


def test_a_rollup_makes_digests_for_viewers_only(guarded: Guarded) -> None:
    """Also after the server has lost its streams in memory, as in a restart."""

    async def lose(client: Client) -> None:
        await client.jetstream().delete_stream("ST1_SUM")

    run(guarded.access("ADMIN"), lose)
    said: list[str] = []
    loop = FleetLoop("test")
    client = loop.wait(connected(guarded.access("ROLLUP"), "test", ConnectionListener(refused=said.append)))
    loop.begin(DigestWorker(client, said.append).run())
    viewer = DigestWatch(guarded.access("VIEWER"), cluster="prod")
    team = DigestWatch(guarded.access("TEAM"), cluster="prod")
    try:
        viewer.start()
        team.start()

        def seen() -> bool:
            now = encoded(summary(end=time.time()))
            published(guarded, "ADMIN", subjects.of_host(subjects.SUMMARY, MINE), now)
            return viewer.clusters == 1 and viewer.digest().count("live") > 0

        until(seen)
        assert not team.clusters
        assert not team.digest().hosts
    finally:
        viewer.stop()
        team.stop()
        loop.wait(close(client))
        loop.stop()
    assert not said


def test_a_server_of_the_whole_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = Authority(tmp_path / "authority")
    server = ShippedServer("single.conf", authority, authority.sign("single", "stalltop"))
    try:
        assert cli.main(["fleet", "check", "--make-streams", *server.options("ADMIN")]) == 0
    finally:
        server.server.close()
    told = capsys.readouterr().out
    assert "a server of a whole fleet" in told
    assert told.count(", made now") == len(STREAMS)
