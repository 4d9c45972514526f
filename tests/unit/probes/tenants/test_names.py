"""Tests container names from the state files of each runtime, and malformed files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stalltop.probes.regular_file import read_regular
from stalltop.probes.tenants import names as tenant_names
from stalltop.probes.tenants.names import NameFiles, Names
from tests.unit.probes.tenants.fake_host import FakeHost

A = "a1" * 32
B = "b2" * 32
UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
PASSWD = "root:x:0:0:root:/root:/bin/sh\nbroken\nalice:x:1000:1000::/home/alice:/bin/sh\n"


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path)


def names(host: FakeHost, pod: str = "", uid: int | None = None) -> Names:
    return NameFiles(host.root).look_up(A, pod, uid)


def test_without_files_there_is_no_name(host: FakeHost) -> None:
    assert names(host, UID, 1000) == Names()


@pytest.mark.parametrize("root", ["var/lib/docker", "var/snap/docker/common/var-lib-docker"])
def test_docker_containers_are_named(host: FakeHost, root: str) -> None:
    host.write(f"{root}/containers/{A}/config.v2.json", {"Name": "/train-a", "Config": {"Labels": None}})
    assert names(host) == Names("train-a")


def test_docker_in_a_linked_folder_is_found(host: FakeHost) -> None:
    host.write(f"data/docker/containers/{A}/config.v2.json", {"Name": "/train-b"})
    (host.root / "var/lib").mkdir(parents=True)
    (host.root / "var/lib/docker").symlink_to("/data/docker")
    assert names(host) == Names("train-b")


def test_docker_with_another_data_root_is_found(host: FakeHost) -> None:
    host.write("etc/docker/daemon.json", {"data-root": "/data/docker"})
    host.write(f"data/docker/containers/{A}/config.v2.json", {"Name": "/train-b"})
    assert names(host) == Names("train-b")


def test_rootless_docker_names_only_its_users_containers(host: FakeHost) -> None:
    host.write("etc/passwd", PASSWD)
    host.write(f"home/alice/.local/share/docker/containers/{A}/config.v2.json", {"Name": "/mine"})
    assert names(host) == Names()
    assert names(host, uid=1000) == Names("mine")


def test_files_of_root_name_no_users_container(host: FakeHost) -> None:
    host.write("etc/passwd", PASSWD)
    host.write(f"var/lib/docker/containers/{A}/config.v2.json", {"Name": "/roots"})
    host.write("var/lib/containers/storage/overlay-containers/containers.json", [{"id": A, "names": ["b"]}])
    host.write(f"var/log/containers/pod_namespace_container-{A}.log", "")
    (host.root / f"var/log/pods/namespace_pod_{UID}").mkdir(parents=True)
    assert names(host, UID).container == "container"
    assert names(host, UID, 1000) == names(host, UID, 1001) == Names()


def test_kubernetes_on_docker_names_pod_and_namespace(host: FakeHost) -> None:
    labels = {
        "io.kubernetes.container.name": "main",
        "io.kubernetes.pod.name": "train-0",
        "io.kubernetes.pod.namespace": "vision",
    }
    host.write(
        f"var/lib/docker/containers/{A}/config.v2.json", {"Name": "/k8s_x", "Config": {"Labels": labels}}
    )
    assert names(host) == Names("main", "train-0", "vision")
    host.write(f"var/lib/docker/containers/{A}/config.v2.json", {"Name": "/k8s_c_p_ns_u-id_0", "Config": 3})
    assert names(host) == Names("c", "p", "ns")


def test_ecs_containers_are_named_by_their_labels(host: FakeHost) -> None:
    labels = {"container-name": "infer", "task-definition-family": "llm", "cluster": "prod"}
    labels = {f"com.amazonaws.ecs.{name}": value for name, value in labels.items()}
    config = {"Labels": labels}
    host.write(f"var/lib/docker/containers/{A}/config.v2.json", {"Name": "/ecs-long-name", "Config": config})
    assert names(host) == Names("infer", "llm", "prod", tuple(sorted(labels.items())))


@pytest.mark.parametrize("state", ["run/containerd", "run/k3s/containerd"])
def test_containerd_containers_are_named(host: FakeHost, state: str) -> None:
    notes = {
        "io.kubernetes.cri.container-name": "main",
        "io.kubernetes.cri.sandbox-name": "train-0",
        "io.kubernetes.cri.sandbox-namespace": "vision",
    }
    host.write(f"{state}/io.containerd.runtime.v2.task/k8s.io/{A}/config.json", {"annotations": notes})
    assert names(host) == Names("main", "train-0", "vision")


def test_nerdctl_containers_are_named(host: FakeHost) -> None:
    host.write(
        f"run/containerd/io.containerd.runtime.v2.task/default/{A}/config.json",
        {"annotations": {"nerdctl/name": "box"}},
    )
    assert names(host) == Names("box")


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (["web"], Names("web")),
        ([f"k8s_main_train-0_vision_{UID}_0"], Names("main", "train-0", "vision")),
        ([], Names()),
        (None, Names()),
        ([7], Names()),
    ],
)
def test_podman_and_cri_o_containers_are_named(host: FakeHost, given: object, found: Names) -> None:
    listed: list[object] = [{"id": B, "names": ["other"]}, 5, {"id": A, "names": given}]
    host.write("var/lib/containers/storage/overlay-containers/containers.json", listed)
    assert names(host) == found


def test_volatile_podman_containers_are_named(host: FakeHost) -> None:
    folder = "var/lib/containers/storage/overlay-containers"
    host.write(f"{folder}/containers.json", [{"id": B, "names": ["other"]}])
    host.write(f"{folder}/volatile-containers.json", [{"id": A, "names": ["passing"]}])
    assert names(host) == Names("passing")


def test_rootless_podman_containers_are_named(host: FakeHost) -> None:
    host.write("etc/passwd", PASSWD)
    host.write(
        "home/alice/.local/share/containers/storage/overlay-containers/containers.json",
        [{"id": A, "names": ["mine"]}],
    )
    assert names(host, uid=1000) == Names("mine")


def test_log_links_of_the_kubelet_name_containers(host: FakeHost) -> None:
    host.write(f"var/log/containers/train-0_vision_main-{A}.log", "")
    assert names(host) == Names("main", "train-0", "vision")


def test_a_pod_is_named_without_a_container(host: FakeHost) -> None:
    host.write(f"var/log/pods/vision_train-0_{UID}/main/0.log", "")
    assert NameFiles(host.root).look_up("", UID) == Names("", "train-0", "vision")


def test_users_are_named(host: FakeHost) -> None:
    host.write("etc/passwd", PASSWD)
    host.write("run/systemd/users/4711", "# private\nNAME=bob\nSTATE=active\n")
    files = NameFiles(host.root)
    assert files.user(0) == "root"
    assert files.user(1000) == "alice"
    assert files.user(4711) == "bob"
    assert files.user(9) == "uid 9"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"3",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"Name": 3, "Config": []}',
        b'{"Name": null}',
    ],
)
def test_malformed_files_give_no_name(host: FakeHost, content: bytes) -> None:
    host.write(f"var/lib/docker/containers/{A}/config.v2.json", content)
    host.write(f"run/containerd/io.containerd.runtime.v2.task/k8s.io/{A}/config.json", content)
    host.write("var/lib/containers/storage/overlay-containers/containers.json", content)
    host.write("etc/docker/daemon.json", content)
    host.write("etc/passwd", content)
    assert names(host, UID, 1000) == Names()
    assert NameFiles(host.root).user(1000) == "uid 1000"


def test_names_are_printable_and_bounded(host: FakeHost) -> None:
    host.write(f"var/lib/docker/containers/{A}/config.v2.json", {"Name": "/a\x1b[31mb\ud800" + "x" * 1000})
    found = names(host).container
    assert found.startswith("a[31mb")
    assert found.isprintable()
    assert len(found) <= 200


def test_only_regular_files_of_bounded_size_are_read(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = host.root / "pipe"
    os.mkfifo(pipe)  # a plain open would wait for a writer forever
    assert read_regular(pipe, 100) is None
    assert read_regular(host.root, 100) is None
    assert read_regular(host.root / "missing", 100) is None
    assert read_regular(Path("/bad\0name"), 100) is None
    file = host.write("file", "12345678")
    assert read_regular(file, 100) == b"12345678"
    assert read_regular(file, 7) is None
    endless = Path("/proc/self/maps")  # stat reports its size as 0
    assert read_regular(endless, 10) is None


def test_a_changed_file_is_read_again(host: FakeHost) -> None:
    files = NameFiles(host.root)
    path = "var/lib/containers/storage/overlay-containers/containers.json"
    host.write(path, [{"id": B, "names": ["other"]}])
    assert files.look_up(A) == Names()
    host.write(path, [{"id": B, "names": ["other"]}, {"id": A, "names": ["new"]}])
    assert files.look_up(A) == Names("new")


def test_the_cache_of_files_is_bounded(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_names, "MAX_BYTES", 1000)
    files = NameFiles(host.root)
    for number in range(20):
        host.write(
            f"var/lib/docker/containers/{number}/config.v2.json",
            {"Name": f"/c{number}", "Rest": "x" * (100 * number)},
        )
        found = files.look_up(str(number))
        assert found == (Names(f"c{number}") if number < 10 else Names())
        kept = [size for (_, _, size), content in files._parsed.values() if content is not None]
        assert sum(kept) <= 1000
