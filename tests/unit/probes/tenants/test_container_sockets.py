"""Tests container names from Docker's and Podman's sockets, with real connections and broken servers."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stalltop.demo.grpc_server import listening_at
from stalltop.probes.tenants import container_sockets, tenants
from stalltop.probes.tenants.container_sockets import LEFT_ALONE_SECONDS, ContainerSockets, DaemonError, asked
from stalltop.probes.tenants.names import Names
from stalltop.probes.tenants.tenants import Tenants
from stalltop.probes.tenants.unix_socket import connected
from tests.unit.probes.patient import be_patient
from tests.unit.probes.tenants.fake_host import FakeHost

A = "a1" * 32
DOCKER = "run/docker.sock"
INSPECTED = {
    "Id": A,
    "Name": "/train-a",
    "State": {"Status": "running"},
    "Config": {"Labels": {"team": "vision", "org.opencontainers.image.title": "x", "n": 3}},
}
KNOWN = Names("train-a", labels=(("team", "vision"),))


class Daemon(http.server.BaseHTTPRequestHandler):
    """Answers like the Docker daemon of a host with one container, ``A``."""

    protocol_version = "HTTP/1.1"
    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        found = self.path == f"/containers/{A}/json"
        body = json.dumps(INSPECTED if found else {"message": "No such container"}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Discards the log."""


class UnixServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(("", 0), Daemon, bind_and_activate=False)
        self.socket.close()
        self.socket = listening

    def get_request(self) -> tuple[socket.socket, str]:
        return self.socket.accept()[0], "local"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[list[str]]:
    with serving(tmp_path / DOCKER) as questions:
        yield questions


@contextlib.contextmanager
def serving(path: Path) -> Iterator[list[str]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    Daemon.asked = []
    with UnixServer(listening_at(path)) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield Daemon.asked
        server.shutdown()


@contextlib.contextmanager
def saying(path: Path, serve: Callable[[socket.socket], None]) -> Iterator[None]:
    """Listens at ``path`` and answers with ``serve``, which does not behave like a container daemon."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def converse(connected: socket.socket) -> None:
        with connected, contextlib.suppress(OSError):
            connected.recv(1 << 16)
            serve(connected)

    with listening_at(path) as listening:

        def run() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=converse, args=listening.accept()[:1], daemon=True).start()

        threading.Thread(target=run, daemon=True).start()
        yield
        listening.shutdown(socket.SHUT_RDWR)


def test_a_container_is_looked_up_once(tmp_path: Path, daemon: list[str]) -> None:
    sockets = ContainerSockets(tmp_path)
    assert sockets.look_up(A) == KNOWN
    assert sockets.look_up(A) == KNOWN
    assert daemon == [f"/containers/{A}/json"]  # one request for two look-ups
    assert sockets.look_up("b2" * 32) == Names()
    assert sockets.look_up("../info") == Names()
    assert len(daemon) == 2


def test_a_users_daemon_names_only_that_users_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container_sockets, "peer_uid", lambda _: 1000)
    with serving(tmp_path / "run/user/1000/podman/podman.sock"):
        sockets = ContainerSockets(tmp_path)
        assert sockets.look_up(A) == Names()
        assert sockets.look_up(A, 1001) == Names()
        assert sockets.look_up(A, 1000) == KNOWN
        assert sockets.look_up(A) == Names()  # a user's daemon is trusted only for that user


def test_a_users_link_to_another_users_daemon_is_not_followed(tmp_path: Path, daemon: list[str]) -> None:
    user = os.geteuid() + 1_000  # not the user whose daemon listens at /run/docker.sock
    own = tmp_path / f"run/user/{user}/docker.sock"
    own.parent.mkdir(parents=True)
    own.symlink_to("/run/docker.sock")
    assert ContainerSockets(tmp_path).look_up(A, user) == Names()
    assert daemon == []
    with pytest.raises(DaemonError, match="another user"):
        asked(tmp_path / DOCKER, f"/containers/{A}/json", user)
    assert asked(tmp_path / DOCKER, f"/containers/{A}/json", os.geteuid()) == INSPECTED
    assert ContainerSockets(tmp_path).look_up(A) == KNOWN


def test_absolute_links_resolve_below_the_host_root(tmp_path: Path) -> None:
    with serving(tmp_path / "data/docker.sock"):
        (tmp_path / "run").mkdir()
        (tmp_path / DOCKER).symlink_to("/data/docker.sock")
        assert ContainerSockets(tmp_path).look_up(A) == KNOWN


def test_podman_is_asked_if_docker_does_not_know_a_container(tmp_path: Path, daemon: list[str]) -> None:
    (tmp_path / DOCKER).rename(tmp_path / "run/moved")
    with saying(tmp_path / DOCKER, lambda one: one.sendall(b"HTTP/1.0 404 Not Found\r\n\r\n{}")):
        (tmp_path / "run/podman").mkdir()
        (tmp_path / "run/moved").rename(tmp_path / "run/podman/podman.sock")
        assert ContainerSockets(tmp_path).look_up(A) == KNOWN


def drip(connected: socket.socket) -> None:
    while True:
        connected.sendall(b"HTTP/1.0 200 OK\r\nX: y\r\n"[:1])
        time.sleep(0.05)


ANSWER = b"HTTP/1.0 200 OK\r\n\r\n"


@pytest.mark.parametrize(
    ("serve", "said"),
    [
        (lambda one: None, "its answer is not valid"),
        (lambda one: one.sendall(b"\x00\xff" * 999), "its answer is not valid"),
        (lambda one: one.sendall(b"HTTP/1.1 500 Oh\r\n\r\n"), "HTTP status 500"),
        (lambda one: one.sendall(ANSWER + b'{"Name": "/tr'), "its answer is not valid"),
        (
            lambda one: one.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\n{}"),
            "its answer is not valid",
        ),
        (lambda one: one.sendall(ANSWER + b"[" * 200_000), "its answer is not valid"),
        (lambda one: one.sendall(ANSWER + b" " * (3 << 20)), "larger than 1 MiB"),
        (lambda one: time.sleep(5), "no answer within"),
        (drip, "no answer within"),
    ],
    ids=["nothing", "garbage", "error", "half", "short", "deep", "huge", "hangs", "drips"],
)
def test_a_broken_daemon_is_reported_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Callable[[socket.socket], None], said: str
) -> None:
    if "no answer" in said:
        monkeypatch.setattr(container_sockets, "SECONDS", 0.5)
    now, times = 0.0, 0

    def counted(path: Path, seconds: float) -> socket.socket:
        nonlocal times
        times += 1
        return connected(path, seconds)

    monkeypatch.setattr(container_sockets, "connected", counted)
    with saying(tmp_path / DOCKER, serve):
        with pytest.raises(DaemonError, match=said):
            asked(tmp_path / DOCKER, "/containers/x/json")
        sockets = ContainerSockets(tmp_path, lambda: now)
        assert sockets.look_up(A) == sockets.look_up(A) == Names()
        assert times == 2  # one connection by ``asked``, one by the first look-up; then none for a while
        now = LEFT_ALONE_SECONDS
        assert sockets.look_up(A) == Names()
        assert times == 3


@pytest.mark.parametrize("state", [{"Name": 7}, {"Name": "/\x1b[2Jx", "Config": []}, [], 3, None])
def test_unexpected_answers_give_no_name(tmp_path: Path, state: object) -> None:
    with saying(tmp_path / DOCKER, lambda one: one.sendall(ANSWER + json.dumps(state).encode())):
        assert ContainerSockets(tmp_path).look_up(A).container in ("", "[2Jx")


def test_a_hanging_daemon_delays_no_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def answer(one: socket.socket) -> None:
        go_on.wait(60.0)
        one.sendall(ANSWER + json.dumps(INSPECTED).encode())

    now = 0.0
    host = FakeHost(tmp_path)
    with saying(tmp_path / DOCKER, answer):
        found = Tenants(tmp_path, lambda: now)
        cgroup = host.cgroup(f"/system.slice/docker-{A}.scope")
        other = host.cgroup(f"/system.slice/docker-{'b2' * 32}.scope")
        assert found.find(7, cgroup).name == A[:12]  # no answer yet, and ``find`` does not wait for it
        assert found.find(8, other).name == "b2" * 6
        go_on.set()
        monkeypatch.setattr(tenants, "PATIENCE_SECONDS", 30.0)
        end = time.monotonic() + 60.0
        while found.find(7, cgroup).name != "train-a":
            assert time.monotonic() < end
            now += 1.0
            found.refresh()
            time.sleep(0.01)
        found.close()


def test_a_socket_names_tenants_without_a_state_file(
    tmp_path: Path, daemon: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants, "PATIENCE_SECONDS", 30.0)
    host = FakeHost(tmp_path)
    found = Tenants(tmp_path).find(7, host.cgroup(f"/system.slice/docker-{A}.scope"))
    assert (found.name, found.container, found.labels) == ("train-a", "train-a", (("team", "vision"),))
