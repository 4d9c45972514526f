"""Breaks a fleet in every way that docs/fleet.md names, and says what was lost, and how soon all was well."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import nats.errors
import nkeys
from nats.aio.client import Client

from bench.fleet.breakable_line import BreakableLine
from bench.fleet.feeding import (
    CLUSTER,
    RACK,
    FedAgents,
    KeptWindows,
    calls_in,
    fed,
    kept_windows,
    until,
    with_client,
)
from bench.measuring.figures import FigureColumn
from bench.measuring.program import ROOT
from bench.measuring.table import TextTable
from stalltop.demo.build import Built
from stalltop.fleet import subjects
from stalltop.fleet.connection import ConnectionListener, ServerAccess, close, connected
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.rollup import TIERS, advance, batches
from stalltop.fleet.server_place import HUB_DOMAIN
from stalltop.fleet.streams import make_streams
from stalltop.fleet.subjects import STREAMS
from stalltop.fleet.watch import FleetWatch
from stalltop.model.errors import StalltopError
from stalltop.model.fleet.host_summary import HostAddress

SUMMARY: Final = "a fleet whose server, line, disk, readers, workers, clocks and hosts fail: what is lost"
STREAM_BYTES: Final = 64 << 20
"""Limit of each stream on a small disk, which then has room for them."""
_ENDLESS: Final = 4_000_000_000.0


def run(built: Built, folder: Path, *, quick: bool) -> list[TextTable]:
    """Measures and returns the table. Raises StalltopError if a part of the fleet cannot be started."""
    table = TextTable(
        "outages: windows of all hosts, counted end to end",
        (
            "what fails",
            FigureColumn("windows", "", ""),
            FigureColumn("lost"),
            FigureColumn("doubled"),
            FigureColumn("well after", "s"),
            "what else",
        ),
        notes=["well after: from the end of the failure until all is stored, or the hosts are live again"],
    )
    partition = 20.0 if quick else 300.0
    outages: tuple[Callable[[], Row], ...] = (
        lambda: server_killed(3 if quick else 10),
        lambda: leaf_cut(folder / "leaf", partition),
        lambda: disk_full(folder / "disk"),
        lambda: slow_consumer(5.0 if quick else 30.0),
        lambda: rollup_killed(10 if quick else 50),
        clock_steps,
        lambda: garbage(1_000 if quick else 10_000),
        lambda: without_rights(folder / "rights"),
    )
    for outage in outages:
        table.add(*outage())
        print(f"outages: {table.rows[-1]}", file=sys.stderr)
    return [table]


Row = tuple[str, str, str, str, str, str]


def _row(name: str, kept: KeptWindows, after: float | None, more: str) -> Row:
    well = "-" if after is None else f"{after:.1f}"
    return name, f"{kept.given:,}", f"{kept.lost}", f"{kept.doubled}", well, more


def server_killed(times: int) -> Row:
    """Kills the server (SIGKILL) some times while agents send, and starts it again after a second."""
    slowest = 0.0
    with LocalServer() as server:
        access = ServerAccess((server.url,))
        with fed(access, 4) as agents:
            for _ in range(times):
                before = agents.given
                until(lambda: agents.given > before + 40)  # noqa: B023
                server.kill()
                time.sleep(1.0)
                server.start()
                slowest = max(slowest, until(lambda: agents.waiting < 8))
        kept = kept_windows(access, agents)
    return _row(f"server killed {times} times", kept, slowest, "the slowest of all times")


@contextmanager
def rack_server(folder: Path) -> Iterator[tuple[LocalServer, LocalServer, BreakableLine]]:
    """Runs a server, one of a rack that is its leaf node, and the relay between them."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    store = 'jetstream {{ store_dir: "{}", domain: {} }}\n'
    hub = store.format(folder / "hub", HUB_DOMAIN) + (
        f'server_name: hub\nleafnodes {{ listen: "127.0.0.1:{port}" }}'
    )
    with LocalServer(jetstream=False, configuration=hub) as far, BreakableLine(port) as relay:
        leaf = store.format(folder / "rack", RACK.domain) + (
            "server_name: rack\n"
            f'leafnodes {{ reconnect: 1, remotes: [{{ url: "nats-leaf://127.0.0.1:{relay.port}" }}] }}'
        )
        with LocalServer(jetstream=False, configuration=leaf) as near:
            yield far, near, relay


def leaf_cut(folder: Path, seconds: float) -> Row:
    """Cuts the line of a rack's server for ``seconds``: nothing passes, and no connection is closed."""
    with rack_server(folder) as (far, near, relay):
        access = ServerAccess((near.url,))
        beyond = ServerAccess((far.url,))
        with_client(beyond, make_streams)
        watch = FleetWatch(beyond)
        with fed(access, 4, hz=2.0) as agents:
            try:
                watch.start()
                until(lambda: watch.view().count("live") == 4)
                relay.cut()
                silent = until(lambda: watch.view().count("silent") == 4)
                time.sleep(max(seconds - silent, 0.0))
                waited = agents.waiting
                relay.mend()
                after = until(lambda: watch.view().count("live") == 4, 600.0)
            finally:
                watch.stop()
        kept = kept_windows(beyond, agents)
    more = (
        f"shown as silent after {silent:.1f} s; {waited} windows waited: the rack's server took them; "
        "counted from beyond the line"
    )
    return _row(f"line of a rack cut for {seconds:.0f} s", kept, after, more)


def disk_full(folder: Path) -> Row:
    """Fills the disk of the server while agents send, and makes room again."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "none", str(folder)], check=True)
    store = f'jetstream {{ store_dir: "{folder}/store", max_file_store: 1GB }}'
    try:
        with LocalServer(jetstream=False, configuration=store) as server:
            access = ServerAccess((server.url,))
            with_client(access, lambda client: make_streams(client, most_bytes=STREAM_BYTES))
            with fed(access, 4, hz=5.0) as agents:
                until(lambda: agents.given > 80)
                filled = _filled(folder / "filler")
                until(lambda: agents.waiting > 80)
                (folder / "filler").unlink()
                began = time.monotonic()
                with contextlib.suppress(StalltopError):
                    until(lambda: agents.waiting < 8, 20.0)
                restarted = agents.waiting >= 8
                if restarted:  # nats-server 2.9 then answers no request of JetStream, and no SIGTERM
                    server.kill()
                    server.start()
                    until(lambda: agents.waiting < 8)
                after = time.monotonic() - began
            kept = kept_windows(access, agents)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
    more = f"{filled >> 20} MiB filled; the server " + ("was restarted" if restarted else "went on by itself")
    return _row("disk full, then room again", kept, after, more)


def _filled(path: Path) -> int:
    """Writes a file until the disk is full; returns its bytes."""
    written = 0
    with open(path, "wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    written += file.write(bytes(size))
    return written


def slow_consumer(seconds: float) -> Row:
    """Subscribes to everything, and reads nothing, while others read."""
    with LocalServer() as server:
        access = ServerAccess((server.url,))
        watch = FleetWatch(access)
        with fed(access, 8, hz=20.0) as agents, socket.create_connection(("127.0.0.1", server.port)) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.sendall(b'CONNECT {"verbose":false}\r\nSUB > 1\r\nPING\r\n')
            try:
                watch.start()
                until(lambda: watch.view().count("live") == 8)
                lags, end = [], time.monotonic() + seconds
                while time.monotonic() < end:
                    time.sleep(0.1)
                    view = watch.view()
                    lags.append(max(view.now - host.at for host in view.hosts))
            finally:
                watch.stop()
        kept = kept_windows(access, agents)
    more = f"the others saw each host's last summary within {max(lags):.1f} s"
    return _row("a reader that reads nothing", kept, None, more)


def rollup_killed(times: int) -> Row:
    """Kills workers at random moments while they merge, and compares the sum with what was given."""
    pause, worker = random.Random(1), ROOT / "bench/fleet/rolls_until_killed.py"
    with LocalServer() as server:
        access = ServerAccess((server.url,))
        environment = {**os.environ, "NATS": server.url, "CLUSTER": CLUSTER, "RACK": RACK.rack}

        def started() -> subprocess.Popen[bytes]:
            return subprocess.Popen([sys.executable, str(worker)], env=environment, cwd=ROOT / "src")

        with_client(access, make_streams)
        workers = [started(), started()]
        try:
            with fed(access, 4) as agents:
                for _ in range(times):
                    time.sleep(pause.uniform(0.2, 1.2))
                    one = workers.pop(0)
                    one.kill()
                    one.wait()
                    workers.append(started())
        finally:
            for one in workers:
                one.kill()
                one.wait()
        return _merged(access, agents, f"worker of rollup killed {times} times")


def _merged(access: ServerAccess, agents: FedAgents, name: str) -> Row:
    """Returns whether the merged windows have exactly the calls of what was given."""

    async def work(client: Client) -> tuple[int, int, int]:
        for tier in TIERS:
            while await advance(client, tier, RACK, _ENDLESS):
                pass
        tiers = [await batches(client, tier, RACK) for tier in TIERS]
        fine, coarse = ([window for batch in found for window in batch.windows] for found in tiers)
        return calls_in(fine), calls_in(coarse), sum(batch.messages for batch in tiers[0])

    fine, coarse, messages = with_client(access, work)
    kept = kept_windows(access, agents)
    if fine != coarse:
        raise StalltopError(f"{name}: {fine:,} calls in windows of 10 s, {coarse:,} in those of 1 min")
    lost, doubled = max(agents.given - messages, 0), max(messages - agents.given, 0)
    counted = KeptWindows(agents.given, messages, kept.lost + lost, kept.doubled + doubled)
    return _row(name, counted, None, f"{fine:,} calls in both tiers")


def clock_steps() -> Row:
    """Sets the clocks of hosts an hour ahead, and an hour back."""
    said = ""
    with LocalServer() as server:
        access = ServerAccess((server.url,))
        watch = FleetWatch(access)
        with fed(access, 4) as agents:
            try:
                watch.start()
                for step in (3600.0, -3600.0, 0.0):
                    agents.step, before = step, agents.given
                    until(lambda: agents.given > before + 40 and _stepped(watch, step))  # noqa: B023
                    said = said or watch.view().hosts[0].remarks[0]
            finally:
                watch.stop()
        name, windows, lost, doubled, after, _ = _merged(access, agents, "clocks set by an hour, twice")
    return name, windows, lost, doubled, after, f"the host's row: {said}"


def _stepped(watch: FleetWatch, step: float) -> bool:
    hosts = watch.view().hosts
    return bool(hosts) and all(abs((host.clock_ahead or 0.0) - step) < 5.0 for host in hosts)


def garbage(count: int) -> Row:
    """Lets a host send garbage on all of its subjects, between the messages of other hosts."""
    chosen = random.Random(1)
    with LocalServer() as server:
        access = ServerAccess((server.url,))
        watch = FleetWatch(access)
        evil = HostAddress(CLUSTER, RACK.rack, "evil")
        kinds = (subjects.SUMMARY, subjects.WINDOW, subjects.PROBLEM)

        async def send(client: Client) -> None:
            for at in range(count):
                content = chosen.randbytes(chosen.randrange(2000))
                start = b"\x01" if at % 2 else b""
                await client.publish(subjects.of_host(kinds[at % 3], evil), start + content)
            await client.flush(30)

        with fed(access, 4) as agents:
            until(lambda: agents.given > 40)
            try:
                watch.start()
                with_client(access, send)
                until(lambda: watch.view().count("live") == 4 and watch.view().count("unreadable") == 1)
            finally:
                watch.stop()

        async def wiped(client: Client) -> None:
            await client.jetstream().purge_stream("ST1_WIN", subject=subjects.of_host(subjects.WINDOW, evil))

        async def merge(client: Client) -> int:
            while await advance(client, TIERS[0], RACK, _ENDLESS):
                pass
            return calls_in([one for batch in await batches(client, TIERS[0], RACK) for one in batch.windows])

        calls = with_client(access, merge)
        with_client(access, wiped)
        kept = kept_windows(access, agents)
    more = f"the host is shown as unreadable; {calls:,} calls of the others merged"
    return _row(f"{count:,} messages of garbage", kept, None, more)


def without_rights(folder: Path) -> Row:
    """Lets an agent publish and read what it has no right to, with the permissions of ``deploy/nats``."""
    folder.mkdir(parents=True, exist_ok=True)
    text = (ROOT / "deploy/nats/permissions.conf").read_text()
    seeds = {}
    for user in ("ADMIN", "AGENT", "TEAM", "VIEWER", "ROLLUP"):
        seed = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
        text = text.replace(f"${user}", nkeys.from_seed(bytearray(seed)).public_key.decode())
        seeds[user] = folder / user
        seeds[user].write_bytes(seed)
        seeds[user].chmod(0o600)
    with LocalServer(configuration=text) as server:
        admin = ServerAccess((server.url,), nkey=seeds["ADMIN"])
        with_client(admin, make_streams)
        other = HostAddress("prod", "r1", "node-2")
        forbidden = [
            *(subjects.of_host(kind, other) for kind in ("sum", "win", "chain", "ask")),
            *("st1.ns.prod.ml.r1.node-2", "st1.roll.10s.prod.r1", "st1.dig.all.prod", "st1.job.here"),
            *("$JS.API.STREAM.DELETE.ST1_WIN", "$JS.API.STREAM.PURGE.ST1_SUM", "$JS.API.STREAM.CREATE.X"),
            "$JS.API.CONSUMER.CREATE.ST1_SUM.x.st1.sum.>",
        ]
        read = ["st1.sum.>", "st1.win.>", "st1.chain.>", "st1.ns.>", "st1.dig.>", "st1.ask.>", ">"]
        refused: list[str] = []

        async def attempt() -> None:
            access = ServerAccess((server.url,), nkey=seeds["AGENT"])
            client = await connected(access, "bench", ConnectionListener(refused=refused.append))
            for subject in forbidden:
                await client.publish(subject, b"{}")
            for subject in read:
                await client.subscribe(subject)
            with contextlib.suppress(nats.errors.Error):
                await client.flush()
            await asyncio.sleep(0.5)
            await close(client)

        asyncio.run(attempt())

        async def untouched(client: Client) -> int:
            js = client.jetstream()
            return sum([(await js.stream_info(plan.name)).state.messages for plan in STREAMS])

        stored = with_client(admin, untouched)
    asked = len(forbidden) + len(read)
    if len(refused) < asked or stored:
        raise StalltopError(f"{asked - len(refused)} of {asked} requests were not refused; {stored} stored")
    return (
        "an agent without rights",
        "0",
        "0",
        "0",
        "-",
        f"{asked} of {asked} requests refused, nothing stored",
    )
