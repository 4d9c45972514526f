"""Tests that the fleet's demo traces hosts of their own cgroups and clocks, whose ranks run one job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import stalltop
from stalltop.cli.fleet.demo import CLOCKS_AHEAD
from stalltop.demo.cgroups import hierarchy

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can trace")

HOSTS = 3


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """Returns what the fleet says after the demo has run for some seconds, but before it injects a fault."""
    command = ["fleet", "demo", "--hosts", "2", "--traced", str(HOSTS), "--seconds", "9", "--json"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "stalltop", *command],
        env={**os.environ, "PYTHONPATH": str(Path(stalltop.__file__).parents[1])},
        capture_output=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_host_counts_the_calls_of_its_own_tenants(told: dict[str, Any]) -> None:
    traced = [host for host in told["hosts"] if host["rack"] == "traced"]
    assert len(traced) == HOSTS
    for host in traced:
        assert (host["state"], host["summary"]["simulated"]) == ("live", False)
        assert host["calls_per_s"] > 0
        assert host["summary"]["lost_calls"] == 0
        names = {tenant["name"] for tenant in host["summary"]["tenants"]}
        assert names == {"llm-train", "embed-serve"}


def test_the_ranks_of_all_hosts_are_one_job_on_one_clock(told: dict[str, Any]) -> None:
    (job,) = (job for job in told["jobs"] if job["tenant"] == "llm-train")
    assert (job["size"], [rank["rank"] for rank in job["ranks"]]) == (HOSTS, list(range(HOSTS)))
    assert [rank["host"] for rank in job["ranks"]] == [f"traced-{number + 1}" for number in range(HOSTS)]
    assert len(job["nccl_hashes"].split()) == 2
    assert max(CLOCKS_AHEAD[:HOSTS]) - min(CLOCKS_AHEAD[:HOSTS]) > 1
    for rank in job["ranks"]:
        assert rank["entered"] > 0
        assert abs(rank["late_seconds"]) < 0.25


def test_nothing_is_left(told: dict[str, Any]) -> None:
    assert told["jobs"]
    assert not list(hierarchy().glob("stalltop-*-host-*"))
