"""Runs a short version of the fault-injection suite: chains name real faults with their culprits, and healthy
tenants get no chain."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.faults.stage.controllers import Limits
from bench.faults.stage.network import link_name
from bench.faults.stage.stage import STREAM, Place
from bench.faults.stage.workloads import fill_limit
from stalltop.demo.build import Built
from stalltop.demo.caller import Caller
from stalltop.demo.cgroups import MARK, Cgroups, container_id, container_path, hierarchy
from stalltop.demo.scratch import Scratch
from tests.kernel.harness import wait_until

pytestmark = pytest.mark.timeout(900)  # in seconds: enough for all tries of a test on a busy machine

ROOT = Path(__file__).resolve().parents[3]
CAUSES = ("cpu_contention", "cfs_throttling", "lock_contention")
"""One cause for each kind of culprit: another tenant that has the CPU, a limit, and a process that ends the
victim's waits. ``commands/test_demo.py`` tests disks and ranks."""


def suite(out: Path, *options: str) -> subprocess.Popen[str]:
    """Start the suite in its own process, because the suite replaces NVML by a stand-in for the whole
    process."""
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


@pytest.mark.quiet_machine(
    reason="if another process uses the CPUs or the disk, the diagnosis rightly names it", tries=3
)
def test_faults_are_named_with_their_culprits(tmp_path: Path) -> None:
    options = [word for cause in CAUSES for word in ("--cause", cause)]
    found, said = run(tmp_path / "found.json", *options, "--trials", "1", "--patience", "25")
    assert [trial["cause"] for trial in found["trials"]] == list(CAUSES)
    assert [trial["cause"] for trial in found["trials"] if not right(trial)] == [], said


@pytest.mark.quiet_machine(
    reason="if another process uses the CPUs or the disk, the diagnosis rightly names it", tries=3
)
def test_healthy_tenants_get_no_chain(tmp_path: Path) -> None:
    found, said = run(tmp_path / "found.json", "--trials", "0", "--together", "0", "--healthy", "0.27")
    assert found["trials"] == []
    (healthy,) = found["healthy"]
    assert healthy["seconds"] > 12
    assert len(healthy["events"]) > 2  # two tenants start, and at least one changes
    assert not healthy["alarms"], said


def test_a_memory_limit_filled_by_the_page_cache_causes_no_refaults(built: Built) -> None:
    """Memory stays at its limit, and yet hardly any page is read again.

    Trials with a slow disk rely on this, because repeated reads would look like a lack of memory.
    """
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
            # cgroup v1 and v2 have different files; ``limits.places`` is empty for v2.
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
    process = suite(tmp_path / "out.json", "--cause", "tcp_retransmits", "--trials", "1")
    link = Path(f"/sys/class/net/{link_name(process.pid, 0)}")
    try:
        wait_until(link.exists, deadline=120, what="a trial with its own network namespace")
        assert made_by(process.pid) != []
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    assert made_by(process.pid) == []
    assert not link.exists()


def made_by(pid: int) -> list[str]:
    """Return the cgroups, in all hierarchies, that are marked as made by the process ``pid``."""
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
