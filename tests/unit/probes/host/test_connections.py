"""Tests that stalltop finds the client and the server of real connections between this process and its
children."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stalltop.model.thread_evidence import Server
from stalltop.probes.host import connections
from stalltop.probes.host.connections import Connections
from stalltop.probes.host.tcp_info import TcpInfo, tcp_info

CLIENT = """
import socket, sys
made = socket.socket(socket.AF_UNIX) if "/" in sys.argv[1] else socket.socket()
made.connect(sys.argv[1] if "/" in sys.argv[1] else ("127.0.0.1", int(sys.argv[1])))
print("connected", flush=True)
sys.stdin.read()
"""

FORKS = """
import os, socket
listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
accepted = listening.accept()[0]
if os.fork() == 0:
    listening.close()
    print(os.getpid(), flush=True)
else:
    accepted.close()
input()
"""
SERVES = """
import socket
listening = socket.socket(socket.AF_UNIX)
listening.bind("{path}")
listening.listen()
made = socket.create_connection(("127.0.0.1", {port}))
print("connected", flush=True)
input()
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
            assert found.servers(client) == ()  # the server is on this host (loopback), so it is not listed


def test_the_one_that_connects_to_a_path_is_the_client(tmp_path: Path) -> None:
    path = str(tmp_path / "service")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        with client_of(path) as client, listening.accept()[0]:
            found = Connections()
            found.begin()
            assert found.clients([(client, os.getpid())]) == [(client, os.getpid())]


def test_a_connection_made_after_the_first_sample_is_seen() -> None:
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


@pytest.mark.parametrize(
    ("address", "named"),
    [("192.0.2.7", "192.0.2.7:443"), ("2001:db8::7", "[2001:db8::7]:443"), ("127.0.0.9", "")],
)
def test_servers_elsewhere_are_named(address: str, named: str) -> None:
    found = Connections()
    found.begin()
    sockets = found._of(os.getpid())
    sockets.served, sockets.asked = set(), {(("192.0.2.1", 5000), (address, 443)): -1}
    assert [server.address for server in found.servers(os.getpid())] == ([named] if named else [])


def test_what_a_connection_of_another_process_moved_is_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with client_of(str(port)) as client, listening.accept()[0] as server:
            found = Connections()
            found.begin()
            sockets = found._of(client)
            (fd,) = sockets.asked.values()
            before = tcp_info(client, fd, ("127.0.0.1", port))
            server.sendall(bytes(5000))
            after = tcp_info(client, fd, ("127.0.0.1", port))
            assert before is not None
            assert after is not None
            assert (before.received_bytes, after.received_bytes) == (0, 5000)
            assert after.sent_bytes <= 1, "the SYN counts as one byte"
            assert after.rtt_ns > 0
            assert tcp_info(client, fd, ("127.0.0.1", port + 1)) is None, "the port differs"
            assert tcp_info(client, 0, ("127.0.0.1", port)) is None, "descriptor 0 is no socket"
    assert tcp_info(client, fd, ("127.0.0.1", port)) is None, "the process has ended"


def test_bytes_count_from_one_sample_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = {3: [TcpInfo(10, 100, 9), TcpInfo(14, 130, 9)], 4: [TcpInfo(1, 1, 5), TcpInfo(2, 900, 5)]}
    monkeypatch.setattr(connections, "tcp_info", lambda pid, fd, remote: readings[fd].pop(0))
    near, far = ("192.0.2.7", 443), ("192.0.2.8", 443)
    found = Connections()
    found.begin()
    sockets = found._of(os.getpid())
    sockets.served = set()
    sockets.asked = {(("192.0.2.1", 5000), near): 3, (("192.0.2.1", 5001), far): 4}
    assert found.servers(os.getpid()) == (
        Server("192.0.2.7:443", 0, 0, 9),
        Server("192.0.2.8:443", 0, 0, 5),
    )
    found.begin()
    assert found.servers(os.getpid()) == (
        Server("192.0.2.8:443", 1, 899, 5),
        Server("192.0.2.7:443", 4, 30, 9),
    )


def test_connections_that_were_closed_are_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "tcp_info", lambda pid, fd, remote: None)
    found = Connections()
    found.begin()
    sockets = found._of(os.getpid())
    sockets.served = set()
    sockets.asked = {(("192.0.2.1", port), ("192.0.2.7", 443)): port for port in (3, 4)}
    assert found.servers(os.getpid()) == (Server("192.0.2.7:443"),)
    assert found._of(os.getpid()) is sockets, "sockets were read just now, so they are not read again"
    found.begin()
    assert found.servers(os.getpid()) == (Server("192.0.2.7:443"),)
    assert found._of(os.getpid()) is not sockets


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


def test_a_process_that_a_server_forks_for_a_connection_is_the_server() -> None:
    command = [sys.executable, "-c", FORKS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        with client_of(server.stdout.readline().strip()) as client:
            forked = int(server.stdout.readline())
            found = Connections()
            found.begin()
            assert found.clients([(forked, client)]) == [(client, forked)]


def test_a_known_connection_decides_before_what_is_only_likely(tmp_path: Path) -> None:
    """The client also has a Unix socket with a path, and the server one without a path, as a loader's worker
    and nginx have."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket(socket.AF_UNIX) as unnamed:
        address = str(tmp_path / "service")
        serving = SERVES.format(path=address, port=listening.getsockname()[1])
        command = [sys.executable, "-c", serving]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == b"connected\n"
            unnamed.connect(address)
            with listening.accept()[0]:
                found = Connections()
                found.begin()
                assert found.clients([(os.getpid(), client.pid)]) == [(client.pid, os.getpid())]
