"""Tests use of CPU and memory by real processes, and the host's swapping from a fake file."""

from __future__ import annotations

import contextlib
import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

from stalltop.probes.host.process_use import (
    CHILDREN_LOOKS,
    Children,
    ProcessUses,
    SwapReader,
    children,
)

DEADLINE_SECONDS = 60.0
PAGE = os.sysconf("SC_PAGE_SIZE")


def test_a_computing_process_uses_cpu_time() -> None:
    cpu = min(os.sched_getaffinity(0))
    program = "import os; os.nice(3); print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        try:
            os.sched_setaffinity(process.pid, {cpu})
            assert process.stdout is not None
            process.stdout.readline()
            uses = ProcessUses()
            before = time.clock_gettime_ns(~process.pid << 3 | 2)
            first = uses.look({process.pid})[process.pid]
            assert first.cpu_ns == 0, "use before the first reading must not count"
            total, deadline = 0, time.monotonic() + DEADLINE_SECONDS
            while total < 50_000_000:
                assert time.monotonic() < deadline
                last = uses.look({process.pid})[process.pid]
                total += last.cpu_ns
            assert total <= time.clock_gettime_ns(~process.pid << 3 | 2) - before
        finally:
            process.kill()
    assert (last.nice, last.allowed, last.allowed_cpus, last.threads) == (
        min(os.nice(0) + 3, 19),
        str(cpu),
        1,
        1,
    )
    assert last.parent_pid == os.getpid()
    assert last.rss_bytes > PAGE
    uses.close()


def test_children_of_all_threads_are_found(tmp_path: Path) -> None:
    for tid, listed in (("7", "8 9 "), ("10", ""), ("11", "12 ")):
        task = tmp_path / "proc/7/task" / tid
        task.mkdir(parents=True)
        (task / "children").write_text(listed)
    assert children(7, str(tmp_path / "proc")) == {8, 9, 12}
    assert children(13, str(tmp_path / "proc")) == set()


def test_children_are_read_again_after_a_fork_and_after_some_samples(tmp_path: Path) -> None:
    task = tmp_path / "proc/7/task/7"
    task.mkdir(parents=True)
    (task / "children").write_text("8 ")
    known = Children(tmp_path)
    assert known.look([7], ()) == {8}
    (task / "children").write_text("8 9 ")
    assert known.look([7], ()) == {8}
    assert known.look([7], {7}) == {8, 9}
    (task / "children").write_text("9 ")
    assert [known.look([7], ()) for _ in range(CHILDREN_LOOKS)] == [{8, 9}] * (CHILDREN_LOOKS - 1) + [{9}]


def test_page_faults_are_counted() -> None:
    uses = ProcessUses()
    own = os.getpid()
    uses.look({own})
    # A new mapping: pages of the heap may have been touched before, and would then cause no fault.
    with mmap.mmap(-1, 200 * PAGE) as memory:
        with contextlib.suppress(OSError):  # a Linux kernel without huge pages
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        for at in range(0, len(memory), PAGE):
            memory[at] = 1
        assert uses.look({own})[own].minor_faults >= 150
    assert uses.look({own})[own].minor_faults < 150
    uses.close()


def test_an_ended_process_is_left_out_and_forgotten() -> None:
    uses = ProcessUses()
    before = len(os.listdir("/proc/self/fd"))
    with subprocess.Popen(["sleep", "60"]) as process:
        assert process.pid in uses.look({process.pid, os.getpid()})
        process.kill()
    assert uses.look({process.pid, os.getpid()}).keys() == {os.getpid()}
    assert uses.look(()) == {}
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_reused_pid_starts_anew(tmp_path: Path) -> None:
    def stat(ticks: int) -> str:
        return f"7 (a) b) R 1 0 0 0 0 0 10 0 20 0 {ticks} 0 0 0 20 0 4 0 99 0 25 0\n"

    file = tmp_path / "proc/7/stat"
    file.parent.mkdir(parents=True)
    file.write_text(stat(100))
    uses = ProcessUses(tmp_path)
    uses.look({7})
    file.write_text(stat(150))
    use = uses.look({7})[7]
    assert use.cpu_ns == 50 * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    assert (use.threads, use.rss_bytes, use.major_faults) == (4, 25 * PAGE, 0)
    file.write_text("")  # reading the open stat file of an ended process returns nothing
    assert uses.look({7}) == {}
    file.write_text(stat(9000))
    assert uses.look({7})[7].cpu_ns == 0


def test_swapped_bytes_are_counted_once(tmp_path: Path) -> None:
    file = tmp_path / "proc/vmstat"
    file.parent.mkdir()
    file.write_text("nr_free_pages 1\npswpin 5\npswpout 7\n")
    swap = SwapReader(tmp_path)
    assert swap.look() == (0, 0)
    file.write_text("nr_free_pages 1\npswpin 6\npswpout 9\n")
    assert swap.look() == (PAGE, 2 * PAGE)
    assert swap.look() == (0, 0)
    file.unlink()
    assert swap.look() == (0, 0)
