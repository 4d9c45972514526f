"""What sample programs do besides calling: each item does what it says, by the process's own accounts."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.cpu import cpu_ns
from stalltop.demo.build import Built, build
from stalltop.demo.caller import Caller, CallerError
from stalltop.demo.latencies import Latency, write_table

PAGE = 4096


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build(tmp_path_factory.mktemp("standin"))


class Start:
    """Starts programs whose files are in one folder."""

    def __init__(self, built: Built, files: Path, ends: ExitStack) -> None:
        self.files = files
        self._built = built
        self._ends = ends

    def __call__(self, **latencies: Latency) -> Caller:
        table = write_table(latencies, self.files / f"table-{len(latencies)}") if latencies else None
        return self._ends.enter_context(Caller(self._built, files=self.files, table=table))


@pytest.fixture
def start(built: Built, tmp_path: Path) -> Iterator[Start]:
    (tmp_path / "data").write_bytes(bytes(range(256)) * (64 * PAGE // 256))
    with ExitStack() as ends:
        yield Start(built, tmp_path, ends)


def faults(pid: int) -> int:
    """Minor page faults of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


def test_batches_go_from_worker_to_taker_and_no_further_ahead_than_the_queue_is_deep(start: Start) -> None:
    worker, taker = start(), start()
    worker.tell("run 1 10 @give:batches:4")
    taker.run("@take:batches:4", cycles=6)
    worker.answer()  # four more fit
    worker.tell("run 1 1 @give:batches:4")
    with pytest.raises(CallerError, match="no answer"):
        worker.answer(0.3)  # the queue is full
    taker.run("@take:batches:4")
    worker.answer()


def test_a_taker_waits_without_using_the_cpu(start: Start) -> None:
    taker = start()
    taker.tell("run 1 1 @take:batches")
    before = cpu_ns(taker.pid)
    with pytest.raises(CallerError, match="no answer"):
        taker.answer(0.3)
    assert cpu_ns(taker.pid) - before < 100_000_000
    start().run("@give:batches")
    taker.answer()


def test_a_lock_is_held_by_one_at_a_time(start: Start) -> None:
    one, other = start(), start()
    began = time.monotonic()
    for caller in (one, other):
        caller.tell("run 1 10 @lock:shared:0:10000")
    for caller in (one, other):
        caller.answer()
    assert time.monotonic() - began >= 0.2


def test_a_lock_whose_holder_was_killed_goes_to_the_next(start: Start) -> None:
    holder, waiter = start(), start()
    holder.start("@lock:shared:0:60000000")
    waiter.tell("run 1 1 @lock:shared:0")
    with pytest.raises(CallerError, match="no answer"):
        waiter.answer(0.5)
    holder.kill()
    waiter.answer()
    waiter.run("@lock:shared:0", cycles=3)


def test_computing_takes_cpu_time_however_many_compute(start: Start) -> None:
    caller = start()
    caller.run("!100")
    before = cpu_ns(caller.pid)
    caller.run("!20000", threads=6, cycles=2)
    assert cpu_ns(caller.pid) - before >= 240_000_000


@pytest.mark.parametrize("item", [f"@use:{256 * PAGE}", "@touch:data:32"])
def test_memory_is_touched_anew_in_every_cycle(start: Start, item: str) -> None:
    caller = start()
    caller.run(item)
    before = faults(caller.pid)
    caller.run(item, cycles=10)
    # How many pages come with one fault is the kernel's choice.
    assert faults(caller.pid) - before >= 10


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ("@sing:song", "not an item"),
        ("@read", "not an item"),
        ("@read:none:4096", "cannot open"),
        ("@cached:data:4095", "whole pages"),
        ("@cached:data:4194304", "more than the file has"),
        ("@use", "how many"),
        ("@ask:nowhere:1:1", "not an address"),
    ],
)
def test_what_cannot_be_done_is_refused(start: Start, item: str, why: str) -> None:
    with pytest.raises(CallerError, match=why):
        start().run(item)


def test_a_change_comes_between_two_cycles(start: Start) -> None:
    caller = start()
    caller.start("cudaLaunchKernel:3 cudaMalloc:1:64 ~1000")
    for _ in range(20):
        caller.change("cudaLaunchKernel:3 cudaMalloc:1:64 ~1000")
    caller.do("finish")
    made = caller.report()
    assert made["cudaLaunchKernel"].calls == 3 * made["cudaMalloc"].calls > 0


def test_ranks_meet_in_every_step(start: Start) -> None:
    meeting = start.files / "meeting"
    meeting.touch()
    sync = Latency("meet", ns=1e5, spread=2, path=meeting)
    one, late = start(cuStreamSynchronize=sync), start(cuStreamSynchronize=sync)
    for rank, caller in enumerate((one, late)):
        caller.do(f"join job {rank} 2")
    one.start("ncclAllReduce:1:64:7 cudaStreamSynchronize", cycles=20)
    late.run("~10000 ncclAllReduce:1:64:7 cudaStreamSynchronize", cycles=20)
    one.do("wait")
    waited, in_time = (caller.report()["cudaStreamSynchronize"] for caller in (one, late))
    assert waited.calls == in_time.calls == 20
    # The first one waits for the other one's pause in every step.
    assert waited.total_ns >= 20 * 9_000_000


def test_a_file_slows_the_stand_in_down(start: Start) -> None:
    speed = start.files / "speed"
    speed.touch()
    caller = start(cuStreamSynchronize=Latency("poll", ns=2e6, path=speed))
    caller.run("cudaStreamSynchronize", cycles=10)
    usual = caller.report()["cudaStreamSynchronize"]
    assert usual.total_ns >= 10 * 2_000_000
    with speed.open("r+b") as file:
        file.write(struct.pack("d", 20.0))
    caller.run("cudaStreamSynchronize", cycles=10)
    slowed = caller.report()["cudaStreamSynchronize"]
    assert slowed.total_ns - usual.total_ns >= 10 * 40_000_000
