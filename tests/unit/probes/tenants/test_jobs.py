"""Tests names and ids of Slurm jobs, from the environment and the cgroups of their processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from stalltop.probes.tenants import tenants as tenants_module
from stalltop.probes.tenants.jobs import Job, job_of
from stalltop.probes.tenants.tenants import Tenants
from tests.unit.probes.tenants.fake_host import FakeHost

PASSWD = "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n"
SCOPE = "/system.slice/slurmstepd.scope"


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    monkeypatch.setattr(tenants_module, "PATIENCE_SECONDS", 30.0)
    host = FakeHost(tmp_path)
    host.write("etc/passwd", PASSWD)
    return host


def process(host: FakeHost, pid: int, cgroup: str, **environment: str) -> int:
    """Adds a process of user alice in a cgroup; returns the id of the cgroup."""
    host.process(pid, cgroup, uid=1000)
    said = b"\0".join(f"{name}={value}".encode() for name, value in environment.items())
    host.write(f"proc/{pid}/environ", b"PATH=/bin\0" + said + b"\0")
    return host.cgroup(cgroup)


def test_a_job_is_identified_by_its_cgroup_and_named_by_its_environment(host: FakeHost) -> None:
    path = f"{SCOPE}/job_42/step_0/user/task_0"
    cgroup = process(
        host, 7, path, SLURM_JOB_ID="42", SLURM_JOB_NAME="train\x1b[2J", SLURM_JOB_PARTITION="gpu", OTHER="x"
    )
    found = Tenants(host.root).find(7, cgroup)
    assert (found.id, found.name, found.user) == ("slurm:job_42/step_0", "alice job 42.0 train[2J", "alice")
    assert found.labels == (("job", "train[2J"), ("partition", "gpu"))


def test_the_name_of_another_job_is_ignored(host: FakeHost) -> None:
    cgroup = process(host, 7, f"{SCOPE}/job_42/step_0/user/task_0", SLURM_JOB_ID="4", SLURM_JOB_NAME="mine")
    found = Tenants(host.root).find(7, cgroup)
    assert (found.name, found.labels) == ("alice job 42.0", ())


@pytest.mark.parametrize("unit", ["/system.slice/slurmd.service", SCOPE])
def test_jobs_without_cgroups_are_separated_by_their_environment(host: FakeHost, unit: str) -> None:
    tenants = Tenants(host.root)
    for pid, job in ((7, "42"), (8, "43")):
        cgroup = process(host, pid, unit, SLURM_JOB_ID=job, SLURM_STEP_ID="1", SLURM_JOB_NAME="sweep")
        found = tenants.find(pid, cgroup)
        assert (found.id, found.name) == (f"slurm:job_{job}/step_1", f"alice job {job}.1 sweep")
        assert (found.kind, found.runtime, found.user) == ("job", "slurm", "alice")
    host.process(9, unit)
    assert tenants.find(9, cgroup).kind == "unit"  # the Slurm daemon itself


@pytest.mark.parametrize(
    ("content", "job"),
    [
        (b"", None),
        (b"SLURM_JOB_ID=\0", None),
        (b"SLURM_JOB_ID=4/../2\0", None),
        (b"SLURM_JOB_ID=42\0SLURM_STEP_ID=batch\0", Job("42")),
        (b"SLURM_JOB_ID", None),
        (b"X=" + b"y" * (1 << 20) + b"\0SLURM_JOB_ID=42\0", None),
        (
            b"SLURM_JOB_ID=42\0SLURM_JOB_NAME=\xff\xfe" + b"n" * 5_000,
            Job("42", "", (("job", "��" + "n" * 125 + "…"),)),
        ),
    ],
    ids=["empty", "none", "a path", "batch", "no value", "too long", "no text"],
)
def test_malformed_environments_give_no_job(host: FakeHost, content: bytes, job: Job | None) -> None:
    host.write("proc/7/environ", content)
    assert job_of(7, host.root) == job


def test_an_ended_process_has_no_job(host: FakeHost) -> None:
    assert job_of(7, host.root) is None
