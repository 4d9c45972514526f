"""Tests names and ids of Slurm jobs, from the environment and the cgroups of their processes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from stalltop.probes.tenants import jobs
from stalltop.probes.tenants import tenants as tenants_module
from stalltop.probes.tenants.jobs import MAPPING_VARIABLE, Job, job_of, prepared_job
from stalltop.probes.tenants.tenants import Tenants
from tests.unit.probes.tenants.fake_host import FakeHost
from tests.unit.repository.checkout import ROOT

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


# What the prolog writes


def prepared(host: FakeHost, number: int = 42, **variables: str) -> None:
    variables = {"SLURM_JOB_ID": str(number), **variables}
    text = "".join(f"{name}={value}\n" for name, value in variables.items())
    host.write(f"run/stalltop/jobs/{number}", text)


def test_the_prolog_says_more_than_the_environment_and_is_believed_first(host: FakeHost) -> None:
    path = f"{SCOPE}/job_42/step_0/user/task_0"
    cgroup = process(
        host, 7, path, SLURM_JOB_ID="42", SLURM_JOB_NAME="train", SLURM_JOB_PARTITION="of my own"
    )
    prepared(host, SLURM_JOB_PARTITION="gpu", SLURM_JOB_GPUS="0,1", SLURM_JOB_UID="1000")
    found = Tenants(host.root).find(7, cgroup)
    assert found.name == "alice job 42.0 train"
    assert found.labels == (("gpus", "0,1"), ("job", "train"), ("partition", "gpu"))


def test_without_an_environment_the_prolog_gives_the_name(host: FakeHost) -> None:
    prepared(host, SLURM_JOB_NAME="train")
    cgroup = process(host, 7, f"{SCOPE}/job_42/step_0/user/task_0")
    assert Tenants(host.root).find(7, cgroup).name == "alice job 42.0 train"


def test_gpus_are_those_of_the_mapping_directory_of_dcgm_exporter(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, numbers in (
        ("0", "41\n42\n"),
        ("1", "420\n"),
        ("10", "42"),
        ("2.1", "42\n"),
        (".lock", "42\n"),
    ):
        host.write(f"run/dcgm-job-map/{name}", numbers)
    cgroup = process(host, 7, f"{SCOPE}/job_42/step_0/user/task_0")
    assert Tenants(host.root).find(7, cgroup).labels == ()
    monkeypatch.setenv(MAPPING_VARIABLE, "/run/dcgm-job-map")
    assert Tenants(host.root).find(7, cgroup).labels == (("gpus", "0,2.1,10"),)


def test_a_process_without_a_cgroup_of_its_job_cannot_take_the_labels_of_another_user(host: FakeHost) -> None:
    unit = "/system.slice/slurmd.service"
    prepared(host, 42, SLURM_JOB_UID="1000", SLURM_JOB_PARTITION="gpu")
    prepared(host, 43, SLURM_JOB_UID="1001", SLURM_JOB_PARTITION="secret")
    tenants = Tenants(host.root)
    for pid, job, labels in ((7, "42", (("partition", "gpu"),)), (8, "43", ())):
        assert tenants.find(pid, process(host, pid, unit, SLURM_JOB_ID=job)).labels == labels


@pytest.mark.parametrize("content", ["", "SLURM_JOB_ID=43\nSLURM_JOB_PARTITION=gpu\n", "x" * (1 << 17)])
def test_malformed_files_of_jobs_are_ignored(host: FakeHost, content: str) -> None:
    host.write("run/stalltop/jobs/42", content)
    assert prepared_job("42", host.root) is None


def test_files_that_are_not_roots_are_ignored(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(host, SLURM_JOB_PARTITION="gpu")
    assert prepared_job("42", host.root) == Job("42", labels=(("partition", "gpu"),))
    if os.geteuid() == 0:
        os.chown(host.root / "run/stalltop/jobs/42", 1000, 1000)
    else:
        monkeypatch.setattr(jobs, "_OWN_UID", 1)
    assert prepared_job("42", host.root) is None


@pytest.mark.parametrize("number", ["", "../42", "4 2"])
def test_a_number_is_never_a_path(host: FakeHost, number: str) -> None:
    assert prepared_job(number, host.root) is None


def scripted(host: FakeHost, script: str, **variables: str) -> None:
    """Runs a script of deploy/slurm with the folders of ``host``."""
    text = (ROOT / "deploy" / "slurm" / script).read_text()
    assert "/run/stalltop/" in text
    text = text.replace("/run/stalltop/", f"{host.root}/run/stalltop/")
    done = subprocess.run(
        ["sh", "-c", text], env={"PATH": os.environ["PATH"], **variables}, capture_output=True, check=True
    )
    assert not done.stderr


def test_prolog_and_epilog_write_and_remove_what_is_read(host: FakeHost) -> None:
    first = {
        "SLURM_JOB_ID": "42",
        "SLURM_JOB_NAME": "two\nlines; $(reboot)",
        "SLURM_JOB_UID": "1000",
        "SLURM_JOB_PARTITION": "gpu",
        "SLURM_JOB_GPUS": "0,1",
        "SLURM_ARRAY_TASK_ID": "3",
    }
    scripted(host, "prolog", **first)
    scripted(host, "prolog", **first)
    scripted(host, "prolog", SLURM_JOB_ID="7", SLURM_JOB_GPUS="1")
    shown = (("array task", "3"), ("gpus", "0,1"), ("job", "two lines; $(reboot)"), ("partition", "gpu"))
    assert prepared_job("42", host.root) == Job("42", "", shown, "1000")
    mapping = host.root / "run" / "stalltop" / "gpus"
    assert (mapping / "1").read_text() == "42\n7\n"
    scripted(host, "epilog", SLURM_JOB_ID="42")
    assert prepared_job("42", host.root) is None
    assert not (mapping / "0").exists()
    assert (mapping / "1").read_text() == "7\n"
    scripted(host, "epilog", SLURM_JOB_ID="7")
    assert [name for name in os.listdir(mapping) if name != ".lock"] == []


@pytest.mark.parametrize("script", ["prolog", "epilog"])
@pytest.mark.parametrize("number", ["", "../../etc/passwd", "1 2"])
def test_prolog_and_epilog_do_nothing_for_what_is_no_job(host: FakeHost, script: str, number: str) -> None:
    before = sorted(host.root.rglob("*"))
    scripted(host, script, SLURM_JOB_ID=number, SLURM_JOB_GPUS="0")
    assert sorted(host.root.rglob("*")) == before
