"""Finds which of two connected processes is the client, and the servers on other hosts to which a process is
connected."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil

from stalltop.model.thread_evidence import Server
from stalltop.probes.host.tcp_info import TcpInfo, plain, tcp_info

KEPT_SAMPLES: Final = 10
"""Number of samples after which the connections of a process are read again."""
MOST_PEERS: Final = 3
"""Maximum number of servers that are named for one process."""
MOST_READ: Final = 64
"""Maximum number of connections of one process to other hosts whose byte counts are read for a window;
reading one takes some microseconds."""

_Address = tuple[str, int]


@dataclass(slots=True)
class _Sockets:
    """The sockets of one process."""

    sample: int
    served: set[tuple[_Address, _Address]] = field(default_factory=set)
    """Connections from clients to ports on which the process listens or, if it listens on none, the process
    that forked it; as (own address, the client's address)."""
    asked: dict[tuple[_Address, _Address], int] = field(default_factory=dict)
    """File descriptors of all other connections, by (own address, the server's address)."""
    paths: set[str] = field(default_factory=set)
    """Paths of the process's Unix sockets: those on which it listens, and those of connections that it
    accepted."""
    local: bool = False
    """Whether all TCP connections of the process are to this host, and all its UDP sockets have loopback
    addresses."""
    unnamed: bool = False
    """Whether the process has Unix sockets without a path, such as the client's end of a connection."""


class Connections:
    """Reads the connections of processes, for pairs in which one process waits for the other. Used from one
    thread."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._here = root == Path("/")
        self._sample = 0
        self._known: dict[int, _Sockets] = {}
        self._moved: dict[int, dict[tuple[_Address, _Address], TcpInfo]] = {}
        """TCP figures of connections to other hosts that were read in the present sample, by process and
        connection."""
        self._moved_before = self._moved

    def begin(self) -> None:
        """Begins a new sample."""
        self._sample += 1
        self._moved_before, self._moved = self._moved, {}
        self._known = {
            pid: sockets
            for pid, sockets in self._known.items()
            if self._sample - sockets.sample < KEPT_SAMPLES
        }

    def clients(self, pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Selects the pairs of processes in which one is a client of the other, and returns each as (client,
        server)."""
        found = []
        for one, other in pairs:
            both = (one, other), (other, one)
            # A connection whose two ends are known decides. What is only likely comes second.
            asks = next(
                (each for how in (self._connected, self._likely) for each in both if how(*each)), None
            )
            if asks is not None:
                found.append(asks)
            else:
                self._read_again(one, other)
        return found

    def servers(self, pid: int) -> tuple[Server, ...]:
        """Returns the servers on other hosts to which a process is connected. They are sorted by the bytes
        that were received from them since the previous sample, most first. Returns none if the process is a
        server itself, because it may be waiting for its own clients."""
        sockets = self._of(pid)
        if sockets.served:
            return ()
        away = [
            (ends, fd)
            for ends, fd in sockets.asked.items()
            if not ipaddress.ip_address(ends[1][0]).is_loopback
        ]
        found = {ends[1]: Server(_text(ends[1])) for ends, _ in away}
        before = self._moved_before.get(pid, {})
        moved = self._moved.setdefault(pid, {})
        for ends, fd in away[:MOST_READ]:
            info = tcp_info(pid, fd, ends[1])
            if info is None:
                self._read_again(pid)
                continue
            moved[ends] = info
            found[ends[1]] = _plus(found[ends[1]], info, before.get(ends, info))
        ordered = sorted(found.values(), key=lambda server: (-server.received_bytes, server.address))
        return tuple(ordered[:MOST_PEERS])

    def local(self, pid: int) -> bool:
        """Returns True if it is known that a process receives data from this host only."""
        return self._of(pid).local

    def _connected(self, client: int, server: int) -> bool:
        """Returns whether both ends of a connection from ``client`` to ``server`` are known."""
        served = self._of(server).served
        return any((remote, own) in served for own, remote in self._of(client).asked)

    def _likely(self, client: int, server: int) -> bool:
        """Returns whether ``client`` may be connected to ``server``, as far as both their sockets show."""
        asking, serving = self._of(client), self._of(server)
        # If a container's network translates addresses, the two ends of a connection see different addresses.
        # So a process that makes connections counts as a client of a process that only accepts connections.
        if asking.asked and serving.served and not serving.asked:
            return True
        return asking.unnamed and bool(serving.paths - asking.paths)

    def _read_again(self, *pids: int) -> None:
        """Forgets the connections that were read in an earlier sample, because the processes may have made
        others since. They are read again when they are needed."""
        for pid in pids:
            known = self._known.get(pid)
            if known is not None and known.sample < self._sample:
                del self._known[pid]

    def _of(self, pid: int) -> _Sockets:
        known = self._known.get(pid)
        if known is None:
            known = self._known[pid] = self._read(pid) if self._here else _Sockets(self._sample)
        return known

    def _read(self, pid: int) -> _Sockets:
        made = _Sockets(self._sample)
        try:
            process = psutil.Process(pid)
            internet, local = process.net_connections("tcp"), process.net_connections("unix")
            datagrams = process.net_connections("udp")
        except (psutil.Error, OSError):
            return made
        ports = _listens_on(internet)
        if not ports and any(each.raddr for each in internet):
            # Some servers, such as PostgreSQL, fork a process for each connection that they accept.
            with contextlib.suppress(psutil.Error, OSError):
                parent = process.parent()
                if parent is not None and parent.exe() == process.exe():
                    ports = _listens_on(parent.net_connections("tcp"))
        for each in internet:
            if not each.raddr:
                continue
            own, remote = plain(each.laddr), plain(each.raddr)
            if own[1] in ports:
                made.served.add((own, remote))
            else:
                made.asked[own, remote] = each.fd
        ends = (*made.served, *made.asked)
        made.local = all(_is_here(*each) for each in ends) and all(
            each.laddr and ipaddress.ip_address(each.laddr.ip).is_loopback for each in datagrams
        )
        for each in local:
            if each.laddr:
                made.paths.add(str(each.laddr))
            else:
                made.unnamed = True
        return made


def _listens_on(connections: Iterable[Any]) -> set[int]:
    """Returns the ports on which a process with these ``connections``, as psutil returns them, listens."""
    return {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}


def _text(address: _Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _plus(server: Server, now: TcpInfo, before: TcpInfo) -> Server:
    """Returns ``server`` with one more connection added. The connection moved the bytes by which the reading
    ``now`` exceeds the reading ``before``. Its round-trip time replaces that of ``server`` if it is
    shorter."""
    return server._replace(
        sent_bytes=server.sent_bytes + now.sent_bytes - before.sent_bytes,
        received_bytes=server.received_bytes + now.received_bytes - before.received_bytes,
        rtt_ns=min(filter(None, (server.rtt_ns, now.rtt_ns)), default=0),
    )


def _is_here(own: _Address, remote: _Address) -> bool:
    """Returns whether the far end of a connection is on this host, too."""
    return own[0] == remote[0] or ipaddress.ip_address(remote[0]).is_loopback
