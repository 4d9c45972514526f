"""A stand-in for a node's kubelet: the real PodResources protocol over a unix socket, for pods of a file.

The file is TOML and is read again at every call, so that pods come, end and are replaced while it is watched:

    [[pods]]
    namespace = "research"
    name = "trainer-0"
    [pods.containers.train]
    "nvidia.com/gpu.shared" = ["GPU-0::1"]

    [allocatable]
    "nvidia.com/gpu.shared" = ["GPU-0::0", "GPU-0::1"]

It runs in a thread, ``with Kubelet(socket, file): …``, or as ``python -m demo.kubelet SOCKET FILE``.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import struct
import sys
import threading
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived, StreamEnded, WindowUpdated
from h2.exceptions import ProtocolError

from probes.kubelet.call import UNIMPLEMENTED
from probes.kubelet.pod_resources import ALLOCATABLE, LIST
from probes.kubelet.protobuf import Field, encoded

_PREFIX: Final = struct.Struct(">BI")


class Kubelet:
    """Serves the pods of the file ``pods`` at the socket ``path`` as long as the block lasts."""

    def __init__(self, path: Path, pods: Path) -> None:
        self._path = path
        self._pods = pods
        self._listening: socket.socket | None = None

    def __enter__(self) -> Kubelet:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(self._path))
        self._listening.listen()
        threading.Thread(target=self._serve, args=(self._listening,), name="kubelet", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._listening is not None:
            self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                connected, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connected,), daemon=True).start()

    def _answer(self, connected: socket.socket) -> None:
        with contextlib.suppress(OSError, ProtocolError), connected:
            _Connection(connected, self.answer).run()

    def answer(self, method: str) -> bytes | None:
        """The message that answers ``method``; None where there is no such method. Raises ValueError and
        OSError for a file that is none."""
        with open(self._pods, "rb") as file:
            found = tomllib.load(file)
        if method == LIST:
            return encoded((1, _pod(pod)) for pod in found.get("pods", ()))
        if method == ALLOCATABLE:
            return encoded(_devices(1, found.get("allocatable", {})))
        return None


def _pod(pod: Mapping[str, Any]) -> bytes:
    containers = [
        (3, encoded([(1, name.encode()), *_devices(2, given)]))
        for name, given in pod.get("containers", {}).items()
    ]
    return encoded([(1, pod["name"].encode()), (2, pod["namespace"].encode()), *containers])


def _devices(number: int, given: Mapping[str, Sequence[str]]) -> list[Field]:
    return [
        (number, encoded([(1, resource.encode()), *((2, device.encode()) for device in devices)]))
        for resource, devices in given.items()
    ]


class _Connection:
    """One client."""

    def __init__(self, connected: socket.socket, answer: Any) -> None:
        self._socket = connected
        self._answer = answer
        self._http = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._methods: dict[int, str] = {}
        self._left: dict[int, bytes] = {}
        """What the client's window had no room for yet, by stream."""

    def run(self) -> None:
        self._http.initiate_connection()
        self._send()
        while data := self._socket.recv(1 << 16):
            for event in self._http.receive_data(data):
                if isinstance(event, RequestReceived) and event.stream_id:
                    headers = {str(name): str(value) for name, value in event.headers or ()}
                    self._methods[event.stream_id] = headers.get(":path", "")
                elif isinstance(event, StreamEnded) and event.stream_id:
                    self._begin(event.stream_id)
                elif isinstance(event, WindowUpdated):
                    for stream in list(self._left):
                        self._go_on(stream)
            self._send()

    def _begin(self, stream: int) -> None:
        message = self._answer(self._methods.pop(stream, ""))
        self._http.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
        if message is None:
            status = [("grpc-status", str(UNIMPLEMENTED)), ("grpc-message", "unknown method")]
            self._http.send_headers(stream, status, end_stream=True)
            return
        self._left[stream] = _PREFIX.pack(0, len(message)) + message
        self._go_on(stream)

    def _go_on(self, stream: int) -> None:
        left = self._left[stream]
        while left:
            room = min(self._http.local_flow_control_window(stream), self._http.max_outbound_frame_size)
            if room <= 0:
                break
            self._http.send_data(stream, left[:room])
            left = left[room:]
        self._left[stream] = left
        if not left:
            del self._left[stream]
            self._http.send_headers(stream, [("grpc-status", "0")], end_stream=True)

    def _send(self) -> None:
        data = self._http.data_to_send()
        if data:
            self._socket.sendall(data)


def main(arguments: Sequence[str]) -> int:
    """Serve until a signal ends it."""
    with Kubelet(Path(arguments[0]), Path(arguments[1])):
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
