"""Tests every cgroup pattern on paths as the runtimes write them."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.probes.tenants.patterns import PATTERNS, Identity, parse, parse_best

A = "a1" * 32
B = "b2" * 32
UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
UID_ = UID.replace("-", "_")
STATIC = "c3" * 16
TASK = "d4" * 16
POD_SLICE = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID_}.slice"
CASES: list[PatternCase]


class PatternCase(NamedTuple):
    pattern: str
    path: str
    id: str
    name: str
    kind: str
    runtime: str
    pod: str = ""
    uid: int | None = None
    below: str = ""
    """The part of the path below the tenant's own cgroup."""


def container(
    pattern: str, path: str, runtime: str, full: str = A, pod: str = "", below: str = ""
) -> PatternCase:
    name = full[:12] if len(full) == 64 else full
    uid = 1000 if "user-1000" in path else None
    return PatternCase(
        pattern,
        path,
        f"{'user:1000/' if uid else ''}{runtime or 'container'}:{full}",
        name,
        "container",
        runtime,
        pod,
        uid,
        below,
    )


CASES = [
    container("Docker, systemd driver", f"/system.slice/docker-{A}.scope", "docker"),
    container(
        "Docker, systemd driver", f"/system.slice/docker-{A}.scope/init.scope", "docker", below="/init.scope"
    ),
    container(
        "Docker, systemd driver",
        f"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{A}.scope",
        "docker",
    ),
    container("Docker, systemd driver", f"/../../system.slice/docker-{A}.scope", "docker"),
    container("Docker, cgroupfs driver", f"/docker/{A}", "docker"),
    container("Docker, cgroupfs driver", f"/docker/{B}/docker/{A}", "docker"),
    container(
        "Docker, cgroupfs driver",
        f"/docker/{A}/system.slice/sshd.service",
        "docker",
        below="/system.slice/sshd.service",
    ),
    container(
        "containerd CRI, systemd driver", f"{POD_SLICE}/cri-containerd-{A}.scope", "containerd", pod=UID
    ),
    container(
        "containerd CRI, systemd driver",
        f"/docker/{B}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID_}.slice/cri-containerd-{A}.scope",
        "containerd",
        pod=UID,
    ),
    container(
        "containerd CRI, prefixed",
        f"/system.slice/containerd.service/kubepods-burstable-pod{UID_}.slice:cri-containerd:{A}",
        "containerd",
        pod=UID,
    ),
    container("nerdctl", f"/system.slice/nerdctl-{A}.scope", "containerd"),
    container("CRI-O", f"{POD_SLICE}/crio-{A}.scope", "cri-o", pod=UID),
    container("CRI-O", f"{POD_SLICE}/crio-{A}.scope/container", "cri-o", pod=UID, below="/container"),
    container("CRI-O", f"/kubepods/besteffort/pod{UID}/crio-{A}", "cri-o", pod=UID),
    container("Podman", f"/machine.slice/libpod-{A}.scope", "podman"),
    container("Podman", f"/machine.slice/libpod-{A}.scope/container", "podman", below="/container"),
    container("Podman", f"/machine.slice/machine-libpod_pod_{B}.slice/libpod-{A}.scope", "podman", pod=B),
    container("Podman", f"/libpod_parent/libpod-{A}", "podman"),
    container(
        "Podman", f"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{A}.scope", "podman"
    ),
    container("Podman", f"/system.slice/web.service/libpod-payload-{A}", "podman"),
    container("ECS", f"/ecs/{TASK}/{A}", "ecs", pod=TASK),
    container("ECS", f"/ecs/{UID}/{A}", "ecs", pod=UID),
    container("ECS", f"/ecs/my-cluster/{TASK}/{A}", "ecs", pod=TASK),
    container(
        "ECS, numbered container", f"/ecs/{TASK}/{TASK}-1234567890", "ecs", f"{TASK}-1234567890", pod=TASK
    ),
    container(
        "ECS, systemd driver", f"/ECSTasks.slice/ECSTasks-{TASK}.slice/docker-{A}.scope", "ecs", pod=TASK
    ),
    container(
        "ECS, systemd driver", f"/ecstasks.slice/ecstasks-{TASK}.slice/docker-{A}.scope", "ecs", pod=TASK
    ),
    container(
        "Kubernetes container, cgroupfs driver", f"/kubepods/burstable/pod{UID}/{A}", "kubernetes", pod=UID
    ),
    container("Kubernetes container, cgroupfs driver", f"/kubepods/pod{UID}/{A}", "kubernetes", pod=UID),
    container(
        "Kubernetes container, cgroupfs driver", f"/kubepods/pod{STATIC}/{A}", "kubernetes", pod=STATIC
    ),
    container("Docker, cgroupfs driver", f"/kubepods/besteffort/pod{UID}/{B}/docker/{A}", "docker", pod=UID),
    container("container under a parent of its own", f"/teams/vision/{A}", ""),
    PatternCase("Kubernetes pod", POD_SLICE, f"kubernetes:{UID}", UID, "pod", "kubernetes", UID),
    PatternCase(
        "Kubernetes pod",
        f"/kubepods.slice/kubepods-pod{UID_}.slice",
        f"kubernetes:{UID}",
        UID,
        "pod",
        "kubernetes",
        UID,
    ),
    PatternCase(
        "Kubernetes pod", f"/kubepods/besteffort/pod{UID}", f"kubernetes:{UID}", UID, "pod", "kubernetes", UID
    ),
    PatternCase(
        "Kubernetes pod",
        f"{POD_SLICE}/crio-conmon-{A}.scope",
        f"kubernetes:{UID}",
        UID,
        "pod",
        "kubernetes",
        UID,
        below=f"/crio-conmon-{A}.scope",
    ),
    container("LXC, Incus", "/lxc/web-1", "lxc", "web-1"),
    container("LXC, Incus", "/lxc/101/ns", "lxc", "101", below="/ns"),
    container("LXC, Incus", "/lxc/monitoring", "lxc", "monitoring"),
    container(
        "LXC, Incus",
        "/lxc.payload.web/system.slice/nginx.service",
        "lxc",
        "web",
        below="/system.slice/nginx.service",
    ),
    container("LXC, Incus", "/lxc.payload.outer/lxc.payload.inner", "lxc", "inner"),
    container("LXC, Incus", "/lxc.payload/web", "lxc", "web"),
    container(
        "systemd-nspawn",
        "/machine.slice/systemd-nspawn@build.service/payload",
        "systemd",
        "build",
        below="/payload",
    ),
    PatternCase(
        "Slurm",
        "/slurm/uid_1000/job_42/step_0/task_1",
        "slurm:job_42/step_0",
        "job 42.0",
        "job",
        "slurm",
        uid=1000,
        below="/task_1",
    ),
    PatternCase("Slurm", "/slurm_node7/uid_5/job_42", "slurm:job_42", "job 42", "job", "slurm", uid=5),
    PatternCase(
        "Slurm",
        "/system.slice/slurmstepd.scope/job_42/step_batch/user/task_special",
        "slurm:job_42/step_batch",
        "job 42.batch",
        "job",
        "slurm",
        below="/user/task_special",
    ),
    PatternCase(
        "Slurm",
        "/system.slice/node7_slurmstepd.scope/job_42/step_extern",
        "slurm:job_42/step_extern",
        "job 42.extern",
        "job",
        "slurm",
    ),
    PatternCase(
        "login session",
        "/user.slice/user-1000.slice/session-3.scope",
        "user:1000/session-3",
        "session 3",
        "session",
        "user",
        uid=1000,
    ),
    PatternCase(
        "user manager",
        "/user.slice/user-1000.slice/user@1000.service/init.scope",
        "user:1000",
        "",
        "session",
        "user",
        uid=1000,
    ),
    PatternCase(
        "user's unit",
        "/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service",
        "user:1000/jupyter.service",
        "jupyter",
        "unit",
        "user",
        uid=1000,
    ),
    PatternCase(
        "user's unit",
        "/user.slice/user-1000.slice/user@1000.service/tmux-spawn-7.scope",
        "user:1000/tmux-spawn-7.scope",
        "tmux-spawn-7.scope",
        "unit",
        "user",
        uid=1000,
    ),
    PatternCase(
        "systemd unit", "/system.slice/ollama.service", "systemd:ollama.service", "ollama", "unit", "systemd"
    ),
    PatternCase(
        "systemd unit",
        "/system.slice/system-worker.slice/worker@gpu0.service",
        "systemd:worker@gpu0.service",
        "worker@gpu0",
        "unit",
        "systemd",
    ),
    PatternCase(
        "systemd unit",
        r"/gpu.slice/my\x2dtrain.service",
        "systemd:my-train.service",
        "my-train",
        "unit",
        "systemd",
    ),
    PatternCase(
        "systemd unit",
        "/system.slice/run-u7.scope",
        "systemd:run-u7.scope",
        "run-u7.scope",
        "unit",
        "systemd",
    ),
    PatternCase(
        "systemd unit",
        f"/machine.slice/libpod-conmon-{A}.scope",
        f"systemd:libpod-conmon-{A}.scope",
        f"libpod-conmon-{A}.scope",
        "unit",
        "systemd",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.pattern}: {case.path[:60]}")
def test_a_path_gives_its_identity(case: PatternCase) -> None:
    found = parse(case.path)
    assert found is not None
    assert found == Identity(
        case.id,
        case.name,
        case.kind,  # type: ignore[arg-type]
        case.runtime,
        case.id.rpartition(":")[2] if case.kind == "container" else "",
        case.pod,
        case.uid,
        case.path.removesuffix(case.below) if case.below else case.path,
    )


def test_every_pattern_has_a_case() -> None:
    assert {pattern.name for pattern in PATTERNS} == {case.pattern for case in CASES}
    for case in CASES:
        row = next(pattern for pattern in PATTERNS if pattern.name == case.pattern)
        assert row.regex.search(case.path), case


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/user.slice",
        "/system.slice",
        "/my-jobs/train",
        f"/docker/{A[:40]}",
        "/lxc.monitor.web",
        "/docker",
    ],
)
def test_other_paths_give_no_identity(path: str) -> None:
    assert parse(path) is None


OWN = "/user.slice/user-1000.slice/user@1000.service"


@pytest.mark.parametrize(
    ("below", "id_", "pod"),
    [
        (f"/cri-containerd-{A}.scope", f"user:1000/containerd:{A}", ""),
        (f"{POD_SLICE}/cri-containerd-{A}.scope", f"user:1000/containerd:{A}", ""),
        (f"/kubepods/pod{UID}/{A}", f"user:1000/container:{A}", ""),
        (f"/user.slice/user-libpod_pod_{B}.slice/libpod-{A}.scope", f"user:1000/podman:{A}", B),
        (f"/ecs/{TASK}/{A}", f"user:1000/container:{A}", ""),
        ("/lxc.payload.web", "user:1000/lxc:web", ""),
        (POD_SLICE, "user:1000", ""),
        (f"/kubepods/pod{UID}", "user:1000", ""),
        ("/slurmstepd.scope/job_5/step_0", "user:1000/slurmstepd.scope", ""),
        ("/slurm/uid_7/job_5", "user:1000", ""),
        ("/anything/else", "user:1000", ""),
    ],
)
def test_a_users_cgroup_cannot_take_anothers_id(below: str, id_: str, pod: str) -> None:
    found = parse(OWN + below)
    assert found is not None
    assert (found.id, found.pod, found.uid) == (id_, pod, 1000)
    roots = parse(f"{OWN.replace('1000', '0')}/docker-{A}.scope")
    assert roots is not None
    assert (roots.id, roots.uid) == (f"docker:{A}", None)  # cgroups of root may have any id


def test_of_several_hierarchies_the_deepest_container_counts() -> None:
    found = parse_best(
        ["/", "/user.slice/user-0.slice/session-1.scope", f"/docker/{A}", f"/docker/{A}/docker/{B}", "/"]
    )
    assert found is not None
    assert found.container_id == B
    assert parse_best(["/", "/process_api"]) is None


@given(st.one_of(st.text(), st.text("/.-_:aklmpoqcdr0123456789", max_size=200)))
def test_any_path_can_be_parsed(path: str) -> None:
    found = parse(path)
    if found is not None:
        assert path.startswith(found.cgroup_path)
        assert found.id.isprintable()
        assert found.name.isprintable()
