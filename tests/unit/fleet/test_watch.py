"""Tests that whoever looks at the fleet sees every host at once, whatever some of them send."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from nats.aio.client import Client

import stalltop
from stalltop.fleet import subjects
from stalltop.fleet.connection import FleetError, ServerAccess
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.messages.summary_message import encoded
from stalltop.fleet.streams import make_streams
from stalltop.fleet.subjects import STREAMS
from stalltop.model.fleet.host_summary import HostAddress
from tests.unit.fleet.clients import agent, run, second, until, watching
from tests.unit.model.fleet.summaries import problem, summary


def published(access: ServerAccess, messages: dict[str, bytes]) -> None:
    async def publish(client: Client) -> None:
        await make_streams(client)
        for subject, content in messages.items():
            await client.publish(subject, content)
        await client.flush()
        await asyncio.sleep(0.1)  # what was published last must be in the stream

    run(access, publish)


def of(cluster: str, host: str) -> str:
    return subjects.of_host(subjects.SUMMARY, HostAddress(cluster, "r", host))


def test_a_late_join_shows_the_last_summary_of_each_host(access: ServerAccess, cluster: str) -> None:
    lost = {f"n{number}": float(number) for number in range(300)}
    end = time.time()
    for _ in range(2):
        messages = {of(cluster, host): encoded(summary(problem(lost=lost[host]), end=end)) for host in lost}
        published(access, messages)
    with watching(access, cluster) as watch:
        assert watch.join(30)
        view = watch.view()
        assert {host.address.host: host.lost_ms_per_s for host in view.hosts} == lost
        assert watch.messages == 300


def test_garbage_and_other_versions_are_shown_as_that(access: ServerAccess, cluster: str) -> None:
    published(
        access,
        {
            of(cluster, "good"): encoded(summary(end=time.time())),
            of(cluster, "newer"): b"\x02" + b"from the future",
            of(cluster, "broken"): b"\x01" + zlib.compress(json.dumps({"end": "x"}).encode()),
            f"st1.sum.{cluster}.r.=FF": b"no name",
            f"st1.sum.{cluster}.r": b"no host",
        },
    )
    with watching(access, cluster) as watch:
        assert watch.join(30)
        until(lambda: watch.messages == 5)
        hosts = {host.address.host: host for host in watch.view().hosts}
    assert {name: host.state for name, host in hosts.items()} == {
        "good": "live",
        "newer": "unreadable",
        "broken": "unreadable",
    }
    assert hosts["newer"].remarks == ("sends version 2 of the summary; this stalltop reads version 1",)
    assert hosts["broken"].remarks[0].startswith("sends no summary: ")


def test_a_fleet_without_hosts_is_empty_at_once(access: ServerAccess, cluster: str) -> None:
    published(access, {})
    with watching(access, cluster) as watch:
        assert watch.join(30)
        assert watch.view().hosts == ()


def test_hosts_are_seen_without_a_stream(server: LocalServer) -> None:
    access = ServerAccess((server.url,))
    with watching(access, "c") as watch:

        async def publish(client: Client) -> None:
            await client.publish(of("c", "n1"), encoded(summary(end=time.time())))

        def seen() -> bool:
            run(access, publish)
            return bool(watch.view().hosts)

        until(seen)
        assert watch.join(30)
        # Once the stream is there, it is read: it has the times of the server.
        run(access, make_streams)
        watch._again = 0.0

        def from_stream() -> bool:
            run(access, publish)
            return watch._again == float("inf") and watch.connected

        until(from_stream)
        before = watch.messages
        until(lambda: seen() and watch.messages > before)


def test_a_server_that_was_killed_is_followed_again(server: LocalServer) -> None:
    access, said = ServerAccess((server.url,)), list[str]()
    published(access, {of("c", "n1"): encoded(summary(end=time.time()))})
    with watching(access, "c", say=said.append) as watch:
        assert watch.join(30)
        server.kill()
        until(lambda: not watch.connected)
        server.start()
        until(lambda: watch.connected)

        def seen() -> bool:
            published(access, {of("c", "n2"): encoded(summary(end=time.time()))})
            return len(watch.view().hosts) == 2

        until(seen)
    assert any("is away" in line for line in said)


def test_a_server_that_is_not_there_is_told() -> None:
    with (
        pytest.raises(FleetError, match=r"no NATS server answers at nats://127\.0\.0\.1:1"),
        watching(ServerAccess(("nats://me:secret@127.0.0.1:1",)), "c"),
    ):
        pass


def test_streams_that_exist_keep_their_limits(server: LocalServer) -> None:
    async def made(client: Client) -> tuple[str, ...]:
        return await make_streams(client, most_bytes=1 << 20)

    access = ServerAccess((server.url,))
    assert run(access, made) == tuple(stream.name for stream in STREAMS)
    assert run(access, make_streams) == ()

    async def limit(client: Client) -> int | None:
        return (await client.jetstream().stream_info("ST1_WIN")).config.max_bytes

    assert run(access, limit) == 1 << 20


def test_a_server_without_jetstream_is_told() -> None:
    with LocalServer(jetstream=False) as server, pytest.raises(FleetError, match="without JetStream"):
        run(ServerAccess((server.url,)), make_streams)


def test_a_reader_that_is_stopped_delays_nobody(server: LocalServer) -> None:
    access = ServerAccess((server.url,))
    published(access, {})
    source = str(Path(stalltop.__file__).parents[1])
    command = [sys.executable, "-P", "-m", "stalltop", "rollup", "--nats", server.url]
    stopped = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": source}, stderr=subprocess.PIPE)
    try:
        assert stopped.stderr is not None
        assert b"merging" in stopped.stderr.readline()
        stopped.send_signal(signal.SIGSTOP)
        address = HostAddress("c", "r", "n1")
        with agent(access, address) as made:
            for number in range(30):
                made.take(second(number))
            until(lambda: made.sent == 30)
        with watching(access, "c") as watch:
            assert watch.join(30)
            assert len(watch.view().hosts) == 1
    finally:
        stopped.kill()
        stopped.wait()
