"""Tests with the Linux kernel's counters that the disk items of the demo's programs really reach the disk."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.demo.build import Built
from stalltop.demo.caller import Caller
from stalltop.demo.scratch import Scratch
from stalltop.demo.tenants import write_file

MIB = 1 << 20
CACHESTAT = 451
"""Number of the system call cachestat on all architectures (Linux 6.5 and later)."""


@pytest.fixture
def caller(built: Built) -> Iterator[Caller]:
    scratch = Scratch()
    try:
        write_file(scratch.path / "data", 4)
        with Caller(built, files=scratch.path) as program:
            yield program
    finally:
        scratch.close()


def moved(pid: int, what: str) -> int:
    """Return the counter ``what`` of /proc/PID/io, such as read_bytes: bytes that a disk read or wrote for
    the process."""
    found = dict(line.split(": ", 1) for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(found[what])


def major_faults(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[9])


@pytest.mark.parametrize(("item", "what"), [("read", "read_bytes"), ("write", "write_bytes")])
def test_bytes_go_past_the_page_cache(caller: Caller, item: str, what: str) -> None:
    before = moved(caller.pid, what)
    caller.run(f"@{item}:data:65536:8", cycles=4)
    # All four cycles use the same offsets of the file, and yet each cycle goes to the disk.
    assert moved(caller.pid, what) - before == 4 * 8 * 65536


def not_on_disk(path: Path) -> int:
    """Return the number of pages of the file that are not yet on the disk, as cachestat(2) reports."""
    whole, found = (ctypes.c_uint64 * 2)(), (ctypes.c_uint64 * 5)()
    with path.open("rb") as file:
        if ctypes.CDLL(None, use_errno=True).syscall(CACHESTAT, file.fileno(), whole, found, 0):
            pytest.skip(f"cachestat: {os.strerror(ctypes.get_errno())}")
    return found[1] + found[2]  # dirty, and being written


def test_what_is_saved_is_on_the_disk(caller: Caller) -> None:
    before = moved(caller.pid, "write_bytes")
    caller.run("@save:data:65536:8", cycles=4)
    assert moved(caller.pid, "write_bytes") - before >= 4 * 65536
    folder = Path(f"/proc/{caller.pid}/cmdline").read_text().split("\0-d\0")[1].split("\0")[0]
    assert not_on_disk(Path(folder) / "data") == 0


def test_cached_reads_stay_in_memory(caller: Caller) -> None:
    before = moved(caller.pid, "read_bytes")
    caller.run("@cached:data:65536:64", cycles=4)
    assert moved(caller.pid, "read_bytes") - before <= 4 * MIB


def test_dropped_pages_are_read_again(caller: Caller) -> None:
    caller.run("@touch:data:16")
    before = major_faults(caller.pid)
    caller.run("@touch:data:16", cycles=10)
    kept = major_faults(caller.pid) - before
    caller.run("@touch:data:16:1", cycles=10)
    assert major_faults(caller.pid) - before - kept >= 10
