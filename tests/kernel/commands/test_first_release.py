"""Tests that the first program with a tracer for a host and the present one understand each other."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stalltop.demo.build import Built
from stalltop.demo.tenants import DemoTenants
from stalltop.serving.host.place import connected
from tests.kernel.commands.program import ROOT, started
from tests.kernel.harness import wait_until
from tests.revisions import files_of

FIRST = "be1cf8a9921f8302780268cbb41d391823d04d17"
"""The first revision with a tracer for a host, of 2026-11-27."""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can trace"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the first revision."""
    return files_of(FIRST, tmp_path_factory.mktemp("first"))


@pytest.mark.parametrize("traces", ["the first", "this"])
def test_a_client_of_one_revision_sees_the_calls_that_a_tracer_of_another_one_counts(
    first: Path, built: Built, tmp_path: Path, tracer_socket: Path, traces: str
) -> None:
    tracing, asking = (first, ROOT) if traces == "the first" else (ROOT, first)
    with (
        DemoTenants("trio", built=built) as tenants,
        started(tmp_path / "a", "record", "--to", str(tmp_path / "a.stalltop"), root=tracing) as tracer,
    ):
        link = wait_until(lambda: connected(tracer_socket), what="a tracer")
        assert link is not None
        link.close()
        with started(tmp_path / "b", "once", "--json", "--seconds", "5", root=asking) as client:
            out, err = client.communicate(timeout=100)
            assert client.returncode == 0, err
        assert f"windows of the tracer of this host: PID {tracer.pid}" in err
        document = json.loads(out)
        assert document["probes"]["tracer"]["pid"] == tracer.pid
        calling = {row["pid"] for row in document["operations"] if row["calls"]}
        assert calling & {*tenants.pids}
        assert all(row["calls"] >= 0 and row["p50_ns"] <= row["p99_ns"] for row in document["operations"])
