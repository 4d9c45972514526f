"""A short version of the fault-injection suite: real faults are named, with who is to blame, and nothing is
said of healthy tenants."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.faults.controllers import Limits
from bench.faults.stage import STREAM, Place
from bench.faults.workloads import fill_limit
from stalltop.demo.build import Built
from stalltop.demo.caller import Caller
from stalltop.demo.cgroups import MARK, Cgroups, container_id, container_path, hierarchy
from stalltop.demo.scratch import Scratch
from tests.kernel.harness import wait_until

pytestmark = pytest.mark.timeout(900)  # a busy machine may need every attempt

ROOT = Path(__file__).resolve().parent.parent.parent
CAUSES = ("cpu_contention", "cfs_throttling", "lock_contention", "loader_disk", "nccl_straggler")
"""Time that others take, that a limit takes, that who wakes takes, along a chain, and of ranks."""
ATTEMPTS = 3
"""The machine may be busy with something else: then that is to blame, and the diagnosis may say so."""
HEALTHY_ATTEMPTS = 5
"""The same, for what is right only where nothing at all is said."""


def suite(out: Path, *options: str) -> subprocess.Popen[str]:
    """The suite in a process of its own: it puts a stand-in device in place of NVML."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "bench", "faults", "--out", str(out), *options],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(out: Path, *options: str) -> tuple[dict[str, Any], str]:
    process = suite(out, *options)
    try:
        said, _ = process.communicate(timeout=600)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, said
    found: dict[str, Any] = json.loads(out.read_text())
    return found, said


def right(trial: dict[str, Any]) -> bool:
    return bool(trial["found"] == trial["cause"] and trial["culprit_right"] and not trial["open_before"])


def test_faults_are_named_with_who_is_to_blame(tmp_path: Path) -> None:
    missed: list[str] = list(CAUSES)
    told = ""
    for attempt in range(ATTEMPTS):
        options = [word for cause in missed for word in ("--cause", cause)]
        found, said = run(
            tmp_path / f"{attempt}.json",
            *options,
            "--trials",
            "1",
            "--patience",
            "25",
            "--seed",
            str(attempt),
        )
        told += said
        assert [trial["cause"] for trial in found["trials"]] == missed
        missed = [trial["cause"] for trial in found["trials"] if not right(trial)]
        if not missed:
            break
    assert not missed, told


def test_nothing_is_said_of_healthy_tenants(tmp_path: Path) -> None:
    told = ""
    for attempt in range(HEALTHY_ATTEMPTS):
        found, said = run(
            tmp_path / f"{attempt}.json",
            "--trials",
            "0",
            "--together",
            "0",
            "--healthy",
            "0.33",
            "--seed",
            str(attempt),
        )
        told += said
        assert found["trials"] == []
        (healthy,) = found["healthy"]
        assert healthy["seconds"] > 15
        assert len(healthy["events"]) > 2  # two tenants at the start, and then something that happened
        if not healthy["alarms"]:
            break
    else:
        raise AssertionError(told)


def test_a_limit_that_page_cache_fills_is_no_fault(built: Built) -> None:
    """The control of trials with a slow disk: memory is at its limit all the time, and nothing read again."""
    scratch = Scratch()
    (scratch.path / STREAM).write_bytes(b"")
    os.truncate(scratch.path / STREAM, 1 << 36)
    identity = container_id()
    path = container_path("docker", identity)
    with Cgroups() as cgroups:
        cgroup = cgroups.make(path)
        limits = Limits(path, cgroup, ("memory",))
        try:
            item = fill_limit(Place("full", identity, cgroup, limits))
            # v1 and v2 name it differently; the first file is there where this host has the controller.
            folder = next(iter(limits.places), cgroup)
            used, limit = (
                folder / name
                for name in (
                    ("memory.usage_in_bytes", "memory.limit_in_bytes")
                    if limits.places
                    else ("memory.current", "memory.max")
                )
            )
            size = int(limit.read_text())
            with Caller(built, cgroup=(cgroup, *limits.places), files=scratch.path) as caller:
                caller.run(f"{item} ~500", cycles=2 * size // 262_144)
                wait_until(lambda: int(used.read_text()) >= 0.95 * size, what="a full limit")
                caller.run(f"{item} ~500", cycles=size // 262_144)
                assert int(used.read_text()) >= 0.9 * size
                stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
                assert int(stat.get("workingset_refault_file", 0)) * 4096 < 0.05 * size
        finally:
            limits.close()
            scratch.close()


def test_an_interrupted_suite_leaves_nothing_behind(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    process = suite(out, "--cause", "cfs_throttling", "--cause", "tcp_retransmits", "--trials", "1")
    try:
        # In the second trial: a network namespace and a link, too.
        wait_until(lambda: out.exists() and made_by(process.pid) != [], deadline=120, what="the second trial")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    assert made_by(process.pid) == []


def made_by(pid: int) -> list[str]:
    """Cgroups of any hierarchy that carry the mark of this process."""
    roots = {hierarchy(), *Path("/sys/fs/cgroup").glob("*")}
    found = []
    for root in roots:
        for folder, _, _ in os.walk(root):
            try:
                mark = os.getxattr(folder, MARK).decode().split()
            except OSError:
                continue
            if mark[:2] == ["own", str(pid)]:
                found.append(folder)
    return found
