"""Tests that calls are counted exactly: number, durations, errors, bytes and directions."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from stalltop.model.histograms.hdr import HIGHEST_NS
from stalltop.probes.programs import bpf_calls
from stalltop.probes.tracer import probing
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.conftest import Traced
from tests.kernel.traced_program import (
    FUNCTIONS,
    OPERATION,
    by_function,
    calls_of,
    function_name,
    lost,
    points,
    read_calls,
    wait_until,
)

pytestmark = pytest.mark.beside


@pytest.mark.parametrize("name", ["plain", "pushing", "comparing", "marked"])
def test_every_call_is_counted_however_the_function_begins(traced: Traced, name: str) -> None:
    with traced.start() as program:
        program(f"call {name} 1000")
        assert calls_of(traced.kernel, program.pid) == {(name, False): 1000}
        program(f"call {name} 1")
        assert calls_of(traced.kernel, program.pid) == {(name, False): 1}
    assert calls_of(traced.kernel, program.pid) == {}
    assert lost(traced.kernel) == {}


def test_threads_of_a_process_add_up_in_one_row(traced: Traced) -> None:
    with traced.start() as program:
        program("threads 8 plain 5000")
        assert calls_of(traced.kernel, program.pid) == {("plain", False): 40_000}
        # When a thread ends, its record becomes free. So far more threads than records can run, one after
        # another.
        for _ in range(12):
            program("threads 16 pushing 10")
        assert calls_of(traced.kernel, program.pid) == {("pushing", False): 12 * 16 * 10}
    assert lost(traced.kernel) == {}


def test_processes_are_counted_separately(traced: Traced) -> None:
    with traced.start() as one, traced.start() as other:
        one("call plain 10")
        other("call plain 20")
        one("call plain 5")
        counts = read_calls(traced.kernel)
        calls = {key.tgid: n for key, n in zip(counts.keys, counts.calls.tolist(), strict=True)}
        assert calls == {one.pid: 15, other.pid: 20}


def test_errors_are_values_that_are_neither_success_nor_pending(traced: Traced) -> None:
    with traced.start() as program:
        for code in (0, 1, -1, 0, 2):
            program(f"fail {code}")
        counts = read_calls(traced.kernel)
        assert dict(zip(counts.keys, counts.errors.tolist(), strict=True)) == {counts.keys[0]: 3}
        assert counts.keys[0].operation == OPERATION["failing"]
        program("fail 0")
        assert by_function(traced.kernel, program.pid, of="errors") == {("failing", False): 0}


def test_bytes_and_directions_are_counted(traced: Traced) -> None:
    with traced.start() as program:
        program("sizes")
        counts = read_calls(traced.kernel)
        found = {
            function_name(key): (calls, size)
            for key, calls, size in zip(
                counts.keys, counts.calls.tolist(), counts.bytes.tolist(), strict=True
            )
        }
    assert found == {
        "sized": (3, 1024),
        "sized32": (1, 300 << 2),
        "copying kind 1": (1, 4096),
        "copying kind 2": (1, 100),
        "copying": (1, 7),
        "copying_area kind 3": (1, 640 * 480),
        "extending": (1, 11 * 7 * 3),
        "filling": (1, 13 * 5 * 2),
        "copying_struct kind 1": (1, 64 * 32 * 2),
        "copying_struct": (1, 0),
        "collective": (4, 4000 + 2000 + 1000),
    }
    assert lost(traced.kernel) == {"unread_bytes": 2}


def test_durations_match_the_callers_clock(traced: Traced) -> None:
    with traced.start() as program:
        exact = np.sort(program("timed 400 20000"))
        counts = read_calls(traced.kernel)
    assert counts.calls.tolist() == [400]
    p50, p95, p99 = counts.histograms.percentiles([50, 95, 99])[0]
    # The caller's clock includes the time of the probes, the measured duration does not. Neither is shorter
    # than the wait itself.
    for measured, percent in ((p50, 50), (p95, 95), (p99, 99)):
        by_caller = int(exact[int(percent / 100 * len(exact) + 0.5) - 1])
        assert measured <= by_caller * 1.008
    assert p50 >= 200_000
    assert int(counts.max_ns[0]) <= exact[-1]
    assert int(counts.max_ns[0]) >= 400_000
    assert int(counts.total_ns[0]) <= exact.sum()
    assert int(counts.total_ns[0]) >= 20 * 20_000 * sum(range(1, 21))


def test_each_read_has_its_own_maximum(traced: Traced) -> None:
    with traced.start() as program:
        program("timed 20 100000")
        assert by_function(traced.kernel, program.pid, of="max_ns")["waiting", False] >= 2_000_000
        (exact,) = program("timed 1 1000")
        assert 1_000 <= by_function(traced.kernel, program.pid, of="max_ns")["waiting", False] <= exact


def test_calls_longer_than_a_histogram_knows_are_clamped(traced: Traced) -> None:
    with traced.start() as program:
        program("hang")
        wait_until(lambda: len(traced.kernel.open_calls()) == 1, "one call open")
        # Such a call lasts minutes. The test does not wait for that, but moves the start of the open call
        # into the past.
        threads = traced.kernel._programs.threads
        (record,) = np.flatnonzero((threads["depth"] != 0) & (threads["tid"] != 0))
        threads["frames"]["start_ns"][record, 0] -= 1000 * 10**9
        program("unhang")
        counts = read_calls(traced.kernel)
        (place,) = [n for n, key in enumerate(counts.keys) if key.operation == OPERATION["hanging"]]
        assert counts.histograms.percentiles([50])[place].tolist() == [HIGHEST_NS]
        assert int(counts.max_ns[place]) > 1000 * 10**9
        assert int(counts.total_ns[place]) == int(counts.max_ns[place])
    assert lost(traced.kernel) == {"clamped": 1}


def test_reads_add_up_while_calls_continue(traced: Traced) -> None:
    with traced.start() as program:
        program.send("threads 4 plain 30000")
        total = 0
        while total < 120_000:
            counts = read_calls(traced.kernel)
            assert counts.calls.tolist() == counts.histograms.totals().tolist()
            total += int(counts.calls.sum())
            if len(counts.keys):
                top = counts.histograms.percentiles([100])
                assert (counts.max_ns <= top[:, 0].astype(np.uint64)).all()
        assert total == 120_000


def test_calls_count_for_the_current_cgroup_of_their_process(traced: Traced) -> None:
    check_moves(traced)


def test_without_reports_of_moves_calls_count_for_the_current_cgroup(
    driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attach, refused = bpf_calls.attach_raw_tracepoint, list[str]()

    def attached(program: int, name: str) -> int:
        if name == "cgroup_attach_task":
            refused.append(name)
            raise OSError(errno.ENOENT, "no such tracepoint")
        return attach(program, name)

    monkeypatch.setattr(probing, "attach_raw_tracepoint", attached)
    kernel = KernelSide(slots=64, threads=64, functions=FUNCTIONS)
    try:
        library = driver.with_name("libtraced.so")
        assert not kernel.attach(str(library), points(library)).failed
        check_moves(Traced(kernel, driver))
        assert refused
    finally:
        kernel.close()


def check_moves(traced: Traced) -> None:
    """Check the counts of a process that is moved between cgroups while it has traced threads."""
    root = next((path for path in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup") if _is_v2(path)), None)
    if root is None:
        pytest.skip("no cgroup v2 hierarchy here")
    groups = [Path(root, f"stalltop-test-{os.getpid()}-{n}") for n in (1, 2)]
    for group in groups:
        group.mkdir()
    try:
        with traced.start() as program:
            expected: dict[int, int] = {}
            for n, group in enumerate((*groups, groups[0]), 1):
                (group / "cgroup.procs").write_text(str(program.pid))
                program(f"call plain {n}")
                program("threads 2 plain 10")
                inode = group.stat().st_ino
                expected[inode] = expected.get(inode, 0) + n + 20
            counts = read_calls(traced.kernel)
            calls = {key.cgroup_id: n for key, n in zip(counts.keys, counts.calls.tolist(), strict=True)}
            assert calls == expected
    finally:
        for group in groups:
            group.rmdir()


def _is_v2(path: str) -> bool:
    return Path(path, "cgroup.controllers").exists()
