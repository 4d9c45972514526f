"""Tests, on real connections between this process and its children, who is the client of whom."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stalltop.probes.host.connections import Connections

CLIENT = """
import socket, sys
made = socket.socket(socket.AF_UNIX) if "/" in sys.argv[1] else socket.socket()
made.connect(sys.argv[1] if "/" in sys.argv[1] else ("127.0.0.1", int(sys.argv[1])))
print("connected", flush=True)
sys.stdin.read()
"""


@contextmanager
def client_of(address: str) -> Iterator[int]:
    """Runs a process that connects to ``address``; yields its PID."""
    command = [sys.executable, "-c", CLIENT, address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"connected\n"
        yield process.pid


def test_the_one_that_connects_over_tcp_is_the_client() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with client_of(str(port)) as client, listening.accept()[0]:
            found = Connections()
            found.begin()
            assert found.clients([(client, os.getpid())]) == [(client, os.getpid())]
            assert found.clients([(os.getpid(), client)]) == [(client, os.getpid())]
            assert found.servers(client) == ()  # on this host, by its loopback address


def test_the_one_that_connects_to_a_path_is_the_client(tmp_path: Path) -> None:
    path = str(tmp_path / "service")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        with client_of(path) as client, listening.accept()[0]:
            found = Connections()
            found.begin()
            assert found.clients([(client, os.getpid())]) == [(client, os.getpid())]


def test_a_connection_made_after_the_first_look_is_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        found = Connections()
        found.begin()
        assert found.clients([(os.getppid(), os.getpid())]) == []
        with client_of(str(port)) as client, listening.accept()[0]:
            found.begin()
            assert (client, os.getpid()) in found.clients(
                [(os.getppid(), os.getpid()), (client, os.getpid())]
            )
            found.begin()
            assert found.clients([(client, os.getpid())]) == [(client, os.getpid())]


def test_a_process_that_has_ended_has_no_connections() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    found = Connections()
    found.begin()
    assert found.clients([(process.pid, os.getpid())]) == []
    assert found.servers(process.pid) == ()


@pytest.mark.parametrize(("address", "named"), [("192.0.2.7", True), ("127.0.0.9", False)])
def test_servers_elsewhere_are_named(monkeypatch: pytest.MonkeyPatch, address: str, named: bool) -> None:
    found = Connections()
    found.begin()
    sockets = found._of(os.getpid())
    sockets.served, sockets.asked = set(), {(("192.0.2.1", 5000), (address, 443))}
    assert found.servers(os.getpid()) == ((f"{address}:443",) if named else ())


def test_a_process_receives_data_of_this_host_only_if_all_its_peers_are_here() -> None:
    found = Connections()
    found.begin()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        with client_of(port) as client, listening.accept()[0]:
            assert found.local(client)
    found = Connections()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anyone:
        anyone.bind(("0.0.0.0", 0))
        assert not found.local(os.getpid())
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert not Connections().local(process.pid)
