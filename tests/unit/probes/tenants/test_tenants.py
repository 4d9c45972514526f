"""Tests the tenant of a call on fake hosts of every cgroup layout, before and after processes end."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stalltop.model.tenant import Tenant
from stalltop.probes.tenants import tenants as tenants_module
from stalltop.probes.tenants.names import NameFiles, Names
from stalltop.probes.tenants.tenants import NAME_TRIES, Tenants, process_name, start_time, user_id
from tests.manual_clock import ManualClock
from tests.unit.probes.tenants.fake_host import FakeHost

A = "a1" * 32
B = "b2" * 32
UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
PASSWD = "root:x:0:0:root:/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    # Look-ups get 30 s, so that even a slow machine shows the available name and not a short id.
    monkeypatch.setattr(tenants_module, "PATIENCE_SECONDS", 30.0)


def test_a_container_is_found_by_cgroup_id(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.write(f"var/lib/docker/containers/{A}/config.v2.json", {"Name": "/train-a"})
    path = f"/system.slice/docker-{A}.scope"
    inner = host.cgroup(path + "/init")
    host.process(7, path + "/init")
    found = Tenants(tmp_path).find(7, inner)
    assert found == Tenant(
        id=f"docker:{A}",
        name="train-a",
        kind="container",
        runtime="docker",
        container_id=A,
        container="train-a",
        cgroup_id=host.cgroup(path),  # the container's cgroup, not the one below it
        cgroup_path=path,
    )


def test_pods_are_named(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.write(f"var/log/containers/train-0_vision_main-{A}.log", "")
    host.write(f"var/log/pods/vision_train-1_{UID}/main/0.log", "")
    slice_ = f"/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice"
    tenants = Tenants(tmp_path)
    named = tenants.find(7, host.cgroup(f"{slice_}/cri-containerd-{A}.scope"))
    assert (named.name, named.pod, named.namespace) == ("train-0/main", "train-0", "vision")
    by_pod = tenants.find(8, host.cgroup(f"{slice_}/cri-containerd-{B}.scope"))
    assert (by_pod.name, by_pod.pod, by_pod.namespace) == (f"train-1/{B[:12]}", "train-1", "vision")
    pod = tenants.find(9, host.cgroup(slice_))
    assert (pod.id, pod.kind, pod.name) == (f"kubernetes:{UID}", "pod", "train-1")
    assert [one.pod_uid for one in (named, by_pod, pod)] == [UID] * 3
    assert [one.container for one in (named, by_pod, pod)] == ["main", "", ""]


@pytest.mark.parametrize("layout", ["hybrid", "legacy"])
def test_a_container_is_found_by_its_process_if_the_cgroup_id_is_useless(tmp_path: Path, layout: str) -> None:
    host = FakeHost(tmp_path, layout)
    host.process(7, f"9:name=systemd:/user.slice/user-0.slice/session-1.scope\n4:memory:/docker/{A}\n0::/\n")
    host.process(8, f"4:memory:/docker/{B}\n3:cpu:/\n")
    tenants = Tenants(tmp_path)
    found = tenants.find(7, 1)
    assert (found.id, found.cgroup_id, found.cgroup_path) == (f"docker:{A}", 0, f"/docker/{A}")
    assert tenants.find(8, 1).id == f"docker:{B}"
    host.end(7)
    tenants.refresh()
    assert tenants.find(7, 1) == found


def test_a_v2_unit_does_not_hide_a_v1_container(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "hybrid")
    unit = host.cgroup("/system.slice/dockerd.service")
    host.process(7, f"4:memory:/docker/{A}\n0::/system.slice/dockerd.service\n")
    assert Tenants(tmp_path).find(7, unit).id == f"docker:{A}"


def test_unknown_v1_paths_do_not_make_a_tenant(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "hybrid")
    host.process(7, "4:memory:/manager/12ab\n0::/\n", comm="train")
    assert Tenants(tmp_path).find(7, 1).id == "process:0/train"


@pytest.mark.parametrize(
    ("path", "uid", "id_", "name", "kind"),
    [
        ("/system.slice/ollama.service", 0, "systemd:ollama.service", "ollama", "unit"),
        (
            "/user.slice/user-1000.slice/session-3.scope",
            1000,
            "user:1000/session-3",
            "alice session 3",
            "session",
        ),
        ("/user.slice/user-0.slice/session-1.scope", 0, "user:0/session-1", "root session 1", "session"),
        ("/user.slice/user-1000.slice/user@1000.service/init.scope", 1000, "user:1000", "alice", "session"),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/jupyter.service",
            1000,
            "user:1000/jupyter.service",
            "alice jupyter",
            "unit",
        ),
        ("/slurm/uid_1000/job_42/step_0", 1000, "slurm:job_42/step_0", "alice job 42.0", "job"),
        (
            "/system.slice/slurmstepd.scope/job_42/step_0",
            1000,
            "slurm:job_42/step_0",
            "alice job 42.0",
            "job",
        ),
        ("/lxc.payload.web", 0, "lxc:web", "web", "container"),
        ("/", 0, "process:0/train", "train", "process"),
        ("/", 1000, "process:1000/train", "alice train", "process"),
        ("/", 77, "process:77/train", "uid 77 train", "process"),
    ],
)
def test_tenants_without_a_container_are_named(
    tmp_path: Path, path: str, uid: int, id_: str, name: str, kind: str
) -> None:
    host = FakeHost(tmp_path)
    host.write("etc/passwd", PASSWD)
    host.process(7, path, comm="train", uid=uid)
    cgroup = host.cgroup(path) if path != "/" else 1
    found = Tenants(tmp_path).find(7, cgroup)
    assert (found.id, found.name, found.kind) == (id_, name, kind)
    assert Tenants(tmp_path).find(7, 0) == found  # 0: the process is known only from the driver


def test_an_unknown_cgroup_is_a_tenant_of_its_own(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    cgroup = host.cgroup("/my-jobs/train-a")
    host.process(7, "/my-jobs/train-a")
    found = Tenants(tmp_path).find(7, cgroup)
    assert (found.id, found.name, found.kind) == (f"cgroup:{cgroup}", "train-a", "unit")
    assert found.cgroup_path == "/my-jobs/train-a"
    assert Tenants(tmp_path).find(7, 0).id == found.id


def test_names_outlive_processes_and_cgroups(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    path = f"/docker/{A}"
    cgroup = host.cgroup(path)
    tenants = Tenants(tmp_path)
    shutil.rmtree(host.point / "docker")
    tenants.refresh()
    found = tenants.find(7, cgroup)  # neither the process nor the cgroup exists any more
    assert (found.id, found.cgroup_id, found.cgroup_path) == (f"docker:{A}", cgroup, path)
    tenants.forget(7)
    tenants.forget(7)
    assert tenants.find(8, cgroup) == found


def test_a_new_cgroup_is_found_without_its_process(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    tenants = Tenants(tmp_path)
    assert tenants.find(7, host.cgroup(f"/docker/{A}")).id == f"docker:{A}"


def test_an_unknown_ended_process_has_a_placeholder_tenant(tmp_path: Path) -> None:
    tenants = Tenants(FakeHost(tmp_path).root)
    gone = tenants.find(7, 1 << 40)
    assert (gone.id, gone.name) == (f"cgroup:{1 << 40}", f"cgroup {1 << 40}")
    assert tenants.find(8, 1) is tenants.find(9, 0)
    assert tenants.find(8, 1).name == "ended processes"


def test_a_name_that_appears_later_is_used(tmp_path: Path, clock: ManualClock) -> None:
    host = FakeHost(tmp_path)
    cgroup = host.cgroup(f"/docker/{A}")
    tenants = Tenants(tmp_path, clock)
    assert tenants.find(7, cgroup).name == A[:12]
    host.write(f"var/lib/docker/containers/{A}/config.v2.json", {"Name": "/late"})
    tenants.refresh()
    assert tenants.find(7, cgroup).name == A[:12]  # names are not looked up at every refresh
    clock.now += 1.1
    tenants.refresh()
    assert tenants.find(7, cgroup).name == "late"
    assert tenants.find(7, cgroup).id == f"docker:{A}"


def test_a_name_that_never_appears_is_given_up(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    def look_up(self: NameFiles, container_id: str, pod_uid: str = "", uid: int | None = None) -> Names:
        looks.append(container_id)
        raise RuntimeError("a file that nobody thought of")

    monkeypatch.setattr(NameFiles, "look_up", look_up)
    host = FakeHost(tmp_path)
    tenants = Tenants(tmp_path, clock)
    cgroup = host.cgroup(f"/docker/{A}")
    for _ in range(100):
        clock.now += 10
        tenants.refresh()
        assert tenants.find(7, cgroup).name == A[:12]
    assert len(looks) == NAME_TRIES


def test_the_name_of_a_container_that_has_ended_is_not_looked_up_again(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    def look_up(self: NameFiles, container_id: str, pod_uid: str = "", uid: int | None = None) -> Names:
        looks.append(container_id)
        return Names("")

    monkeypatch.setattr(NameFiles, "look_up", look_up)
    host = FakeHost(tmp_path)
    tenants = Tenants(tmp_path, clock)
    tenants.find(7, host.cgroup(f"/docker/{A}"))
    tenants.find(8, host.cgroup(f"/docker/{B}"))
    tenants.forget(7)
    for _ in range(100):
        clock.now += 10
        tenants.refresh()
    assert (looks.count(A), looks.count(B)) == (1, NAME_TRIES)
    tenants.close()


def test_cgroups_without_a_known_process_are_forgotten_when_they_are_removed(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants_module, "MAX_TENANTS", 4)
    host = FakeHost(tmp_path)
    tenants = Tenants(tmp_path, clock)
    cgroups = [host.cgroup(f"/docker/{number:064x}") for number in range(40)]
    tenants.refresh()
    for number, cgroup in enumerate(cgroups):
        assert tenants.find(0, cgroup).id == f"docker:{number:064x}"
        (host.root / f"sys/fs/cgroup/docker/{number:064x}").rmdir()
        clock.now += 10
        tenants.refresh()
    assert len(tenants._tenants) <= 5
    assert len(tenants._owners.get(0, {})) <= 1
    tenants.close()


def test_a_hanging_lookup_delays_nobody(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_is_back = threading.Event()

    def look_up(self: NameFiles, container_id: str, pod_uid: str = "", uid: int | None = None) -> Names:
        server_is_back.wait(60)
        return Names(f"name-{container_id[0]}")

    monkeypatch.setattr(NameFiles, "look_up", look_up)
    monkeypatch.setattr(tenants_module, "PATIENCE_SECONDS", 0.01)
    host = FakeHost(tmp_path)
    tenants = Tenants(tmp_path, clock)
    a, b = host.cgroup(f"/docker/{A}"), host.cgroup(f"/docker/{B}")
    assert [tenants.find(7, a).name, tenants.find(8, b).name] == [A[:12], B[:12]]
    for _ in range(20):  # more than NAME_TRIES; a look-up that still hangs is no failed try
        clock.now += 60
        tenants.refresh()
    server_is_back.set()
    monkeypatch.setattr(tenants_module, "PATIENCE_SECONDS", 30.0)
    deadline = time.monotonic() + 30
    while tenants.find(8, b).name != "name-b" or tenants.find(7, a).name != "name-a":
        assert time.monotonic() < deadline
        time.sleep(0.01)
        clock.now += 60
        tenants.refresh()
    tenants.close()


def test_a_process_that_changes_name_or_cgroup_is_read_again(tmp_path: Path, clock: ManualClock) -> None:
    host = FakeHost(tmp_path, "hybrid")
    tenants = Tenants(tmp_path, clock)
    host.process(7, "4:memory:/\n0::/\n", comm="sh")
    host.process(8, "4:memory:/\n0::/\n", comm="sh")
    assert tenants.find(7, 1).name == tenants.find(8, 1).name == "sh"
    host.process(7, f"4:memory:/docker/{A}\n0::/\n", comm="train")
    host.process(8, "4:memory:/\n0::/\n", comm="other", start=999)  # the PID was reused
    tenants.refresh()
    assert tenants.find(7, 1).name == "sh"
    clock.now += 6
    tenants.refresh()
    assert tenants.find(7, 1).id == f"docker:{A}"
    assert tenants.find(8, 1).name == "sh"
    tenants.forget(8)
    assert tenants.find(8, 1).name == "other"


def test_processes_without_a_cgroup_id_are_forgotten_when_they_end(
    tmp_path: Path, clock: ManualClock
) -> None:
    host = FakeHost(tmp_path)
    tenants = Tenants(tmp_path, clock)
    for pid in range(100, 200):
        host.process(pid, "/")
        tenants.find(pid, 0)
    for pid in range(100, 190):
        host.end(pid)
    clock.now += 6
    tenants.refresh()
    assert len(tenants._owners) == 10


def test_a_reused_pid_is_another_process(tmp_path: Path, clock: ManualClock) -> None:
    host = FakeHost(tmp_path)
    tenants = Tenants(tmp_path, clock)
    host.process(7, f"/docker/{A}", start=100)
    host.cgroup(f"/docker/{A}")
    assert tenants.find(7, 0).id == f"docker:{A}"
    host.process(7, f"/docker/{B}", start=999)
    clock.now += 6
    tenants.refresh()
    assert tenants.find(7, 0).id == f"docker:{B}"


def test_the_number_of_tenants_is_bounded(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants_module, "MAX_TENANTS", 10)
    host = FakeHost(tmp_path)
    tenants = Tenants(tmp_path, clock)
    kept = tenants.find(7, host.cgroup(f"/docker/{A}"))
    for pid in range(100, 200):
        tenants.find(pid, (1 << 40) + pid)
        tenants.forget(pid)
    clock.now += 6
    tenants.refresh()
    assert list(tenants._tenants.values()) == [kept]
    assert set(tenants._nameless) <= {kept.id}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(
    lines=st.one_of(st.binary(max_size=300), st.text("0:/docker\n.-abc", max_size=100).map(str.encode)),
    comm=st.binary(max_size=20),
    stat=st.binary(max_size=60),
    status=st.one_of(st.binary(max_size=40), st.just(b"Uid:\n"), st.just(b"Uid:\tx\n")),
    cgroup_id=st.integers(0, 2**64 - 1),
)
def test_any_content_of_proc_gives_a_tenant(
    tmp_path: Path, lines: bytes, comm: bytes, stat: bytes, status: bytes, cgroup_id: int
) -> None:
    host = FakeHost(tmp_path)
    for name, content in {"cgroup": lines, "comm": comm, "stat": stat, "status": status}.items():
        host.write(f"proc/7/{name}", content)
    found = Tenants(tmp_path).find(7, cgroup_id)
    assert found.id
    assert found.name.isprintable()
    assert found.id.isprintable()


def test_name_start_time_and_user_are_read_from_proc(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.process(7, comm="a) S 1 (b", uid=5, start=4711)
    assert process_name(7, tmp_path) == "a) S 1 (b"
    assert start_time(7, tmp_path) == "4711"
    assert user_id(7, tmp_path) == 5
    assert process_name(os.getpid()) == "stalltop"  # the name for this process, whichever program runs it
    assert process_name(8, tmp_path) == start_time(8, tmp_path) == ""
    assert user_id(8, tmp_path) is None
