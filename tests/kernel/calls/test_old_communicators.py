"""Tests that communicators that are older than the probes become known through NCCL's RAS."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from stalltop.demo.build import Built
from stalltop.demo.caller import Caller
from stalltop.model.hosts.collectives import entries_in
from stalltop.model.hosts.nccl_hash import nccl_hash, nccl_hashes
from stalltop.probes.maps.raw import RawRank
from stalltop.probes.operations import NCCL
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.harness import probe, wait_until
from tests.unit.probes.nccl_ras import stand_in

STEP = "ncclAllReduce:1:1024:7"
NAME = b"older-than-the-probes".ljust(128, b"\0")


class OldJob:
    """Two ranks in a network namespace of their own, in which a stand-in serves NCCL's RAS."""

    def __init__(self, built: Built, folder: Path, ends: ExitStack) -> None:
        first = ends.enter_context(Caller(built, before=("unshare", "--net")))
        own = os.readlink("/proc/self/ns/net")
        wait_until(lambda: os.readlink(f"/proc/{first.pid}/ns/net") != own, what="its network namespace")
        inside = ("nsenter", "--target", str(first.pid), "--net")
        self.ranks = [first, ends.enter_context(Caller(built, before=inside))]
        self._made = [0, 0]
        for number, caller in enumerate(self.ranks):
            caller.do(f"join {NAME.rstrip(bytes(1)).decode()} {number} 2")
        self._status = folder / "status"
        self.tell()
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        server = subprocess.Popen(
            [*inside, sys.executable, "-P", stand_in.__file__, str(self._status)],
            stdout=subprocess.PIPE,
            text=True,
        )
        ends.callback(server.wait)
        ends.callback(server.kill)
        assert server.stdout is not None
        assert server.stdout.readline() == "serves\n"

    def run(self, rank: int, cycles: int) -> None:
        self.ranks[rank].run(f"{STEP} ~1000", cycles=cycles)
        self._made[rank] += cycles

    def tell(self) -> None:
        """Lets RAS say how many collectives were made."""
        told = [
            stand_in.rank(number, caller.pid, AllReduce=made, SendRecv=99)
            for number, (caller, made) in enumerate(zip(self.ranks, self._made, strict=True))
        ]
        fresh = self._status.with_suffix(".new")
        fresh.write_bytes(stand_in.status(stand_in.communicator(nccl_hash(NAME), 2, told)))
        fresh.rename(self._status)


@pytest.fixture
def job(built: Built, tmp_path: Path) -> Iterator[OldJob]:
    with ExitStack() as ends:
        yield OldJob(built, tmp_path, ends)


@pytest.fixture
def kernel(job: OldJob, built: Built) -> Iterator[KernelSide]:
    """Returns a kernel side whose probes are attached when the ranks have entered collectives already."""
    job.run(0, 40)
    job.run(1, 40)
    side = KernelSide(slots=512, threads=256)
    probe(side, built.nccl, NCCL)
    yield side
    side.close()


def seen(kernel: KernelSide, job: OldJob) -> list[RawRank]:
    pids = {caller.pid for caller in job.ranks}
    return sorted((row for row in kernel.evidence.ranks() if row.tgid in pids), key=lambda row: row.rank)


def test_old_ranks_are_reported_as_unknown_until_ras_tells(kernel: KernelSide, job: OldJob) -> None:
    job.run(0, 3)
    job.run(1, 3)
    job.tell()
    pids = {caller.pid for caller in job.ranks}
    assert kernel.evidence.unknown_communicators() >= pids
    wait_until(lambda: len(seen(kernel, job)) == 2)
    assert not kernel.evidence.unknown_communicators() & pids


def test_known_ranks_are_compared_as_if_they_had_been_seen_from_the_beginning(
    kernel: KernelSide, job: OldJob
) -> None:
    job.run(0, 3)
    job.run(1, 3)
    job.tell()
    wait_until(lambda: len(seen(kernel, job)) == 2)
    job.run(0, 20)
    job.run(1, 20)
    first, second = seen(kernel, job)
    assert (first.rank, first.ranks, first.local_ranks) == (0, 2, 2)
    assert first.communicator == second.communicator
    assert (first.entered, second.entered) == (63, 63)
    assert (first.collectives, first.joined) == (20, 20)
    assert (first.last, second.last) == (0, 20)
    assert first.nccl_hashes == f"{nccl_hash(NAME):#x}"
    assert first.nccl_hashes in nccl_hashes(NAME, signed=platform.machine() == "x86_64").split()
    one, other = (dict(entries_in(row.entries)) for row in (first, second))
    assert one.keys() == other.keys()
    assert one
    assert set(one) <= set(range(43, 63))
    assert all(other[number] > time for number, time in one.items())


def test_a_rank_that_was_seen_from_the_beginning_shares_the_communicator(
    kernel: KernelSide, job: OldJob, built: Built
) -> None:
    job.run(0, 3)
    job.run(1, 3)
    job.tell()
    with Caller(built) as young:
        young.do(f"join {NAME.rstrip(bytes(1)).decode()} 1 2")
        young.run(STEP)
        wait_until(lambda: len(seen(kernel, job)) == 2)
        rows = kernel.evidence.ranks()
    assert len({row.communicator for row in rows}) == 1
    assert len(rows) == 3
