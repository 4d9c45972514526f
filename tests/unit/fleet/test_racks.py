"""Tests a server beyond two racks and the servers of these, all with the files in deploy/nats: what crosses
the lines between them, and what can be read from beyond."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client

import stalltop
from stalltop.cli import main as cli
from stalltop.cli.whole_file import whole_file
from stalltop.demo.simulated.windows import SimulatedSource
from stalltop.fleet import subjects
from stalltop.fleet.connection import FleetError, FleetLoop, close, connected
from stalltop.fleet.digest_worker import DigestWorker
from stalltop.fleet.known_racks import known_racks
from stalltop.fleet.messages.summary_message import encoded
from stalltop.fleet.messages.window_message import encoded_window
from stalltop.fleet.remote_host import RemoteHostSource
from stalltop.fleet.rollup import TIERS, RollupWorker, advance, batches
from stalltop.fleet.server_place import HUB_DOMAIN, Rack, ServerPlace, place_of
from stalltop.fleet.streams import missing_streams
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.fleet.rolling import rolled
from stalltop.model.merge.history import History
from stalltop.model.window import Window
from tests.tui.pseudo_terminal import PseudoTerminal
from tests.unit.fleet.clients import agent, run, second, until, watching
from tests.unit.fleet.shipped import Authority, ShippedServer, free_port
from tests.unit.model.fleet.summaries import summary
from tests.windows.by_hand import row_table

RACKS = (Rack("prod", "r1"), Rack("prod", "r2"))
HOST = "node-1"
SECONDS = 25
_OTHER_HUBS = ', "tls://stalltop-2:7422", "tls://stalltop-3:7422"'


def leaf_changes(number: int, port: int) -> dict[str, str]:
    """Returns what the file of the first rack's server says otherwise for another rack,
    with one server beyond."""
    found = {"stalltop-1:7422": f"127.0.0.1:{port}", _OTHER_HUBS: ""}
    if number > 1:
        found |= {"prod/r1": f"prod/r{number}", "rack-1": f"rack-{number}", ".r1.": f".r{number}."}
    return found


@dataclass
class Topology:
    """The servers, and what agents sent."""

    authority: Authority
    port: int
    """Where servers of racks connect."""
    hub: ShippedServer
    racks: dict[Rack, ShippedServer]

    def send(self, rack: Rack, windows: list[Window]) -> None:
        with agent(self.racks[rack].access("AGENT"), HostAddress(*rack, HOST)) as made:
            for window in windows:
                made.take(window)
            until(lambda: made.sent == len(windows))

    def received(self) -> int:
        """Returns the bytes that came from racks to the hub."""
        return sum(one["in_bytes"] for one in self.hub.leaves())


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topology]:
    authority, port = Authority(tmp_path_factory.mktemp("authority")), free_port()
    changes = {"0.0.0.0:7422": f"127.0.0.1:{port}"}
    hub = ShippedServer("hub.conf", authority, authority.sign("hub", "stalltop-1"), changes)
    found = Topology(authority, port, hub, {})
    try:
        for number, rack in enumerate(RACKS, 1):
            name = f"rack-{number}"
            found.racks[rack] = ShippedServer(
                "leaf.conf", authority, authority.sign(name, name), leaf_changes(number, port)
            )
        until(lambda: len(hub.leaves()) == 2)
        for server in (hub, *found.racks.values()):
            assert cli.main(["fleet", "check", "--make-streams", *server.options("ADMIN")]) == 0
        yield found
    finally:
        for server in (hub, *found.racks.values()):
            server.server.close()


@pytest.fixture(scope="module")
def sent(fleet: Topology) -> dict[Rack, list[Window]]:
    """Sends windows of a host of each rack, and returns them."""
    start, found = time.time() // 60 * 60 - 120, {}
    for seed, rack in enumerate(RACKS):
        source = SimulatedSource(seed)
        found[rack] = [
            replace(source.read(), start=start + number, seconds=1.0, host=HOST) for number in range(SECONDS)
        ]
        source.close()
        fleet.send(rack, found[rack])
    return found


def size(windows: list[Window]) -> int:
    return sum(len(encoded_window(window, 1 << 20)) for window in windows)


def test_each_server_has_the_streams_of_its_place(
    fleet: Topology, capsys: pytest.CaptureFixture[str]
) -> None:
    for server, wanted in ((fleet.hub, 2), *((one, 6) for one in fleet.racks.values())):
        assert cli.main(["fleet", "check", "--json", *server.options("ADMIN")]) == 0
        told = {one["name"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
        streams = {name: one for name, one in told.items() if name.startswith("ST1_")}
        assert len(streams) == wanted
        assert {one["verdict"] for one in streams.values()} == {"ok"}
        assert told["TLS"]["verdict"] == "ok"


def test_a_rack_keeps_its_own_windows_only(fleet: Topology, sent: dict[Rack, list[Window]]) -> None:
    for rack, server in fleet.racks.items():

        async def look(client: Client) -> dict[str, int]:
            info = await client.jetstream().stream_info("ST1_WIN", subjects_filter=">")
            return dict(info.state.subjects or {})

        assert run(server.access("ADMIN"), look) == {
            subjects.of_host(subjects.WINDOW, HostAddress(*rack, HOST)): len(sent[rack])
        }


def test_windows_cross_the_line_only_while_somebody_looks(
    fleet: Topology, sent: dict[Rack, list[Window]]
) -> None:
    rack, whole = RACKS[0], size(sent[RACKS[0]])
    address = HostAddress(*rack, "node-9")
    subject = subjects.of_host(subjects.WINDOW, address)
    admin = fleet.racks[rack].access("ADMIN")
    newest = time.time()

    async def publish(client: Client) -> None:
        """Publishes windows alone, without the summaries of an agent."""
        for number, window in enumerate(reversed(sent[rack])):
            window = replace(window, start=newest - 1.0 - number, host=address.host)
            await client.publish(subject, encoded_window(window, 1 << 20))
        await client.flush()

    async def publish_and_wait(hub: Client) -> None:
        """Waits for a message that crosses the line after the windows, if they cross it."""
        marker = "st1.job.marker"
        heard = await hub.subscribe(marker)
        await hub.flush()
        client = await connected(admin, "test")
        try:
            await publish(client)
            for _ in range(100):  # the rack's server hears of the subscription only after a while
                await client.publish(marker, b"")
                with contextlib.suppress(nats.errors.TimeoutError):
                    await heard.next_msg(0.2)
                    return
        finally:
            await close(client)
        raise AssertionError("nothing crosses the line")

    def crossed() -> int:
        before = fleet.received()
        run(fleet.hub.access("ADMIN"), publish_and_wait)
        return fleet.received() - before

    async def wiped(client: Client) -> None:
        await client.jetstream().purge_stream("ST1_WIN", subject=subject)

    try:
        assert crossed() < whole / 10
        source = None

        def has_the_past() -> bool:
            """A reader does not wait long for the past: on a busy machine it may come in parts."""
            nonlocal source
            if source is not None:
                source.close()
            source = RemoteHostSource(fleet.hub.access("VIEWER"), address, history := History())
            return source.read().rows.calls.sum() > 0 and len(history) == SECONDS - 1

        try:
            until(has_the_past)
            assert source is not None
            before = fleet.received()
            run(admin, publish)
            until(lambda: fleet.received() - before > whole)
            assert source.read().rows.calls.sum() > 0
        finally:
            if source is not None:
                source.close()
        until(lambda: crossed() < whole / 10)
    finally:
        run(admin, wiped)


def test_a_screen_beyond_the_rack_goes_on_when_the_server_of_the_rack_is_back(fleet: Topology) -> None:
    server, address = fleet.racks[RACKS[1]], HostAddress(*RACKS[1], "node-9")
    subject = subjects.of_host(subjects.WINDOW, address)
    start = time.time()

    async def publish(client: Client) -> None:
        for number in range(3):
            window = second(number, address.host, start)
            await client.jetstream().publish(subject, encoded_window(window, 1 << 20))

    source = RemoteHostSource(fleet.hub.access("VIEWER"), address)

    def read_all() -> None:
        while True:
            source.read()

    def newest() -> float:
        with contextlib.suppress(FleetError):
            return source.read().end
        return 0.0

    try:
        run(server.access("ADMIN"), publish)
        until(lambda: newest() >= start)
        server.server.kill()
        with pytest.raises(FleetError, match="has sent no window"):
            read_all()
        server.server.start()
        start += 100
        run(server.access("ADMIN"), publish)
        until(lambda: newest() >= start)
    finally:
        source.close()

    async def wiped(client: Client) -> None:
        await client.jetstream().purge_stream("ST1_WIN", subject=subject)

    run(server.access("ADMIN"), wiped)


@pytest.mark.parametrize("who", ["another authority", "a name that is not listed", "no certificate"])
def test_a_stranger_is_no_leaf_of_the_hub(fleet: Topology, tmp_path: Path, who: str) -> None:
    authority = Authority(tmp_path / "strangers") if who == "another authority" else fleet.authority
    name = "rack-1" if who == "another authority" else f"stranger-{len(who)}"
    certificates = authority.sign(name, name)
    (certificates / "ca.crt").write_bytes(fleet.authority.certificate.read_bytes())
    changes = leaf_changes(3, fleet.port)
    if who == "no certificate":
        used = 'cert_file: "/etc/nats/server.crt"\n        key_file: "/etc/nats/server.key"\n        ca_file'
        changes = {used: "ca_file", **changes}
    stranger = ShippedServer("leaf.conf", authority, certificates, changes)
    try:
        address = HostAddress("prod", "r3", HOST)

        async def publish(client: Client) -> None:
            for _ in range(5):
                said = encoded(summary(end=time.time()))
                await client.publish(subjects.of_host(subjects.SUMMARY, address), said)
                await client.flush()
                await asyncio.sleep(0.5)

        run(stranger.access("ADMIN"), publish)
        assert len(fleet.hub.leaves()) == 2
        assert not stranger.leaves()
    finally:
        stranger.server.close()
    with watching(fleet.hub.access("VIEWER"), "prod") as watch:
        assert watch.join(30)
        assert address not in {host.address for host in watch.view().hosts}


def test_the_racks_are_merged_each_for_itself(fleet: Topology, sent: dict[Rack, list[Window]]) -> None:
    """By workers at each rack's server; the result is read from beyond the racks."""
    said: list[str] = []
    loop = FleetLoop("test")
    clients = [
        loop.wait(connected(server.access("ROLLUP"), "test")) for server in (*fleet.racks.values(),) * 2
    ]
    workers = [RollupWorker(client, said.append) for client in clients]

    async def look(client: Client) -> bool:
        assert place_of(client) == ServerPlace(hub=True)
        found = [await batches(client, TIERS[0], rack) for rack in RACKS]
        return [sum(one.messages for one in some) for some in found] == [len(sent[rack]) for rack in RACKS]

    try:
        running = [loop.begin(worker.run()) for worker in workers]
        until(lambda: run(fleet.hub.access("VIEWER"), look))
        assert sum(worker.counted for worker in workers) == sum(map(len, sent.values()))
        assert not said
        assert not any(one.done() for one in running)
    finally:
        for client in clients:
            loop.wait(close(client))
        loop.stop()

    async def finish(client: Client) -> None:
        rack = place_of(client).rack
        assert rack is not None
        while await advance(client, TIERS[1], rack, 4e9):
            pass

    for server in fleet.racks.values():
        run(server.access("ROLLUP"), finish)

    async def merged(client: Client) -> None:
        for tier in TIERS:
            for rack in RACKS:
                found = [one for batch in await batches(client, tier, rack) for one in batch.windows]
                assert {one.seconds for one in found} == {tier.seconds}
                some = [rolled(windows, rack.rack, 0, 1).rows for windows in (found, sent[rack])]
                assert row_table(some[0]) == row_table(some[1])

    run(fleet.hub.access("VIEWER"), merged)


def test_the_past_is_read_from_beyond_the_racks(
    fleet: Topology,
    sent: dict[Rack, list[Window]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for rack, server in fleet.racks.items():

        async def merge(client: Client, rack: Rack = rack) -> None:
            for tier in TIERS:
                while await advance(client, tier, rack, 4e9):
                    pass

        run(server.access("ROLLUP"), merge)
    loop = FleetLoop("test")
    client = loop.wait(connected(fleet.hub.access("ROLLUP"), "test"))
    loop.begin(DigestWorker(client, print).run())
    viewer = fleet.hub.access("VIEWER")
    monkeypatch.setenv("STALLTOP_NATS", viewer.urls[0])
    monkeypatch.setenv("STALLTOP_NATS_NKEY", str(viewer.nkey))
    monkeypatch.setenv("STALLTOP_NATS_TLS_CA", str(viewer.ca))

    def publish(rack: Rack) -> None:
        """Lets a host of the rack be seen: its summary is the last one for a minute."""

        async def work(client: Client) -> None:
            said = encoded(summary(end=time.time()))
            await client.publish(subjects.of_host(subjects.SUMMARY, HostAddress(*rack, HOST)), said)

        run(fleet.racks[rack].access("ADMIN"), work)

    def known() -> bool:
        for rack in RACKS:
            publish(rack)
        with watching(viewer, "prod") as watch:
            return watch.join(30) and len(watch.view().hosts) == 2

    whole = rolled([one for rack in RACKS for one in sent[rack]], "fleet", 0, 1)
    wanted = int(whole.rows.calls.sum())
    sql = "SELECT SUM(calls) AS n FROM operations"
    other = fleet.racks[RACKS[1]].server
    try:
        until(known)
        for last in ("1h", "1d"):
            file = tmp_path / f"{last}.stalltop"
            assert cli.main(["fleet", "save", "-o", str(file), "--last", last]) == 0
            assert "without" not in capsys.readouterr().err
            found = whole_file(file)[0]
            assert int(found.rows.calls.sum()) == wanted
            assert {key.host for key in found.rows.keys} == {"r1", "r2"}
        assert cli.main(["query", "fleet:prod@1h", sql, "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out)[0]["n"] == wanted
        source = str(Path(stalltop.__file__).parents[1])
        shown = ("-m", "stalltop", "fleet", "--no-state", "--no-config")
        with PseudoTerminal(*shown, size=(120, 40), PYTHONPATH=source) as terminal:
            terminal.sees("prod/r2/node-1")
            terminal.press("[")
            terminal.sees("RECORDED")
            terminal.press("q")
            terminal.sees("prod/r2/node-1")
            terminal.press("q")
            assert terminal.wait() == 0
        # The past of a rack whose server is away is missing, and that is said.
        other.kill()
        assert cli.main(["query", "fleet:", sql, "--format", "json"]) == 0
        told = capsys.readouterr()
        assert json.loads(told.out)[0]["n"] < wanted
        assert "without prod/r2: no answer" in told.err
    finally:
        other.start()
        loop.wait(close(client))
        loop.stop()


def started(server: ShippedServer) -> subprocess.Popen[str]:
    """Starts a worker at the server."""
    command = [sys.executable, "-P", "-m", "stalltop", "rollup", *server.options("ROLLUP")]
    environment = {**os.environ, "PYTHONPATH": str(Path(stalltop.__file__).parents[1])}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)


def test_a_worker_does_what_belongs_to_the_place_of_its_server(fleet: Topology) -> None:
    """At a rack it makes streams in memory again when the server has lost them, and says which rack it has,
    so that its past can be found when no host sends."""
    rack = fleet.racks[RACKS[0]]
    workers = [started(fleet.hub), started(rack)]

    async def racks(client: Client) -> list[Rack]:
        return await known_racks(client, "prod")

    async def streams(client: Client) -> tuple[str, ...]:
        return await missing_streams(client)

    try:
        until(lambda: RACKS[0] in run(fleet.hub.access("VIEWER"), racks))
        workers[1].send_signal(signal.SIGSTOP)  # it would make them again before anybody can look
        rack.server.kill()
        rack.server.start()
        assert run(rack.access("VIEWER"), streams) == ("ST1_SUM", "ST1_NS")
        workers[1].send_signal(signal.SIGCONT)
        until(lambda: not run(rack.access("VIEWER"), streams))
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGCONT)
            worker.send_signal(signal.SIGINT)
        said = [worker.communicate()[1] for worker in workers]
    assert "making digests" in said[0]
    assert "the server of the rack prod/r1" in said[1]
    assert "made 0 digests" in said[1]
    until(lambda: len(fleet.hub.leaves()) == 2)


def test_three_servers_beyond_the_racks_stand_in_for_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authority = Authority(tmp_path / "authority")
    routes, leaves = [free_port() for _ in range(3)], [free_port() for _ in range(3)]
    hubs: list[ShippedServer] = []
    address = HostAddress("prod", "r1", HOST)
    try:
        for number in range(3):
            name = f"stalltop-{number + 1}"
            changes = {f"stalltop-{at + 1}:6222": f"127.0.0.1:{routes[at]}" for at in range(3)} | {
                "0.0.0.0:6222": f"127.0.0.1:{routes[number]}",
                "0.0.0.0:7422": f"127.0.0.1:{leaves[number]}",
                "server_name: stalltop-1": f"server_name: {name}",
            }
            certificates = authority.sign(name, name, HUB_DOMAIN)
            hubs.append(ShippedServer("hub.conf", authority, certificates, changes, alone=False))
        making = ("fleet", "check", "--make-streams", "--replicas", "3", *hubs[0].options("ADMIN"))
        until(lambda: cli.main(making) == 0)
        changes = {f"stalltop-{at + 1}:7422": f"127.0.0.1:{leaves[at]}" for at in range(3)}
        rack = ShippedServer("leaf.conf", authority, authority.sign("rack-1", "rack-1"), changes)
        hubs.append(rack)
        assert cli.main(["fleet", "check", "--make-streams", *rack.options("ADMIN")]) == 0

        async def publish(client: Client) -> None:
            said = encoded(summary(end=time.time()))
            await client.publish(subjects.of_host(subjects.SUMMARY, address), said)
            await client.flush()

        def seen(hub: ShippedServer) -> bool:
            run(rack.access("AGENT"), publish)
            with watching(hub.access("VIEWER"), "prod") as watch:
                return watch.join(30) and [host.address for host in watch.view().hosts] == [address]

        until(lambda: all(map(seen, hubs[:3])))
        (there,) = [hub for hub in hubs[:3] if hub.leaves()]
        there.server.kill()
        (hub, _) = [hub for hub in hubs[:3] if hub is not there]
        until(lambda: seen(hub))
    finally:
        for server in hubs:
            server.server.close()
