"""Tests reading the pods of a node from the kubelet, the runtime, or the log folders."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.demo.grpc_server import GrpcServer, listening_at
from stalltop.demo.kubelet import EVERY_SOCKET, Node
from stalltop.formats.protobuf import encoded
from stalltop.probes.kubelet import cri, pods, pods_api
from stalltop.probes.kubelet.folder import FOLDER, FOLDERS, PODS, is_node
from stalltop.probes.kubelet.pod import Pod, PodContainer
from stalltop.probes.kubelet.pods import PodReader, Pods
from tests.unit.probes.patient import be_patient

A, B = "a1" * 32, "b2" * 32
UID, NEXT = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "1f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
ONE = f"""
[[pods]]
namespace = "research"
name = "trainer-0"
uid = "{UID}"
labels = {{ app = "trainer", "io.kubernetes.pod.name" = "trainer-0" }}
ids = {{ train = "{A}" }}
"""
TRAINER = Pod(UID, "research", "trainer-0", (("app", "trainer"),), (PodContainer("train", A),))
_KUBELET, _PODS, _RUNTIME = EVERY_SOCKET


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


def node(root: Path, text: str, *sockets: str) -> Node:
    (root / "pods.toml").write_text(text)
    return Node(root, root / "pods.toml", sockets)


@pytest.mark.parametrize(("path", "source"), [(_PODS, "the kubelet"), (_RUNTIME, "containerd")])
def test_a_pod_is_read(tmp_path: Path, path: str, source: str) -> None:
    with node(tmp_path, ONE, path):
        found = PodReader(tmp_path).read()
    assert (found.pods, found.source) == ((TRAINER,), source)


@pytest.mark.parametrize("path", [_PODS, _RUNTIME])
def test_an_ended_pod_is_left_out(tmp_path: Path, path: str) -> None:
    reader = PodReader(tmp_path)
    ended = ONE.replace("labels", "over = true\nlabels")
    with node(tmp_path, ended + ONE.replace(UID, NEXT).replace(A, B), path):
        found = reader.read()
    assert found.uids() == {("research", "trainer-0"): NEXT}
    assert [one.id for pod in found.pods for one in pod.containers] == [B]


def test_a_name_of_two_pods_has_no_uid() -> None:
    first, second = Pod("1", "n", "p"), Pod("2", "n", "p")
    assert Pods((first, second, Pod("3", "n", "q"))).uids() == {("n", "q"): "3"}
    assert Pods((first, second, first)).uids() == {}


def test_the_kubelet_is_asked_first_then_the_runtime_then_log_folders(tmp_path: Path) -> None:
    folders(tmp_path, f"research_trainer-0_{UID}")
    reader = PodReader(tmp_path)
    with node(tmp_path, ONE, _PODS, _RUNTIME):
        assert reader.read().source == "the kubelet"
    with node(tmp_path, ONE, _RUNTIME):
        found = reader.read()
        assert (found.source, found.silent) == ("containerd", (("the kubelet", "not there"),))
    assert reader.read().source == "log folders"


def folders(root: Path, *names: str) -> None:
    for name in names:
        (root / pods.LOGS / name).mkdir(parents=True, exist_ok=True)
        (root / FOLDER / PODS / name.rpartition("_")[2]).mkdir(parents=True, exist_ok=True)


def test_pods_are_read_from_log_folders(tmp_path: Path) -> None:
    folders(tmp_path, f"research_trainer-0_{UID}", f"serving_chat_{NEXT}")
    (tmp_path / FOLDER / PODS / NEXT).rmdir()  # this pod was removed, and only its logs remain
    (tmp_path / pods.LINKS).mkdir(parents=True)
    link = tmp_path / pods.LINKS / f"trainer-0_research_train-{A}.log"
    link.symlink_to(f"/var/log/pods/research_trainer-0_{UID}/train/0.log")
    (tmp_path / pods.LINKS / "what is this").write_text("")
    found = PodReader(tmp_path).read()
    assert found.pods == (Pod(UID, "research", "trainer-0", (), (PodContainer("train", A),)),)


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_of_a_kubelet_is_known(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder / PODS / UID).mkdir(parents=True)
    (tmp_path / pods.LOGS / f"research_trainer-0_{UID}").mkdir(parents=True)
    assert PodReader(tmp_path).read().pods == (Pod(UID, "research", "trainer-0"),)
    assert is_node(tmp_path)


def test_a_host_that_is_no_node_has_no_pods(tmp_path: Path) -> None:
    found = PodReader(tmp_path).read()
    assert found.pods == ()
    assert not found.source
    assert not is_node(tmp_path)
    assert len(found.silent) == 2 + len(cri.SOCKETS)


def test_a_runtime_without_pods_is_skipped(tmp_path: Path) -> None:
    with node(tmp_path, "", _RUNTIME), node(tmp_path, ONE, "run/crio/crio.sock"):
        (tmp_path / "pods.toml").write_text(ONE)
        with GrpcServer(tmp_path / _RUNTIME, lambda _: b""):
            found = PodReader(tmp_path).read()
    assert found.source == "CRI-O"
    assert ("containerd", "it runs no pods") in found.silent


@pytest.mark.parametrize("version", pods_api.METHODS)
def test_each_version_of_the_pod_list_is_supported(tmp_path: Path, version: str) -> None:
    answers = Node(tmp_path, tmp_path / "pods.toml")
    (tmp_path / "pods.toml").write_text(ONE)

    def answer(method: str) -> bytes | None:
        return answers.answer(method) if method == version else None

    api = pods_api.PodsApi(tmp_path / "api.sock")
    with GrpcServer(tmp_path / "api.sock", answer):
        assert api.read() == (TRAINER,)
        assert api.read() == (TRAINER,)


def test_an_unchanged_pod_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    original = pods_api._pod

    def decode(message: bytes) -> Pod | None:
        decoded.append(message)
        return original(message)

    monkeypatch.setattr(pods_api, "_pod", decode)
    api = pods_api.PodsApi(tmp_path / _PODS)
    with node(tmp_path, ONE, _PODS):
        assert api.read() == api.read()
        assert len(decoded) == 1
        (tmp_path / "pods.toml").write_text(ONE.replace(A, B))
        assert api.read()[0].containers == (PodContainer("train", B),)
    assert len(decoded) == 2


def test_thousands_of_pods_are_read(tmp_path: Path) -> None:
    many = "".join(ONE.replace("trainer-0", f"t-{n}").replace(UID, f"uid-{n}") for n in range(3_000))
    for path in (_PODS, _RUNTIME):
        with node(tmp_path, many, path):
            assert len(PodReader(tmp_path).read().uids()) == 3_000


@pytest.mark.parametrize("path", [_PODS, _RUNTIME])
def test_a_hanging_source_costs_only_its_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(pods_api, "SECONDS", 0.3)
    monkeypatch.setattr(cri, "SECONDS", 0.3)
    release = False

    def hang(_: str) -> None:
        while not release:
            time.sleep(0.01)

    folders(tmp_path, f"research_trainer-0_{UID}")
    with GrpcServer(tmp_path / path, hang):
        found = PodReader(tmp_path).read()
        release = True
    assert found.source == "log folders"
    assert any("no answer within" in why for _, why in found.silent)


def test_a_pod_as_the_kubelet_encodes_it_is_decoded(tmp_path: Path) -> None:
    # Encoded by hand as generated.proto describes, with fields between that stalltop does not read.
    meta = encoded(
        [
            *((1, b"trainer-0"), (2, b""), (3, b"research"), (4, b""), (5, UID.encode()), (6, b"81"), (7, 0)),
            (8, encoded([(1, 1_700_000_000), (2, 0)])),
            (9, encoded([(1, 1_700_000_100), (2, 0)])),  # deletionTimestamp: it is ending, but still exists
            (11, encoded([(1, b"app"), (2, b"trainer")])),
            (17, encoded([(1, b"kubelet"), (7, encoded([(1, b'{"f:status":{}}')]))])),
        ]
    )
    running = encoded([(2, encoded([(1, encoded([(1, 1_700_000_001), (2, 0)]))]))])
    status = encoded(
        [
            *((1, b"Running"), (2, encoded([(1, b"Ready"), (2, b"True")])), (3, b""), (5, b"10.0.0.1")),
            (
                8,
                encoded(
                    [(1, b"train"), (2, running), (3, b""), (4, 1), (5, 3), (8, f"cri-o://{A}".encode())]
                ),
            ),
            (8, encoded([(1, b"waits"), (2, encoded([(1, encoded([(1, b"PodInitializing")]))])), (8, b"")])),
        ]
    )
    pod = encoded([(1, meta), (2, encoded([(2, encoded([(1, b"train"), (2, b"image")]))])), (3, status)])
    found = pods_api._pod(pod)
    assert found == Pod(
        UID,
        "research",
        "trainer-0",
        (("app", "trainer"),),
        (PodContainer("train", A), PodContainer("waits", "", running=False)),
    )


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_pod_or_refused(message: bytes) -> None:
    with contextlib.suppress(ValueError):
        pods_api._pod(message)


def test_a_socket_without_a_server_is_reported(tmp_path: Path) -> None:
    (tmp_path / _PODS).parent.mkdir(parents=True)
    listening_at(tmp_path / _PODS).close()
    assert ("the kubelet", "Connection refused") in PodReader(tmp_path).read().silent
