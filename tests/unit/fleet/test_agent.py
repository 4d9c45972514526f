"""Tests that a host's windows reach the fleet: at once, after the server was away, and exactly once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from dataclasses import replace

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from stalltop.fleet import subjects
from stalltop.fleet.connection import ServerAccess
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.messages.window_message import decoded_window, encoded_window
from stalltop.fleet.outbox import DROPPED
from stalltop.fleet.watch import FleetWatch
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.window import Window
from tests.unit.fleet.clients import agent, run, second, until, watching
from tests.windows.by_hand import same_window
from tests.windows.full import full_window


def stored(access: ServerAccess, stream: str, subject: str) -> list[Msg]:
    """Returns all messages of a subject that a stream keeps."""

    async def read(client: Client) -> list[Msg]:
        js = client.jetstream()
        subscription = await js.subscribe(subject, stream=stream, ordered_consumer=True)
        info = await subscription.consumer_info()
        assert info.delivered is not None
        left = (info.num_pending or 0) + (info.delivered.consumer_seq or 0)
        return [await subscription.next_msg(10) for _ in range(left)]

    return run(access, read)


def windows(access: ServerAccess, address: HostAddress) -> list[Window]:
    subject = subjects.of_host(subjects.WINDOW, address)
    return [decoded_window(message.data) for message in stored(access, "ST1_WIN", subject)]


def ends(watch: FleetWatch) -> list[float]:
    """Returns the end of the last window of each host."""
    return [host.summary.end for host in watch.view().hosts if host.summary is not None]


def test_a_window_survives_the_wire() -> None:
    window = full_window()
    same_window(decoded_window(encoded_window(window, 1 << 20)), window)


def test_a_host_appears_in_the_fleet(access: ServerAccess, cluster: str) -> None:
    address = HostAddress(cluster, "r.1", "node-1.example")
    window = replace(full_window(), start=time.time() - 1, seconds=1.0)
    with watching(access, cluster) as watch, agent(access, address) as made:
        until(lambda: made.connected)
        made.take(window)
        until(lambda: watch.view().hosts)
        (host,) = watch.view().hosts
        assert (host.address, host.state) == (address, "live")
        assert host.summary is not None
        assert host.summary.session == "root 4711"
        assert host.worst is not None
        until(lambda: made.sent == 1)
    (found,) = windows(access, address)
    same_window(found, window)


def test_problems_are_told_as_they_open_and_close(access: ServerAccess, cluster: str) -> None:
    address = HostAddress(cluster, "r1", "n1")
    window = full_window()
    with agent(access, address) as made:
        for one in (window, replace(window, chains=())):
            made.take(one)
            until(lambda: made.connected and not made.waiting)
        made.stop()
    told = [json.loads(one.data) for one in stored(access, "ST1_CHAIN", f"st1.chain.{cluster}.>")]
    assert {one["version"] for one in told} == {1}
    opened = [one["id"] for one in told if one["change"] == "opened"]
    assert opened
    assert sorted(opened) == sorted(one["id"] for one in told if one["change"] == "closed")


def test_windows_wait_for_a_server_that_was_killed(server: LocalServer) -> None:
    access, address, said = ServerAccess((server.url,)), HostAddress("c", "r", "n1"), list[str]()
    with agent(access, address, said) as made:
        for number in range(3):
            made.take(second(number))
        until(lambda: made.sent == 3)
        server.kill()
        until(lambda: not made.connected)
        for number in range(3, 8):
            made.take(second(number))
        assert made.waiting == 5
        server.start()
        until(lambda: made.sent == 8 and not made.waiting)
    assert [one.start - second(0).start for one in windows(access, address)] == list(range(8))
    assert any("is away" in line for line in said)
    assert any("answers again" in line for line in said)


def test_an_agent_waits_for_a_server_that_is_not_there_yet(server: LocalServer) -> None:
    server.kill()
    access, address = ServerAccess((server.url,)), HostAddress("c", "r", "n1")
    with agent(access, address) as made:
        made.take(second(0))
        server.start()
        until(lambda: made.sent == 1)


def test_the_recording_fills_what_the_buffer_dropped(server: LocalServer) -> None:
    access, address = ServerAccess((server.url,)), HostAddress("c", "r", "n1")
    recorded = [second(number) for number in range(1, 100) if number not in (40, 41)]

    def past(start: float, end: float) -> list[Window]:
        return [one for one in recorded if one.end > start and one.start < end]

    server.kill()
    size = len(encoded_window(second(0), 1 << 20))
    with agent(access, address, past=past, buffer_bytes=10 * size + size // 2) as made:
        for number in range(100):
            made.take(second(number))
        server.start()
        with watching(access, "c") as watch:
            until(lambda: made.sent >= 9 and len(windows(access, address)) == 97)
            made.take(second(100))  # the next summary says what is missing
            until(lambda: ends(watch) == [second(100).end])
            (host,) = watch.view().hosts
    assert host.summary is not None
    start = second(0).start
    assert [(gap.start - start, gap.end - start, gap.reason) for gap in host.summary.gaps] == [
        (0, 1, DROPPED),
        (40, 42, DROPPED),
    ]
    kept = sorted(one.start - start for one in windows(access, address))
    assert kept == [float(number) for number in range(1, 101) if number not in (40, 41)]


def test_a_new_agent_sends_what_it_missed_while_it_did_not_run(access: ServerAccess, cluster: str) -> None:
    address = HostAddress(cluster, "r", "n1")
    with agent(access, address) as made:
        made.take(second(0))
        until(lambda: made.sent == 1)

    def past(start: float, end: float) -> list[Window]:
        return [one for one in map(second, range(20)) if one.end > start and one.start < end]

    with agent(access, address, past=past) as made:
        made.take(second(10))
        until(lambda: len(windows(access, address)) == 11)
    assert sorted(one.start for one in windows(access, address)) == [second(n).start for n in range(11)]


def test_a_window_that_is_sent_twice_is_kept_once(access: ServerAccess, cluster: str) -> None:
    address = HostAddress(cluster, "r", "n1")
    for _ in range(2):
        with agent(access, address) as made:
            made.take(second(0))
            until(lambda: made.sent == 1)
    assert len(windows(access, address)) == 1


def test_windows_are_sent_only_while_somebody_asks(access: ServerAccess, cluster: str) -> None:
    from stalltop.fleet.remote_host import RemoteHostSource

    address, stop = HostAddress(cluster, "r", "n1"), threading.Event()
    with agent(access, address, windows="asked") as made:
        made.take(second(0))
        until(lambda: made.connected)
        assert not made.waiting

        def feed() -> None:
            number = 1
            while not stop.wait(0.05):
                made.take(second(number))
                number += 1

        feeder = threading.Thread(target=feed)
        feeder.start()
        source = RemoteHostSource(access, address)
        try:
            assert source.read().host == "n1"
        finally:
            stop.set()
            feeder.join()
            source.close()


def test_an_agent_answers_inboxes_only(access: ServerAccess, cluster: str) -> None:
    """A request names the subject of its answer, which may be one that only the agent may publish on."""
    address = HostAddress(cluster, "r", "n1")
    subject, target = subjects.asking(address), subjects.of_host(subjects.WINDOW, address)

    async def look(client: Client) -> None:
        heard = await client.subscribe(target)
        for _ in range(100):  # the agent is connected a moment before it answers
            with contextlib.suppress(nats.errors.NoRespondersError):
                await client.request(subject, b'{"what":"windows"}', timeout=10)
                break
            await asyncio.sleep(0.05)
        for content in (b'{"what":"windows"}', b"no JSON"):
            await client.publish(subject, content, reply=target)
        answer = await client.request(subject, b'{"what":"windows"}', timeout=10)
        assert answer.data == b"{}"
        await client.flush()
        assert heard.pending_msgs == 0

    with agent(access, address, windows="asked") as made:
        until(lambda: made.connected)
        run(access, look)
