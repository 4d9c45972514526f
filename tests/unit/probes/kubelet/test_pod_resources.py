"""Tests the kubelet's PodResources API over a real socket: allocations, and every kind of failure."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.demo.grpc_server import listening_at
from stalltop.demo.kubelet import EVERY_SOCKET, Node
from stalltop.formats.protobuf import encoded
from stalltop.model.devices.allocation import Allocation
from stalltop.probes.kubelet import pod_resources
from stalltop.probes.kubelet.call import UNIMPLEMENTED, KubeletCallError, call
from stalltop.probes.kubelet.pod_resources import LIST, PodResources, read
from stalltop.probes.kubelet.protobuf import fields, messages, text, texts
from stalltop.probes.readiness.surroundings import this_host
from stalltop.probes.readiness.tenants import allocations
from tests.unit.probes.patient import be_patient

ONE = """
[[pods]]
namespace = "research"
name = "trainer-0"
[pods.containers.train]
"nvidia.com/gpu" = ["GPU-aa", "GPU-bb"]
"example.com/nic" = ["mlx5_0"]
[pods.containers.sidecar]
[[pods]]
namespace = "serving"
name = "chat-7d9f"
[pods.containers.server]
"nvidia.com/gpu.shared" = ["GPU-cc::3"]
[allocatable]
"nvidia.com/gpu" = ["GPU-aa", "GPU-bb", "GPU-dd"]
"example.com/nic" = ["mlx5_0"]
"""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Returns an empty folder that stands for the root of a node's file system."""
    return tmp_path


@contextlib.contextmanager
def kubelet(node: Path, pods: str, sockets: Sequence[str] = EVERY_SOCKET[:1]) -> Iterator[Path]:
    file = node / "pods.toml"
    file.write_text(pods)
    with Node(node, file, sockets):
        yield file


@contextlib.contextmanager
def server(node: Path, serve: Callable[[socket.socket], None]) -> Iterator[None]:
    """Listens at the kubelet's socket and answers with ``serve``, which does not behave like a kubelet."""
    path = node / EVERY_SOCKET[0]
    path.parent.mkdir(parents=True)
    with listening_at(path) as listening:

        def run() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connected, _ = listening.accept()
                    with connected, contextlib.suppress(OSError):
                        serve(connected)

        threading.Thread(target=run, daemon=True).start()
        yield
        listening.shutdown(socket.SHUT_RDWR)


def saying(words: bytes) -> Callable[[socket.socket], None]:
    """Returns a function for ``server`` that sends ``words`` after any request."""

    def serve(connected: socket.socket) -> None:
        connected.recv(1 << 16)
        connected.sendall(words)
        while connected.recv(1 << 16):
            pass

    return serve


def drip(connected: socket.socket) -> None:
    """Sends empty HTTP/2 SETTINGS frames forever, but never an answer; for ``server``."""
    while True:
        connected.sendall(bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
        time.sleep(0.05)


def test_allocations_are_read(node: Path) -> None:
    with kubelet(node, ONE):
        found = read(node)
    assert found.unavailable == ""
    assert found.allocations == (
        Allocation("research", "trainer-0", "train", "nvidia.com/gpu", ("GPU-aa", "GPU-bb")),
        Allocation("serving", "chat-7d9f", "server", "nvidia.com/gpu.shared", ("GPU-cc::3",)),
    )
    assert found.allocatable == (("nvidia.com/gpu", ("GPU-aa", "GPU-bb", "GPU-dd")),)
    assert found.allocations[1].uuids == ("GPU-cc",)


def test_each_reading_has_the_current_pods(node: Path) -> None:
    with kubelet(node, ONE) as file:
        assert len(read(node).allocations) == 2
        file.write_text("")
        assert read(node) == PodResources()
        file.write_text(ONE.replace("trainer-0", "trainer-1"))
        assert read(node).allocations[0].pod == "trainer-1"


def test_a_restarted_kubelet_is_found(node: Path) -> None:
    with kubelet(node, ONE):
        assert read(node).unavailable == ""
    assert read(node).unavailable == "no socket of a kubelet on this host"
    with kubelet(node, ONE):
        assert len(read(node).allocations) == 2


def test_thousands_of_pods_exceed_the_http2_flow_control_window(node: Path) -> None:
    pods = "".join(
        f'[[pods]]\nnamespace = "n"\nname = "pod-{n}-{"x" * 60}"\n'
        f'[pods.containers.c]\n"nvidia.com/gpu" = ["GPU-{n}"]\n'
        for n in range(3_000)
    )
    with kubelet(node, pods):
        found = read(node)
    assert [one.devices for one in found.allocations] == [(f"GPU-{n}",) for n in range(3_000)]


def test_control_characters_are_stripped_from_names(node: Path) -> None:
    with kubelet(node, ONE.replace("trainer-0", "a\\u001b[2Jb").replace("GPU-aa", "\\u202eGPU")):
        (first, _) = read(node).allocations
    assert first.pod == "a[2Jb"
    assert first.devices[0] == "GPU"


def test_an_unknown_method_is_reported(node: Path) -> None:
    with kubelet(node, ONE), pytest.raises(KubeletCallError, match="unknown method") as failed:
        call(node / EVERY_SOCKET[0], "/v1.PodResourcesLister/Get", seconds=5, most_bytes=1 << 20)
    assert failed.value.status == UNIMPLEMENTED


def test_an_answer_that_is_too_large_is_refused(node: Path) -> None:
    with kubelet(node, ONE), pytest.raises(KubeletCallError, match="larger than"):
        call(node / EVERY_SOCKET[0], LIST, seconds=5, most_bytes=10)


@pytest.mark.parametrize(
    ("serve", "said"),
    [
        (lambda connected: connected.recv(1 << 16), "closed before the answer"),
        (saying(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 9), "no answer within"),
        (saying(bytes(range(256)) * 99), "does not speak gRPC"),
        (lambda connected: time.sleep(3), "no answer within"),
        (drip, "no answer within"),
    ],
    ids=["nothing", "HTTP/1", "garbage", "hangs", "drips"],
)
def test_a_server_that_is_no_kubelet_is_reported(
    node: Path, monkeypatch: pytest.MonkeyPatch, serve: Callable[[socket.socket], None], said: str
) -> None:
    if "no answer" in said:
        monkeypatch.setattr(pod_resources, "SECONDS", 0.5)
    with server(node, serve):
        assert said in read(node).unavailable


def test_a_file_in_place_of_the_socket_is_reported(node: Path) -> None:
    (node / EVERY_SOCKET[0]).parent.mkdir(parents=True)
    (node / EVERY_SOCKET[0]).write_text("")
    assert "no socket" in read(node).unavailable


def test_a_garbled_answer_is_reported(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "answer", lambda self, method: b"\xff" * 100)
    with kubelet(node, ""):
        assert "a number is longer than 10 bytes" in read(node).unavailable


def test_messages_match_those_of_protoc() -> None:
    # The bytes are the output of:
    # printf 'pod_resources { name: "a" namespace: "b" containers { name: "c" } }' | protoc --encode=… | xxd
    pod = bytes.fromhex("0a0b0a0161120162") + bytes.fromhex("1a030a0163")
    assert [text(one, 1) for one in messages(pod, 1)] == ["a"]
    assert encoded([(1, encoded([(1, b"a"), (2, b"b"), (3, encoded([(1, b"c")]))]))]) == pod
    # Fields of other types come before the message: a varint of 300, a double, a float.
    mixed = bytes.fromhex("08ac02") + bytes.fromhex("110000000000000000") + bytes.fromhex("1d00000000") + pod
    assert next(fields(mixed)) == (1, 300)
    assert texts(pod, 9) == []


@pytest.mark.parametrize(
    "message", [b"\x0a\x05a", b"\x08", b"\x08" + b"\xff" * 11, b"\x0b", b"\x00", b"\x11\x00"]
)
def test_a_malformed_message_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        list(fields(message))


@given(st.lists(st.tuples(st.integers(1, 1 << 28), st.one_of(st.integers(0, 2**64 - 1), st.binary()))))
def test_encoded_fields_are_decoded_equal(parts: list[tuple[int, int | bytes]]) -> None:
    assert list(fields(encoded(parts))) == parts


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_decoded_or_refused(message: bytes) -> None:
    with contextlib.suppress(ValueError):
        list(pod_resources._allocations(message))


def test_the_check_reports_the_allocations(node: Path) -> None:
    def told() -> tuple[str, str]:
        found = allocations(replace(this_host(), host_root=node))
        return found.verdict, found.seen

    assert told() == ("ok", "no socket of a kubelet on this host")
    (node / "var/lib/kubelet/pods").mkdir(parents=True)
    assert told() == ("warn", "not known: no socket of a kubelet on this host")
    with kubelet(node, ONE):
        assert told() == ("ok", "kubelet: 3 of 3 GPUs or parts of them given to 2 pods")
