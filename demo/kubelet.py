"""Imitates a node's kubelet and container runtime: speaks their real protocols over Unix sockets, and reads
the pods from a file.

The file is TOML and is read again at every call, so that pods appear, end and are replaced while they are
watched:

    [[pods]]
    namespace = "research"
    name = "trainer-0"
    uid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
    labels = { app = "trainer" }
    ids = { train = "…" }             # of each container: 64 hexadecimal digits
    [pods.containers.train]
    "nvidia.com/gpu.shared" = ["GPU-0::1"]

    [allocatable]
    "nvidia.com/gpu.shared" = ["GPU-0::0", "GPU-0::1"]

A pod without ``uid`` was given its devices but has not started yet. A pod with ``over = true`` has ended, and
the runtime still lists it. To change the file, write a new one beside it and rename that, so that no call
reads half a file.

The stand-in runs in threads of the calling process (``with Node(root, file): …``), or as a process of its own
(``python -m stalltop.demo.kubelet ROOT FILE``). Its sockets have the same paths below ``root`` as those of a
real node have below ``/``.
"""

from __future__ import annotations

import contextlib
import hashlib
import signal
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from stalltop.demo.grpc_server import GrpcServer
from stalltop.formats.protobuf import Field, encoded
from stalltop.probes.kubelet import cri, pods_api
from stalltop.probes.kubelet.folder import FOLDER, SOCKET
from stalltop.probes.kubelet.pod_resources import ALLOCATABLE, LIST

RUNTIME_SOCKET: Final = dict(cri.SOCKETS)["containerd"]
EVERY_SOCKET: Final = (f"{FOLDER}/{SOCKET}", f"{FOLDER}/{pods_api.SOCKET}", RUNTIME_SOCKET)
"""Sockets of the kubelet's PodResources service, of the kubelet's list of pods, and of the container
runtime."""


class Node:
    """Imitates the kubelet of a node. Until the ``with`` block ends, it reports the pods that the TOML file
    ``pods`` describes, on Unix sockets below ``root``."""

    def __init__(self, root: Path, pods: Path, sockets: Iterable[str] = EVERY_SOCKET[:2]) -> None:
        """``sockets`` are those of ``EVERY_SOCKET`` that exist."""
        self._pods = pods
        self._servers = [GrpcServer(root / path, self.answer) for path in sockets]
        self._running = contextlib.ExitStack()

    def __enter__(self) -> Node:
        with self._running:
            for server in self._servers:
                self._running.enter_context(server)
            self._running = self._running.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    def answer(self, method: str) -> bytes | None:
        """Returns the message that is the answer to ``method``; None if there is no such method. Raises
        ValueError and OSError if the file cannot be read or parsed."""
        with open(self._pods, "rb") as file:
            found = tomllib.load(file)
        pods: list[Mapping[str, Any]] = found.get("pods", [])
        started = [pod for pod in pods if "uid" in pod]
        if method == LIST:
            return encoded((1, _given(pod)) for pod in pods if not pod.get("over"))
        if method == ALLOCATABLE:
            return encoded(_devices(1, found.get("allocatable", {})))
        if method in pods_api.METHODS:
            return encoded((1, _object(pod)) for pod in started)
        if method == cri.SANDBOXES:
            return encoded((1, _sandbox(pod)) for pod in started)
        if method == cri.CONTAINERS:
            return encoded((1, one) for pod in started for one in _containers(pod))
        return None


def _given(pod: Mapping[str, Any]) -> bytes:
    """Returns the encoded PodResources message of one pod."""
    containers = [
        (3, encoded([(1, name), *_devices(2, given)])) for name, given in pod.get("containers", {}).items()
    ]
    return encoded([(1, pod["name"]), (2, pod["namespace"]), *containers])


def _devices(number: int, given: Mapping[str, Sequence[str]]) -> list[Field]:
    return [
        (number, encoded([(1, resource), *((2, device) for device in devices)]))
        for resource, devices in given.items()
    ]


def _object(pod: Mapping[str, Any]) -> bytes:
    """Returns a Pod of Kubernetes' core API."""
    meta = encoded(
        [
            (1, pod["name"]),
            (3, pod["namespace"]),
            (5, pod["uid"]),
            *_labels(11, pod),
        ]
    )
    state = 3 if pod.get("over") else 2
    statuses = [
        (8, encoded([(1, name), (2, encoded([(state, b"")])), (8, f"containerd://{one}")]))
        for name, one in pod.get("ids", {}).items()
    ]
    phase = "Succeeded" if pod.get("over") else "Running"
    return encoded([(1, meta), (3, encoded([(1, phase), *statuses]))])


def _sandbox(pod: Mapping[str, Any]) -> bytes:
    """Returns a PodSandbox of the Container Runtime Interface."""
    metadata: list[Field] = [(1, pod["name"]), (2, pod["uid"]), (3, pod["namespace"])]
    state: list[Field] = [(3, 1)] if pod.get("over") else []
    return encoded([(1, _sandbox_id(pod)), (2, encoded(metadata)), *state, *_labels(5, pod)])


def _containers(pod: Mapping[str, Any]) -> list[bytes]:
    """Returns the pod's Containers of the Container Runtime Interface."""
    state = 2 if pod.get("over") else 1
    return [
        encoded([(1, one), (2, _sandbox_id(pod)), (3, encoded([(1, name)])), (6, state)])
        for name, one in pod.get("ids", {}).items()
    ]


def _sandbox_id(pod: Mapping[str, Any]) -> str:
    return hashlib.sha256(pod["uid"].encode()).hexdigest()


def _labels(number: int, pod: Mapping[str, Any]) -> list[Field]:
    return [(number, encoded([(1, name), (2, value)])) for name, value in pod.get("labels", {}).items()]


def main(arguments: Sequence[str]) -> int:
    """Serves until SIGTERM or SIGINT arrives."""
    with Node(Path(arguments[0]), Path(arguments[1])):
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
