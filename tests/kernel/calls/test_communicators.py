"""Tests the ranks of NCCL communicators: which one is late, by how much, and which never comes."""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Iterator

import pytest

from stalltop.demo.build import Built
from stalltop.demo.caller import Caller, CallerError
from stalltop.demo.latencies import Latency
from stalltop.model.hosts.collectives import chosen, entries_in
from stalltop.model.hosts.nccl_hash import nccl_hashes
from stalltop.probes import layout
from stalltop.probes.maps.raw import RawRank
from stalltop.probes.operations import NCCL
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.children import Child
from tests.kernel.harness import Workplace, probe

pytestmark = pytest.mark.beside

STEP = "ncclAllReduce:1:1024:7"

PROGRAM = """
import ctypes
nccl = ctypes.CDLL({library!r})
class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]
comm = ctypes.c_void_p()
def reduce(comm, times=1):
    for _ in range(times):
        nccl.ncclAllReduce(None, None, ctypes.c_size_t(1), 7, 0, comm, None)
"""
"""The first lines of a program that calls NCCL through ctypes."""


@pytest.fixture(scope="module")
def kernel(built: Built) -> Iterator[KernelSide]:
    side = KernelSide(slots=512, threads=256)
    probe(side, built.nccl, NCCL)
    yield side
    side.close()


def ranks(kernel: KernelSide, *pids: int) -> list[RawRank]:
    """Return the ranks of the processes ``pids`` as the kernel side reports them, sorted by rank."""
    return sorted((row for row in kernel.evidence.ranks() if row.tgid in pids), key=lambda row: row.rank)


def joined(workplace: Workplace, name: str, count: int, ranks: int = 0) -> list[Caller]:
    """Start ``count`` processes, each in its own cgroup; they join a communicator as ranks 0 to ``count`` -
    1.

    The communicator has ``ranks`` ranks, or ``count`` if ``ranks`` is 0.
    """
    callers = [workplace.caller(cgroup=workplace.cgroup()) for _ in range(count)]
    for rank, caller in enumerate(callers):
        caller.do(f"join {name} {rank} {ranks or count}")
    return callers


def named(unique_id: bytes) -> str:
    """Return how NCCL names a communicator that was made with ``unique_id`` and zeros."""
    return nccl_hashes(unique_id.ljust(128, b"\0"), signed=platform.machine() == "x86_64")


def run(built: Built, child: Child, program: str) -> None:
    child.do("run", PROGRAM.format(library=str(built.nccl)) + program)


def test_a_late_rank_is_late_by_its_delay(kernel: KernelSide, workplace: Workplace) -> None:
    callers = joined(workplace, "late", 3, ranks=8)
    pids = [caller.pid for caller in callers]
    least = most = 0
    for _ in range(10):
        began = time.monotonic_ns()
        callers[2].run(STEP)
        callers[0].run(STEP)
        before = time.monotonic_ns()
        time.sleep(0.02)
        after = time.monotonic_ns()
        callers[1].run(STEP)
        least, most = least + after - before, most + time.monotonic_ns() - began
    found = ranks(kernel, *pids)
    assert [row.tgid for row in found] == pids
    assert len({row.communicator for row in found}) == 1
    assert len({row.cgroup_id for row in found}) == 3
    for row in found:
        assert (row.ranks, row.local_ranks, row.collectives, row.joined, row.behind) == (8, 3, 10, 10, 0)
        assert row.since_entry_ns > 0
    assert least <= found[1].late_ns <= most
    assert least <= found[1].late_ns - found[0].late_ns
    assert found[2].late_ns == 0
    assert [row.last for row in found] == [0, 10, 0]
    again = ranks(kernel, *pids)
    assert [(row.collectives, row.joined, row.late_ns, row.last) for row in again] == [(0, 0, 0, 0)] * 3


def test_ranks_say_when_they_entered_the_same_collectives(kernel: KernelSide, workplace: Workplace) -> None:
    first, second = joined(workplace, "entries", 2)
    began = time.time()
    before = []
    for _ in range(40):
        first.run(STEP)
        before.append(time.time())
        time.sleep(0.002)
        second.run(STEP)
    ended = time.time()
    one, other = (dict(entries_in(row.entries)) for row in ranks(kernel, first.pid, second.pid))
    assert one.keys() == other.keys() == set(chosen(0, 40))
    assert one
    for number, time_of in one.items():
        assert began - 1e-3 <= time_of <= before[number] + 1e-3
        assert time_of + 0.002 <= other[number] <= ended
    assert all(row.entries == "" for row in ranks(kernel, first.pid, second.pid))


def test_a_rank_that_stops_is_behind(kernel: KernelSide, workplace: Workplace) -> None:
    going, stopped = joined(workplace, "behind", 2)
    for caller in (going, stopped):
        caller.run(STEP)
    stood = time.monotonic_ns()
    going.run(f"{STEP} ~1000", cycles=7)
    first, second = ranks(kernel, going.pid, stopped.pid)
    assert (first.behind, first.collectives, first.joined) == (0, 8, 1)
    assert (second.behind, second.collectives, second.joined) == (7, 1, 1)
    assert second.since_entry_ns >= 7_000_000
    assert second.since_entry_ns > first.since_entry_ns
    stopped.run(
        f"{STEP} ~1000", cycles=7
    )  # the rank catches up: the n-th collectives of both ranks are compared
    took = time.monotonic_ns() - stood
    first, second = ranks(kernel, going.pid, stopped.pid)
    assert (first.behind, second.behind) == (0, 0)
    assert (first.joined, second.joined, second.last, first.late_ns) == (7, 7, 7, 0)
    assert 7_000_000 <= second.late_ns <= 7 * took


def test_a_rank_that_never_came_is_behind_since_it_joined(kernel: KernelSide, workplace: Workplace) -> None:
    going, never = joined(workplace, "never", 2)
    going.run(f"{STEP} ~10000", cycles=3)
    _, second = ranks(kernel, going.pid, never.pid)
    assert (second.behind, second.collectives) == (3, 0)
    assert second.since_entry_ns >= 30_000_000


def test_only_the_last_collectives_are_compared(kernel: KernelSide, workplace: Workplace) -> None:
    callers = joined(workplace, "many", 2)
    pids = [caller.pid for caller in callers]
    for caller in callers:
        caller.run("ncclAllReduce:1000:8:7")
    for row in ranks(kernel, *pids):
        assert (row.collectives, row.joined, row.behind) == (1000, layout.ENTRIES - 1, 0)
    for caller in callers:
        caller.run("ncclAllReduce:100:8:7")
    first, second = ranks(kernel, *pids)
    assert (first.joined, second.joined, first.last, second.last) == (100, 100, 0, 100)


def test_reads_while_collectives_run_are_consistent(kernel: KernelSide, workplace: Workplace) -> None:
    # The ranks do not wait for each other, so either may be ahead. The sums below show that no collective is
    # compared twice.
    callers = joined(workplace, "running", 2)
    pids = [caller.pid for caller in callers]
    cycles = 20_000
    for caller in callers:
        caller.tell(f"burst 1 {cycles} ncclAllReduce:1:8:7")
    totals = [[0, 0, 0], [0, 0, 0]]
    deadline = time.monotonic() + 60
    while min(total[0] for total in totals) < cycles and time.monotonic() < deadline:
        for total, row in zip(totals, ranks(kernel, *pids), strict=True):
            for place, value in enumerate((row.collectives, row.joined, row.last)):
                total[place] += value
            assert row.late_ns >= 0
            assert row.late_ns == 0 or row.joined
    for caller in callers:
        caller.answer()
    assert [total[0] for total in totals] == [cycles, cycles]
    assert totals[0][1] == totals[1][1] == totals[0][2] + totals[1][2] <= cycles


def test_every_collective_counts_also_inside_groups(kernel: KernelSide, workplace: Workplace) -> None:
    [caller] = joined(workplace, "all", 1)
    for symbol in ("AllReduce", "Reduce", "ReduceScatter", "AllGather", "Broadcast", "Bcast"):
        caller.run(f"nccl{symbol}:3:8:7")
        assert [row.collectives for row in ranks(kernel, caller.pid)] == [3], symbol
    caller.run(f"ncclGroupStart {STEP} ncclAllGather:2:8:7 ncclGroupEnd ncclSend:5:8:7 ncclRecv:5:8:7")
    [row] = ranks(kernel, caller.pid)
    assert (row.collectives, row.local_ranks, row.joined) == (3, 1, 0)


def test_communicators_are_distinguished(kernel: KernelSide, workplace: Workplace) -> None:
    # The communicator's handle has the same value in all three processes, and two processes have rank 0.
    callers = joined(workplace, "one", 2) + joined(workplace, "other", 1)
    for count, caller in enumerate(callers, 1):
        caller.run(f"ncclAllReduce:{count}:8:7")
    found = {row.tgid: row for row in kernel.evidence.ranks()}
    one, two, other = (found[caller.pid] for caller in callers)
    assert one.communicator == two.communicator != other.communicator
    assert (one.local_ranks, other.local_ranks) == (2, 1)
    assert (one.behind, two.behind, other.behind) == (1, 0, 0)
    assert (one.joined, two.joined, other.joined) == (1, 1, 0)


def test_a_communicator_that_cannot_be_created_is_not_counted(
    kernel: KernelSide, workplace: Workplace
) -> None:
    refused = Latency(error_share=1.0, error_code=3)
    caller = workplace.caller(latencies={"ncclCommInitRank": refused})
    with pytest.raises(CallerError):
        caller.do("join refused 0 2")
    assert ranks(kernel, caller.pid) == []
    assert kernel.losses()["no_communicator"] == 0


def test_collectives_of_a_communicator_that_is_still_initializing_count(
    kernel: KernelSide, workplace: Workplace
) -> None:
    pending = Latency(
        error_share=1.0, error_code=7
    )  # ncclInProgress, which non-blocking communicators return
    [caller] = [workplace.caller(latencies={"ncclAllReduce": pending})]
    caller.do("join pending 0 2")
    caller.run(STEP)
    assert [row.collectives for row in ranks(kernel, caller.pid)] == [1]


def test_every_way_to_create_a_communicator_is_known(kernel: KernelSide, built: Built) -> None:
    ways = (
        "nccl.ncclCommInitRankConfig(ctypes.byref(comm), 4, Id(b'ways'), 1, None)",
        "nccl.ncclCommInitRankScalable(ctypes.byref(comm), 4, 2, 1, ctypes.byref(Id(b'ways')), None)",
        "nccl.ncclCommInitRank(ctypes.byref(comm), 4, Id(b'ways'), 3)",
    )
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(Child()) for _ in ways]
        for child, make in zip(children, ways, strict=True):
            run(built, child, f"{make}\nreduce(comm, 2)")
        found = ranks(kernel, *(child.pid for child in children))
    assert [row.rank for row in found] == [1, 2, 3]
    for row in found:
        assert (row.ranks, row.local_ranks, row.collectives, row.joined) == (4, 3, 2, 2)
    assert len({row.communicator for row in found}) == 1
    assert {row.nccl_hashes for row in found} == {named(b"ways")}


def test_all_ranks_may_be_in_one_process(kernel: KernelSide, built: Built) -> None:
    program = """
comms = (ctypes.c_void_p * 3)()
nccl.ncclCommInitAll(comms, 3, None)
for _ in range(5):
    for place in (2, 0, 1):
        reduce(ctypes.c_void_p(comms[place]))
"""
    with Child() as child:
        run(built, child, program)
        found = ranks(kernel, child.pid)
    assert [(row.rank, row.last) for row in found] == [(0, 0), (1, 5), (2, 0)]
    for row in found:
        assert (row.ranks, row.local_ranks, row.joined, row.nccl_hashes) == (3, 3, 5, "")
    assert 0 == found[2].late_ns < found[0].late_ns < found[1].late_ns


def test_split_communicators_are_known(kernel: KernelSide, built: Built) -> None:
    program = """
nccl.ncclCommInitRank(ctypes.byref(comm), 3, Id(b'whole'), {rank})
part = ctypes.c_void_p()
nccl.ncclCommSplit(comm, {colour}, 0, ctypes.byref(part), None)
nccl.ncclCommSplit(comm, 5, 0, ctypes.byref(part), None)
reduce(part, {rank} + 1)
"""
    with Child() as first, Child() as second, Child() as third:
        for rank, (child, colour) in enumerate(((first, 1), (second, 1), (third, -1))):
            run(built, child, program.format(rank=rank, colour=colour))
        found = ranks(kernel, first.pid, second.pid, third.pid)
    told = sorted((row.ranks, row.local_ranks, row.rank, row.collectives) for row in found)
    assert told == [
        *((0, 2, 0, 0), (0, 2, 1, 0)),  # the communicator of colour 1, which the third process did not join
        *((0, 3, 0, 1), (0, 3, 1, 2), (0, 3, 2, 3)),
        *((3, 3, 0, 0), (3, 3, 1, 0), (3, 3, 2, 0)),
    ]
    assert len({row.communicator for row in found}) == 3
    assert {(row.ranks, row.nccl_hashes) for row in found} == {(0, ""), (3, named(b"whole"))}


@pytest.mark.parametrize("leave", ["ncclCommDestroy", "ncclCommAbort"])
def test_a_rank_that_leaves_is_reported_once_more(
    kernel: KernelSide, built: Built, workplace: Workplace, leave: str
) -> None:
    [stays] = joined(workplace, f"left-by-{leave}", 1)
    stays.run(STEP)
    program = f"""
nccl.ncclCommInitRank(ctypes.byref(comm), 2, Id(b'left-by-{leave}'), 1)
reduce(comm, 3)
nccl.{leave}(comm)
"""
    with Child() as child:
        run(built, child, program)
        first, second = ranks(kernel, stays.pid, child.pid)
        assert (first.behind, second.collectives, second.behind) == (2, 3, 0)
        [first] = ranks(kernel, stays.pid, child.pid)
        assert (first.local_ranks, first.behind) == (1, 0)


def test_ranks_of_ended_processes_and_programs_are_forgotten(
    kernel: KernelSide, workplace: Workplace
) -> None:
    ended, changed, stays = joined(workplace, "ended", 3)
    assert len(ranks(kernel, ended.pid, changed.pid, stays.pid)) == 3
    assert ended.pid in kernel.evidence.tgids()
    ended.kill()
    kernel.release(ended.pid)
    assert ended.pid not in kernel.evidence.tgids()
    changed.do("exec")
    assert len(ranks(kernel, changed.pid)) == 1  # the rank is reported once more after the exec
    stays.run(STEP)
    [left] = ranks(kernel, ended.pid, changed.pid, stays.pid)
    assert (left.tgid, left.local_ranks, left.behind) == (stays.pid, 1, 0)


def test_communicators_older_than_the_probes_are_listed_as_unknown(
    kernel: KernelSide, workplace: Workplace
) -> None:
    caller = workplace.caller()
    caller.do("join earlier 0 2")
    for index in (int(place) for place in (kernel._programs.members["tgid"] == caller.pid).nonzero()[0]):
        # as if the probes had not seen how the communicator was created
        kernel.evidence._communicators._free(index)
    caller.run("ncclAllReduce:5:8:7")
    assert ranks(kernel, caller.pid) == []
    assert caller.pid in kernel.evidence.unknown_communicators()
    caller.do("join known 0 2")
    caller.run(STEP)
    [row] = ranks(kernel, caller.pid)
    assert row.collectives == 1
    caller.kill()
    kernel.release(caller.pid)
    assert caller.pid not in kernel.evidence.unknown_communicators()


def test_ranks_beyond_the_limit_are_counted_as_lost(kernel: KernelSide, built: Built) -> None:
    kernel.losses()
    count = layout.MEMBERS + 10
    program = f"""
for number in range({count}):
    nccl.ncclCommInitRank(ctypes.byref(comm), 1, Id(str(number).encode()), 0)
"""
    with Child() as child:
        run(built, child, program)
        found = ranks(kernel, child.pid)
        lost = kernel.losses()["no_communicator"]
        assert lost >= 10
        assert len(found) == count - lost
        assert len({row.communicator for row in found}) == len(found)
        child.kill()
        kernel.release(child.pid)
        assert ranks(kernel, child.pid) == []
