"""Tests jobs of a real Slurm: their labels on rows, in metrics and in recordings, and the GPUs that they were
given."""

from __future__ import annotations

import contextlib
import json
import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.kernel.harness import wait_until
from tests.packages.slurm import STAND_IN, USER, jobs
from tests.packages.trees import Tree

pytestmark = pytest.mark.timeout(3600)
RECORDING = "/tmp/recording.stalltop"
CALLS = "start 1 0 cudaMalloc:1:4096 cudaLaunchKernel:10 cudaStreamSynchronize:1 cudaFree:1 ~2000"
SCRIPT = f"""#!/bin/sh
(echo '{CALLS}'; sleep 3600) | {STAND_IN}/caller {STAND_IN}
"""


@contextlib.contextmanager
def stalltop(tree: Tree, *arguments: str, ready: str) -> Iterator[str]:
    """Runs a command of stalltop in the tree; yields the part of its output that matches ``ready``."""
    process = tree.start("stalltop", *arguments)
    try:
        found = wait_until(
            lambda: re.search(ready, process.said()) or process.process.poll() is not None, what=arguments[0]
        )
        assert isinstance(found, re.Match), process.said()
        yield found[0]
    finally:
        process.stop()


def submitted(tree: Tree, name: str, gpus: int) -> str:
    """Submits a job that calls CUDA; returns its number."""
    script = tree.path / "home" / USER / "job.sh"
    script.write_text(SCRIPT)
    command = ["sbatch", "--parsable", f"--job-name={name}", f"--gres=gpu:{gpus}", "--output=/dev/null"]
    return tree.output(*command, f"/home/{USER}/job.sh", user=USER).strip()


def tenant_of(tree: Tree, number: str) -> dict[str, Any]:
    """Returns the tenant of a job that makes calls, as ``stalltop once`` shows it; {} if there is none."""
    window = json.loads(tree.output("stalltop", "once", "--seconds", "2", "--json"))
    assert not window["probes"]["tracing"], window["probes"]
    calling = {row["tenant"] for row in window["operations"] if row["operation"] == "cudaLaunchKernel"}
    for tenant in window["tenants"]:
        if tenant["id"] in calling and re.match(rf"slurm:job_{number}(/|$)", tenant["id"]):
            found: dict[str, Any] = tenant
            return found
    return {}


def test_a_job_has_its_labels_on_rows_in_metrics_and_in_the_recording(cluster: Tree) -> None:
    with (
        stalltop(cluster, "record", "--to", RECORDING, ready="recording to"),
        stalltop(cluster, "metrics", "--listen", "127.0.0.1:0", ready=r"http://\S+/metrics") as url,
    ):
        number = submitted(cluster, "train", 2)
        tenant = wait_until(lambda: tenant_of(cluster, number), what="the row of the job")
        assert tenant["name"] == f"{USER} job {number}.batch train"
        assert tenant["user"] == USER
        assert dict(tenant["labels"]) == {"job": "train", "partition": "gpu", "gpus": "0,1"}
        mapping = cluster.path / "run" / "stalltop" / "gpus"
        assert [(mapping / name).read_text() for name in "01"] == [f"{number}\n"] * 2

        def calls() -> dict[str, dict[str, str]]:
            with urllib.request.urlopen(url) as answer:
                families = text_string_to_metric_families(answer.read().decode())
            return {
                one.name: one.labels
                for family in families
                for one in family.samples
                if one.labels.get("hpc_job") == number
            }

        found = wait_until(lambda: calls() if "stalltop_calls_total" in calls() else {}, what="the metrics")
        assert found["stalltop_calls_total"]["tenant"] == tenant["name"]
        assert found["stalltop_hpc_job_info"] == {
            "hpc_job": number,
            "job_name": "train",
            "partition": "gpu",
            "user": USER,
            "gpus": "0,1",
        }

        cluster.output("scancel", number)
        wait_until(lambda: number not in jobs(cluster), step=0.5, what="the end of the job")
        wait_until(lambda: not (mapping / "0").exists(), what="the epilog")
        assert not (cluster.path / "run" / "stalltop" / "jobs" / number).exists()
    query = f"SELECT name, user, labels FROM containers WHERE tenant LIKE 'slurm:job_{number}/%'"
    (row,) = json.loads(cluster.output("stalltop", "query", RECORDING, query, "--format", "json"))
    assert row["name"] == tenant["name"]
    assert dict(json.loads(row["labels"])) == dict(tenant["labels"])


def test_a_step_of_srun_is_a_tenant_of_its_own_and_the_prolog_says_what_its_environment_does_not(
    cluster: Tree,
) -> None:
    command = f"(echo '{CALLS}'; sleep 3600) | env -i {STAND_IN}/caller {STAND_IN}"
    step = cluster.start("srun", "--job-name=eval", "--gres=gpu:1", "sh", "-c", command, user=USER)
    try:
        with stalltop(cluster, "record", "--to", RECORDING, ready="recording to"):
            (number,) = wait_until(lambda: jobs(cluster), what="the job")
            tenant = wait_until(lambda: tenant_of(cluster, number), what="the row of the step")
            # Slurm 22.05 tells the prolog no name.
            assert tenant["name"] == f"{USER} job {number}.0"
            assert dict(tenant["labels"]) == {"partition": "gpu", "gpus": "0"}
    finally:
        cluster.output("scancel", f"--user={USER}")
        step.stop()
