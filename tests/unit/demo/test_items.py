"""Tests what sample programs do besides CUDA calls, such as waiting for locks or touching memory."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.measuring.cpu import cpu_ns
from stalltop.demo.build import Built
from stalltop.demo.caller import Caller, CallerError, CallsMade
from stalltop.demo.latencies import Latency, write_table

PAGE = 4096
DEADLINE = 60.0


class Start:
    """Starts sample programs (callers) that share one folder of files."""

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


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end


def faults(pid: int) -> int:
    """Returns the number of minor page faults of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


def test_a_worker_waits_once_the_queue_of_batches_is_full(start: Start) -> None:
    worker, taker = start(), start()
    worker.tell("run 1 10 @give:batches:4")
    taker.run("@take:batches:4", cycles=6)
    worker.answer()  # four more fit in the queue
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


def test_a_lock_passes_on_when_its_holder_is_killed(start: Start) -> None:
    holder, waiter = start(), start()
    holder.start("@lock:shared:0:60000000")

    def waits() -> bool:
        waiter.tell("run 1 1 @lock:shared:0")
        try:
            waiter.answer(0.5)
        except CallerError:
            return True
        return False  # the holder does not have the lock yet

    until(waits)
    holder.kill()
    waiter.answer()
    waiter.run("@lock:shared:0", cycles=3)


def test_computing_uses_cpu_time_on_any_number_of_threads(start: Start) -> None:
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
    # The Linux kernel decides how many pages one fault maps, so only one fault per cycle is certain.
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
def test_invalid_items_are_refused(start: Start, item: str, why: str) -> None:
    with pytest.raises(CallerError, match=why):
        start().run(item)


def test_a_change_takes_effect_between_two_cycles(start: Start) -> None:
    caller = start()
    caller.start("cudaLaunchKernel:3 cudaMalloc:1:64 ~1000")

    def cycles() -> int:
        return caller.report().get("cudaMalloc", CallsMade()).calls

    for _ in range(20):
        before = cycles()
        until(lambda: cycles() > before)  # noqa: B023
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
    # In every step the first rank waits while the other rank pauses for 10 ms.
    assert waited.total_ns >= 20 * 9_000_000


def test_a_speed_file_slows_the_stand_in_down(start: Start) -> None:
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
