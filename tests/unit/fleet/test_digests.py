"""Tests that a screen which reads digests shows what one shows that reads the summaries of all hosts."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from string import ascii_letters, digits

import pytest
from nats.aio.client import Client

import stalltop
from stalltop.demo.simulated.fleet_hosts import CLUSTER, SimulatedFleet
from stalltop.fleet import subjects
from stalltop.fleet.connection import FleetLoop, ServerAccess, close, connected
from stalltop.fleet.digest_watch import DigestWatch
from stalltop.fleet.digest_worker import ClusterPart, DigestWorker, RackPart
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.messages.digest_message import decoded_digest, encoded_digest, of_cluster
from stalltop.fleet.messages.summary_message import encoded
from stalltop.fleet.server_place import Rack
from stalltop.fleet.streams import make_streams
from stalltop.formats.text.fleet import job_line
from stalltop.model.fleet.fleet_digest import (
    MOST_JOBS,
    MOST_OF_CUT_JOB,
    MOST_RANKED,
    FleetDigest,
    RankedHost,
    digest_of,
    merged,
)
from stalltop.model.fleet.fleet_state import FleetState
from stalltop.model.fleet.fleet_view import FleetJob, FleetRank
from stalltop.model.fleet.host_summary import DeviceSummary
from stalltop.model.fleet.likeness import LEAST_SAMPLES, MOST_TOLD, UnlikeDevice
from stalltop.model.fleet.server_clock import ServerClock
from stalltop.model.hosts.collectives import entries_text
from stalltop.model.text.glyphs import UNICODE
from stalltop.tui.fleet.fleet_tables import FleetChoice, fleet_table
from tests.unit.fleet.clients import run, until
from tests.unit.model.fleet.summaries import NOW, at, problem, rank, summary


def whole(hosts: int = 100) -> FleetState:
    """Returns the state of some racks, one of whose hosts is silent."""
    state, fleet = FleetState(), SimulatedFleet(hosts)
    for host, address in enumerate(fleet.addresses):
        state.take(address, fleet.summary(host, NOW), NOW - (60 if host == 7 else 0))
    return state


def by_rack(hosts: int = 100) -> list[FleetDigest]:
    """Returns the digests of the same racks."""
    fleet, states = SimulatedFleet(hosts), dict[str, FleetState]()
    for host, address in enumerate(fleet.addresses):
        state = states.setdefault(address.rack, FleetState())
        state.take(address, fleet.summary(host, NOW), NOW - (60 if host == 7 else 0))
    return [digest_of(state.view(NOW, jobs=False)) for state in states.values()]


def test_digests_of_racks_merge_to_what_all_summaries_say() -> None:
    view = whole().view(NOW)
    found = merged([decoded_digest(encoded_digest(one)) for one in by_rack()])
    assert found.hosts == tuple(host.line for host in view.hosts)
    assert [(one.name, one.hosts, one.worst_p99_ns) for one in found.tenants] == [
        (one.name, one.hosts, one.worst_p99_ns) for one in view.tenants
    ]
    assert len(found.problems) == len(view.problems) == 3
    for one, other in zip(found.problems, view.problems, strict=True):
        assert one.lost_ms_per_s == pytest.approx(other.lost_ms_per_s)
        assert (one.hosts[0], set(one.hosts)) == (other.hosts[0], set(other.hosts))
        assert replace(one, hosts=(), lost_ms_per_s=0) == replace(other, hosts=(), lost_ms_per_s=0)


def test_a_digest_that_was_encoded_is_decoded() -> None:
    said = RankedHost(at("n1"), NOW, summary(problem(), ranks=(rank(0, 5),)))
    one = digest_of(whole().view(NOW), [said])
    assert one.jobs
    assert decoded_digest(encoded_digest(one)) == one
    for content in (b"", b"\x01x", encoded_digest(one)[:-3]):
        with pytest.raises(ValueError, match=r"\w"):
            decoded_digest(content)


_RANDOM = Random(1)


def text(length: int) -> str:
    """Returns text that cannot be compressed by much."""
    return "".join(_RANDOM.choices(ascii_letters + digits, k=length))


def job(number: int, ranks: int, late: int = 0) -> FleetJob:
    known = tuple(
        FleetRank(
            *(one, at(f"node-{number}-{one}"), _RANDOM.randrange(1 << 22), text(8), True, 5 * number, 0.5),
            problem=problem(lost=one + 0.5, culprit=text(12), summary=text(24)),
            median_late_seconds=one / 1e3,
        )
        for one in range(ranks)
    )
    unlike = tuple(
        UnlikeDevice(rank.address, "3", rank.rank, "sm_clock_mhz", 1200.0, 1980.0, "", ranks)
        for rank in known[:MOST_TOLD]
    )
    stands = 9.0 if late else 0.0
    return FleetJob(f"{number:016x}", "ml", text(10), ranks, known, stands, known[:late], unlike=unlike)


def test_a_digest_has_room_for_the_jobs_of_a_large_cluster() -> None:
    digest = FleetDigest(
        NOW, jobs=(job(0, 100), job(1, 10_000, late=6_000), *(job(n, 8) for n in range(1500)))
    )
    content = encoded_digest(digest)
    assert len(content) < 700_000, len(content)
    found = decoded_digest(content)
    assert (len(found.jobs), found.jobs_left_out) == (MOST_JOBS, 502)
    whole, large = found.jobs[:2]
    assert whole == digest.jobs[0]
    assert len(large.ranks) == MOST_OF_CUT_JOB
    assert large.left_out == (10_000 - MOST_OF_CUT_JOB, 10_000 - MOST_OF_CUT_JOB, 6_000 - MOST_OF_CUT_JOB)
    said = f"{large.tenant} stands for 9 s: it waits for rank 0 on node-1-0 and 5,999 more"
    assert job_line(large).startswith(said)
    assert [one.rank for one in large.unlike] == [0, 1, 2, 3]
    assert large.late[0].problem is not None
    # The ranks that usually arrive last, without their problems.
    assert [rank.rank for rank in found.jobs[-1].ranks] == [4, 5, 6, 7]
    assert {rank.problem for rank in found.jobs[-1].ranks} == {None}
    table = fleet_table(found, FleetChoice("jobs"), UNICODE, 120)
    assert "and 502 more that are not listed" in "".join(text for text, _ in table.title)
    assert table.rows[1].cells[2].text == "10,000 of 10,000"
    assert table.rows[1].cells[3].text.strip() == "10.0k"
    assert merged([found, found]).jobs_left_out == 2 * 502


def test_the_digest_of_a_large_rack_leaves_out_ranks_but_no_hosts() -> None:
    def entered() -> str:
        times = sorted(round(NOW * 1e9) + _RANDOM.randrange(10**9) for _ in range(4))
        return entries_text((_RANDOM.randrange(1 << 16), time) for time in times)

    names = [f"{_RANDOM.getrandbits(64):016x}" for _ in range(64)]
    said = tuple(
        RankedHost(
            at(f"n{one}"),
            NOW + _RANDOM.random(),
            summary(
                ranks=tuple(
                    rank(one, _RANDOM.randrange(1 << 16), _RANDOM.random(), name)._replace(entries=entered())
                    for name in names
                )
            ),
        )
        for one in range(400)
    )
    content = encoded_digest(FleetDigest(NOW, ranked=said))
    assert len(content) < 700_000, len(content)
    found = decoded_digest(content)
    assert len(found.ranked) == 400
    for host, whole in zip(found.ranked, said, strict=True):
        assert host.summary.ranks == whole.summary.ranks[: MOST_RANKED // 400]


class _SmallServer:
    """A connection to a server that takes only small messages."""

    def __init__(self, max_payload: int) -> None:
        self.max_payload = max_payload
        self.sent: list[bytes] = []

    async def publish(self, subject: str, content: bytes) -> None:
        self.sent.append(content)

    async def flush(self) -> None:
        pass


def test_a_digest_that_is_too_large_is_sent_without_jobs() -> None:
    digest = replace(digest_of(whole().view(NOW)), jobs=tuple(job(number, 8) for number in range(100)))
    part, said = ClusterPart("prod"), list[str]()
    part.digest = lambda now: digest  # type: ignore[method-assign]
    client = _SmallServer(len(encoded_digest(replace(digest, jobs=()))) + 100)
    worker = DigestWorker(client, said.append)  # type: ignore[arg-type]
    for _ in range(2):
        asyncio.run(worker._publish([part]))
    found = decoded_digest(client.sent[-1])
    assert (len(client.sent), found.hosts, found.jobs, found.jobs_left_out) == (2, digest.hosts, (), 100)
    (line,) = said
    assert line.startswith("st1.dig.all.prod: a digest of ")
    assert line.endswith("it is sent without jobs and ranks")
    client.max_payload = 100
    asyncio.run(worker._publish([part]))
    assert len(client.sent) == 2
    assert said[-1].endswith("are too much: not sent")


class _Message:
    """A message that a stream has received now."""

    def __init__(self, subject: str, data: bytes) -> None:
        self.subject, self.data = subject, data
        self.reply = f"$JS.ACK.S.C.1.1.1.{round(time.time() * 1e9)}.0"


def test_a_job_is_followed_across_racks() -> None:
    cluster = ClusterPart("prod")
    now = time.time()
    for number, rack in enumerate(("r1", "r2")):
        part = RackPart(Rack("prod", rack), ServerClock())
        said = summary(problem(), end=now, ranks=(rank(number, 500 - number),))
        where = at(f"n{number}", rack)
        asyncio.run(part.take(_Message(subjects.of_host("sum", where), encoded(said))))  # type: ignore[arg-type]
        content = encoded_digest(part.digest(now))
        asyncio.run(cluster.take(_Message(part.target, content)))  # type: ignore[arg-type]
    (job,) = cluster.digest(now).jobs
    assert [late.address.host for late in job.late] == ["n1"]
    assert job.stands_seconds == 10.0


def test_a_job_that_has_ended_is_in_no_digest() -> None:
    """Also if a digest of its rack is lost; and its hosts are not called silent."""
    cluster, part, now = ClusterPart("prod"), RackPart(Rack("prod", "r1"), ServerClock()), time.time()
    passed_on = []
    for second in range(20):
        known = (rank(0, 500),) if second < 2 else ()
        subject = subjects.of_host("sum", at("n0"))
        said = _Message(subject, encoded(summary(end=now + second, ranks=known)))
        said.reply = f"$JS.ACK.S.C.1.1.1.{round((now + second) * 1e9)}.0"
        asyncio.run(part.take(said))  # type: ignore[arg-type]
        content = encoded_digest(part.digest(now + second))
        passed_on.append(len(decoded_digest(content).ranked))
        if second != 2:
            asyncio.run(cluster.take(_Message(part.target, content)))  # type: ignore[arg-type]
        digest = cluster.digest(now + second)
        assert len(digest.jobs) == (1 if second < 3 else 0)
        assert [line.state for line in digest.hosts] == ["live"]
    assert passed_on[1:4] == [1, 1, 1]
    assert passed_on[-5:] == [0] * 5


def test_gpus_are_compared_across_racks() -> None:
    alike = DeviceSummary("3", "H100", 98.0, 70.0, 62.0, 640.0, 1980.0)
    cluster, parts = (
        ClusterPart("prod"),
        [RackPart(Rack("prod", f"r{one}"), ServerClock()) for one in range(4)],
    )
    for _ in range(LEAST_SAMPLES):
        now = time.time()
        for number, part in enumerate(parts):
            gpu = alike._replace(sm_clock_mhz=1200.0) if number == 2 else alike
            known = rank(number, 500, 0.1)._replace(device="3")
            said = summary(end=now, ranks=(known,), devices=(gpu, alike._replace(label="4")))
            where = subjects.of_host("sum", at(f"n{number}", f"r{number}"))
            asyncio.run(part.take(_Message(where, encoded(said))))  # type: ignore[arg-type]
            content = encoded_digest(part.digest(now))
            assert [len(one.summary.devices) for one in decoded_digest(content).ranked] == [1]
            asyncio.run(cluster.take(_Message(part.target, content)))  # type: ignore[arg-type]
        digest = decoded_digest(encoded_digest(cluster.digest(now)))
    ((one,),) = (found.unlike for found in digest.jobs)
    assert (one.address.host, one.figure, one.value, one.usual) == ("n2", "sm_clock_mhz", 1200.0, 1980.0)


def test_who_takes_over_a_rack_knows_its_silent_hosts() -> None:
    known = [line for line in merged(by_rack()).hosts if line.state == "silent"]
    (line,) = RackPart(Rack(CLUSTER, "rack-001"), ServerClock(), known).digest(NOW).hosts
    assert line.host == "node-00008"
    assert line.state == "silent"
    assert line.at == NOW - 60


@contextmanager
def workers(url: str, count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    source = str(Path(stalltop.__file__).parents[1])
    command = [sys.executable, "-P", "-m", "stalltop", "rollup", "--nats", url]
    environment = {**os.environ, "PYTHONPATH": source}
    found = [subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield found
    finally:
        for one in found:
            one.kill()
            one.wait()


@contextmanager
def sending(access: ServerAccess, fleet: SimulatedFleet) -> Iterator[None]:
    """Sends a summary of each host a second."""

    async def send(client: Client) -> None:
        while True:
            for host, address in enumerate(fleet.addresses):
                subject = subjects.of_host(subjects.SUMMARY, address)
                await client.publish(subject, encoded(fleet.summary(host, time.time())))
            await asyncio.sleep(1.0)

    loop = FleetLoop("test")
    client = loop.wait(connected(access, "hosts"))
    loop.begin(send(client))
    try:
        yield
    finally:
        loop.wait(close(client))
        loop.stop()


def test_workers_share_the_racks_and_the_others_take_over(server: LocalServer) -> None:
    access, fleet = ServerAccess((server.url,)), SimulatedFleet(100)
    run(access, make_streams)
    with sending(access, fleet), workers(server.url, 3) as running:
        watch = DigestWatch(access)
        try:
            watch.start()

            def complete() -> bool:
                digest = watch.digest()
                whole = digest.count("live"), len(digest.jobs), len(digest.problems)
                return watch.clusters == 1 and whole == (100, 1, 3)

            until(complete)
            until(lambda: watch._subscription is None)  # summaries are not read meanwhile
            hosts = watch.tenant_hosts("ml", "train")
            assert len(hosts) == 100
            for one in running[:2]:
                one.send_signal(signal.SIGKILL)
                one.wait()
            lost = time.monotonic()

            def newer() -> bool:
                return time.monotonic() - lost > 8 and complete()

            until(newer)
            server.kill()
            server.start()
            lost = time.monotonic()
            until(newer)  # the worker makes the streams in memory again, and reads them
            running[2].kill()
            running[2].wait()
            # Without a worker, summaries are read.
            until(lambda: not watch.clusters and watch.digest().count("live") == 100)
        finally:
            watch.stop()


def test_digests_of_another_version_are_left_out(access: ServerAccess, cluster: str) -> None:
    watch = DigestWatch(access, cluster=cluster)
    try:
        watch.start()

        async def send(client: Client) -> None:
            await client.publish(of_cluster(cluster), b"\x07of another release")
            await client.publish(subjects.of_host("sum", at("n1", cluster=cluster)), encoded(summary()))

        def seen() -> bool:
            run(access, send)
            return len(watch.digest().hosts) == 1

        until(seen)
        assert not watch.clusters
    finally:
        watch.stop()
