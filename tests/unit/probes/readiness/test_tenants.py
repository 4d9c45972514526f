"""Tests findings about the sources of names, pods and allocations."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.demo.grpc_server import listening_at
from stalltop.demo.kubelet import EVERY_SOCKET, Node
from stalltop.model.finding import Finding
from stalltop.probes.kubelet.folder import FOLDER, SOCKET
from stalltop.probes.kubelet.node_labels import FILE, node_labels, sharing
from stalltop.probes.readiness.surroundings import Surroundings, this_host
from stalltop.probes.readiness.tenants import allocations, pods, runtimes
from stalltop.probes.tenants import container_sockets
from tests.unit.probes.patient import be_patient
from tests.unit.probes.tenants.fake_host import FakeHost

POD = """
[[pods]]
namespace = "research"
name = "trainer-0"
uid = "uid-1"
[pods.containers.train]
"nvidia.com/gpu.shared" = ["GPU-0::1"]
"""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    host = FakeHost(tmp_path)
    host.write("pods.toml", POD)
    return host


def surroundings(host: FakeHost) -> Surroundings:
    return replace(this_host(), host_root=host.root)


def node(host: FakeHost, *sockets: str) -> Node:
    host.write("var/lib/kubelet/pods/uid-1/x", "")
    return Node(host.root, host.root / "pods.toml", sockets)


def test_a_host_without_a_kubelet_passes(host: FakeHost) -> None:
    assert pods(surroundings(host)) == Finding("pods", "ok", "no kubelet on this host")
    assert allocations(surroundings(host)).verdict == "ok"


@pytest.mark.parametrize("kind", ["nobody listens", "a plain file", "a link to nowhere"])
def test_a_kubelet_that_does_not_answer_is_reported(host: FakeHost, kind: str) -> None:
    path = host.write(f"{FOLDER}/{SOCKET}", "")
    if kind != "a plain file":
        path.unlink()
    if kind == "nobody listens":
        listening_at(path).close()
    elif kind == "a link to nowhere":
        path.symlink_to("nowhere")
    for found in (pods(surroundings(host)), allocations(surroundings(host))):
        assert (found.verdict, bool(found.remedy)) == ("warn", True)


def test_a_missing_host_root_is_reported(host: FakeHost) -> None:
    found = runtimes(replace(surroundings(host), host_root=host.root / "nowhere"))
    assert (found.verdict, bool(found.remedy)) == ("warn", True)
    assert "STALLTOP_HOST_ROOT" in found.seen
    assert runtimes(replace(surroundings(host), host_root=host.root)).verdict == "ok"


def test_the_source_of_the_pods_is_named(host: FakeHost) -> None:
    with node(host, EVERY_SOCKET[1]):
        assert pods(surroundings(host)).seen == "1, listed by the kubelet"
    with node(host, EVERY_SOCKET[2]):
        listening_at(host.root / EVERY_SOCKET[1]).close()
        assert pods(surroundings(host)).seen == "1, listed by containerd (the kubelet: Connection refused)"
    found = pods(surroundings(host))
    assert (found.verdict, bool(found.remedy)) == ("warn", True)
    assert "containerd: Connection refused" not in found.seen  # the stand-in removes its socket when it ends
    host.write("var/log/pods/research_trainer-0_uid-1/x", "")
    assert pods(surroundings(host)).verdict == "ok"


def test_sharing_labels_of_the_node_are_shown(host: FakeHost) -> None:
    labels = "nvidia.com/gpu.replicas=4\nnvidia.com/gpu.sharing-strategy=time-slicing\nother=1\nbroken\n"
    host.write(FILE, labels)
    assert node_labels(host.root) == {"gpu.replicas": "4", "gpu.sharing-strategy": "time-slicing"}
    with node(host, EVERY_SOCKET[0]):
        told = allocations(surroundings(host)).seen
    assert told == (
        "kubelet: 1 GPUs or parts of them given to 1 pod; "
        "labels of the node: time-slicing, 4 replicas of each"
    )


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({}, ""),
        ({"gpu.sharing-strategy": "none", "gpu.replicas": "1"}, "not shared"),
        ({"gpu.sharing-strategy": "mps"}, "mps"),
        ({"mig.capable": "true", "mig.strategy": "mixed"}, "MIG strategy mixed"),
        ({"mig.capable": "false", "mig.strategy": "single"}, ""),
    ],
)
def test_labels_become_text(labels: dict[str, str], said: str) -> None:
    assert sharing(labels) == said


def test_a_docker_with_hidden_files_is_asked(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening_at(host.write("run/x", "").parent / "docker.sock") as listening:

        def answer() -> None:
            connected, _ = listening.accept()
            with connected:
                connected.recv(1 << 16)
                connected.sendall(b'HTTP/1.0 200 OK\r\n\r\n{"Version": "27"}')

        threading.Thread(target=answer, daemon=True).start()
        assert runtimes(surroundings(host)) == Finding("containers", "ok", "Docker")
        monkeypatch.setattr(container_sockets, "SECONDS", 0.2)
        found = runtimes(surroundings(host))
        assert found.verdict == "warn"
        assert "Docker (its socket: no answer within 0.2 s)" in found.seen
