"""Tests that merged windows count each call of each host exactly once, whoever is killed when."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import nats.errors
import nats.js.errors
import numpy as np
import pytest
from nats.aio.client import Client

import stalltop
from stalltop.fleet import subjects
from stalltop.fleet.connection import FleetError, FleetLoop, ServerAccess, close, connected
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.messages.rolled_message import UPTO
from stalltop.fleet.messages.window_message import ID, encoded_window
from stalltop.fleet.rollup import TIERS, WHICH_RACKS, RollupWorker, advance, batches, racks_in
from stalltop.fleet.server_place import Rack
from stalltop.fleet.streams import make_streams
from stalltop.model.fleet.host_summary import HostAddress
from stalltop.model.fleet.rolling import percentiles_by_tenant, rolled
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.window import Window
from tests.unit.fleet.clients import run, second
from tests.windows.by_hand import row_table

PERCENTS = (50.0, 95.0, 99.0)
FUTURE = 4_000_000_000.0
"""A time after which every period is over."""
WORKER = Path(__file__).parents[3] / "bench/fleet/rolls_until_killed.py"


async def publish(client: Client, cluster: str, windows: list[Window]) -> None:
    await make_streams(client)
    js = client.jetstream()
    for window in windows:
        subject = subjects.of_host(subjects.WINDOW, HostAddress(cluster, "r1", window.host))
        headers = {ID: f"{cluster}:{window.host}:{window.start}"}
        await js.publish(subject, encoded_window(window, 1 << 20), headers=headers)


async def roll_all(client: Client, rack: Rack) -> None:
    for tier in TIERS:
        while await advance(client, tier, rack, FUTURE):
            pass


def all_windows(hosts: int = 3, seconds: int = 25) -> list[Window]:
    return [second(number, f"n{host}") for number in range(seconds) for host in range(hosts)]


def same_calls(merged: list[Window], windows: list[Window]) -> None:
    """Checks that ``merged`` has exactly the calls of ``windows``."""
    whole = [rolled(some, "r1", 0, 1).rows for some in (merged, windows)]
    assert row_table(whole[0]) == row_table(whole[1])


def test_each_tier_has_all_calls(access: ServerAccess, cluster: str) -> None:
    rack, windows = Rack(cluster, "r1"), all_windows()

    async def work(client: Client) -> None:
        await publish(client, cluster, windows)
        assert rack in await racks_in(client, TIERS[0].source, TIERS[0].source_kind)
        await roll_all(client, rack)
        for tier, periods in zip(TIERS, (3, 1), strict=True):
            merged = [one for batch in await batches(client, tier, rack) for one in batch.windows]
            same_calls(merged, windows)
            assert len({one.start for one in merged}) == periods

    run(access, work)


def test_percentiles_are_those_of_all_durations(access: ServerAccess, cluster: str) -> None:
    windows = all_windows()
    rows = [window.rows.histograms for window in windows]
    every = Histograms.concatenate(rows).grouped(np.zeros(len(rows), np.int64), 1)

    async def work(client: Client) -> None:
        await publish(client, cluster, windows)
        await roll_all(client, Rack(cluster, "r1"))
        found = await batches(client, TIERS[1], Rack(cluster, "r1"))
        merged = [one for batch in found for one in batch.windows]
        assert percentiles_by_tenant(merged, PERCENTS) == {
            "prod/serve": every.percentiles(PERCENTS)[0].tolist()
        }

    run(access, work)


def test_windows_that_come_late_are_added(access: ServerAccess, cluster: str) -> None:
    rack, windows = Rack(cluster, "r1"), all_windows()

    async def work(client: Client) -> None:
        await publish(client, cluster, windows[:40])
        await roll_all(client, rack)
        late = [second(3, "was-away"), *windows[40:], second(4, "was-away")]
        await publish(client, cluster, late)
        await roll_all(client, rack)
        for tier in TIERS:
            merged = [one for batch in await batches(client, tier, rack) for one in batch.windows]
            same_calls(merged, [*windows, late[0], late[-1]])

    run(access, work)


def test_results_are_read_from_a_moment_on(access: ServerAccess, cluster: str) -> None:
    rack, windows = Rack(cluster, "r1"), all_windows(1, 20)

    async def work(client: Client) -> None:
        await publish(client, cluster, windows[:10])
        await roll_all(client, rack)
        await asyncio.sleep(0.2)
        since = time.time()
        await publish(client, cluster, windows[10:])
        await roll_all(client, rack)
        found = [one for batch in await batches(client, TIERS[0], rack, since=since) for one in batch.windows]
        same_calls(found, windows[10:])
        assert not await batches(client, TIERS[0], rack, since=time.time())

    run(access, work)


def test_an_open_period_waits(access: ServerAccess, cluster: str) -> None:
    async def work(client: Client) -> None:
        await publish(client, cluster, all_windows(1, 3))
        assert await advance(client, TIERS[0], Rack(cluster, "r1"), time.time() - 60) == 0
        assert await advance(client, TIERS[0], Rack(cluster, "r1"), FUTURE) == 3
        assert await advance(client, TIERS[0], Rack(cluster, "r1"), FUTURE) == 0

    run(access, work)


def test_of_two_workers_at_once_one_result_counts(access: ServerAccess, cluster: str) -> None:
    rack, windows = Rack(cluster, "r1"), all_windows()

    async def work(client: Client) -> None:
        await publish(client, cluster, windows)
        counts = await asyncio.gather(*(advance(client, TIERS[0], rack, FUTURE) for _ in range(5)))
        assert Counter(counts)[75] == 1, counts
        merged = [one for batch in await batches(client, TIERS[0], rack) for one in batch.windows]
        same_calls(merged, windows)

    run(access, work)


def test_garbage_among_the_windows_does_not_stop_the_others(access: ServerAccess, cluster: str) -> None:
    rack, windows = Rack(cluster, "r1"), all_windows(1, 5)

    async def work(client: Client) -> None:
        await publish(client, cluster, windows[:2])
        for content in (b"", b"\x01garbage", b"\x09newer"):
            await client.jetstream().publish(f"st1.win.{cluster}.r1.evil", content)
        await publish(client, cluster, windows[2:])
        await roll_all(client, rack)
        merged = [one for batch in await batches(client, TIERS[1], rack) for one in batch.windows]
        same_calls(merged, windows)

    run(access, work)


def test_workers_that_are_killed_lose_and_double_nothing(access: ServerAccess, cluster: str) -> None:
    rack, windows, random = Rack(cluster, "r1"), all_windows(4, 30), Random(3)
    source = str(Path(stalltop.__file__).parents[1])
    environment = {
        **os.environ,
        "NATS": access.urls[0],
        "CLUSTER": cluster,
        "RACK": "r1",
        "PYTHONPATH": source,
    }

    def worker() -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-P", str(WORKER)], env=environment)

    async def counted(client: Client) -> int:
        return sum(batch.messages for batch in await batches(client, TIERS[0], rack))

    async def work(client: Client) -> None:
        workers = [worker(), worker()]
        try:
            for at in range(0, len(windows), 60):
                await publish(client, cluster, windows[at : at + 60])
                while await counted(client) < at + 30:  # a worker works
                    await asyncio.sleep(0.02)
                await publish(client, cluster, windows[at + 60 : at + 66])
                await asyncio.sleep(random.random() * 0.03)
                one = workers.pop(0)
                one.send_signal(signal.SIGKILL)
                one.wait()
                workers.append(worker())
            await roll_all(client, rack)
        finally:
            for one in workers:
                one.kill()
                one.wait()
        for tier in TIERS:
            found = await batches(client, tier, rack)
            same_calls([one for batch in found for one in batch.windows], windows)
        assert await counted(client) == len(windows)

    run(access, work)


def test_a_worker_tells_its_rack_to_an_inbox_only(tmp_path: Path) -> None:
    """A request names the subject of its answer, which may be one that a stream keeps, and its headers."""
    rack = Rack("prod", "r1")
    target = TIERS[0].subject(rack)
    configuration = f'jetstream {{ store_dir: "{tmp_path}", domain: "{rack.domain}" }}'
    with LocalServer(jetstream=False, configuration=configuration) as server:
        access, loop = ServerAccess((server.url,)), FleetLoop("test")
        run(access, make_streams)
        worker = loop.wait(connected(access, "worker"))

        async def ask(client: Client) -> None:
            hostile = {UPTO: "99999999"}
            for _ in range(200):
                await client.publish(WHICH_RACKS, b"", reply=target, headers=hostile)
                with contextlib.suppress(nats.errors.Error):
                    answer = await client.request(WHICH_RACKS, b"", timeout=0.5, headers=hostile)
                    break
            assert (answer.data.decode(), answer.headers) == (rack.domain, None)
            with pytest.raises(nats.js.errors.NotFoundError):
                await client.jetstream().get_last_msg(TIERS[0].target, target)

        try:
            loop.begin(RollupWorker(worker, print).run())
            run(access, ask)
        finally:
            loop.wait(close(worker))
            loop.stop()


def test_nothing_is_merged_after_a_result_that_no_worker_stored(access: ServerAccess, cluster: str) -> None:
    rack = Rack(cluster, "r1")

    async def work(client: Client) -> None:
        await publish(client, cluster, all_windows(1, 3))
        stored = await client.jetstream().publish(TIERS[0].subject(rack), b"prod/r1")
        with pytest.raises(FleetError, match="no worker stored it") as found:
            await advance(client, TIERS[0], rack, FUTURE)
        assert found.value.remedy == f"nats stream rmm ST1_ROLL_10S {stored.seq}"
        await client.jetstream().delete_msg("ST1_ROLL_10S", stored.seq)
        assert await advance(client, TIERS[0], rack, FUTURE) == 3

    run(access, work)
