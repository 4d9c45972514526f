"""Tells which of two processes is the client of the other, and which servers of other hosts a process
asks."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

KEPT_SAMPLES: Final = 10
"""Number of samples after which the connections of a process are read again."""
MOST_PEERS: Final = 3
"""Servers that are named for one process."""

_Address = tuple[str, int]


@dataclass(slots=True)
class _Sockets:
    """The sockets of one process."""

    sample: int
    served: set[tuple[_Address, _Address]] = field(default_factory=set)
    """(own address, the client's) of connections to ports on which it listens."""
    asked: set[tuple[_Address, _Address]] = field(default_factory=set)
    """(own address, the server's) of all others."""
    paths: set[str] = field(default_factory=set)
    """Paths of its Unix sockets: of those on which it listens, and of connections to these."""
    local: bool = False
    """Whether all its connections are to this host, and no datagrams can come from others."""
    unnamed: bool = False
    """Whether it has Unix sockets without a path, as clients have."""


class Connections:
    """Reads the connections of processes that wait for each other. Used from one thread."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._here = root == Path("/")
        self._sample = 0
        self._known: dict[int, _Sockets] = {}

    def begin(self) -> None:
        """Begins a new sample."""
        self._sample += 1
        self._known = {
            pid: sockets
            for pid, sockets in self._known.items()
            if self._sample - sockets.sample < KEPT_SAMPLES
        }

    def clients(self, pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Returns, of pairs of processes, those of which one is a client of the other: (client, server)."""
        found = []
        for one, other in pairs:
            if self._asks(one, other):
                found.append((one, other))
            elif self._asks(other, one):
                found.append((other, one))
            else:
                self._read_again(one, other)
        return found

    def servers(self, pid: int) -> tuple[str, ...]:
        """Returns addresses with ports of servers elsewhere to which a process is connected, in order; none
        if it is a server itself, since a wait may then be for its own clients."""
        sockets = self._of(pid)
        if sockets.served:
            return ()
        away = {remote for _, remote in sockets.asked if not ipaddress.ip_address(remote[0]).is_loopback}
        return tuple(f"{host}:{port}" for host, port in sorted(away)[:MOST_PEERS])

    def local(self, pid: int) -> bool:
        """Returns whether a process receives data of this host only; False if that is not known."""
        return self._of(pid).local

    def _asks(self, client: int, server: int) -> bool:
        asking, serving = self._of(client), self._of(server)
        if any((remote, own) in serving.served for own, remote in asking.asked):
            return True
        # If a container's network translates addresses, the two ends of a connection see different ones.
        if asking.asked and serving.served and not serving.asked:
            return True
        return asking.unnamed and bool(serving.paths - asking.paths)

    def _read_again(self, *pids: int) -> None:
        """Has the connections of processes read anew soon: they may be about to connect."""
        for pid in pids:
            if self._known[pid].sample < self._sample:
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
        ports = {each.laddr.port for each in internet if each.status == psutil.CONN_LISTEN}
        for each in internet:
            if not each.raddr:
                continue
            own, remote = _plain(each.laddr), _plain(each.raddr)
            (made.served if own[1] in ports else made.asked).add((own, remote))
        made.local = all(_is_here(*ends) for ends in made.served | made.asked) and all(
            each.laddr and ipaddress.ip_address(each.laddr.ip).is_loopback for each in datagrams
        )
        for each in local:
            if each.laddr:
                made.paths.add(str(each.laddr))
            else:
                made.unnamed = True
        return made


def _is_here(own: _Address, remote: _Address) -> bool:
    """Returns whether the far end of a connection is on this host, too."""
    return own[0] == remote[0] or ipaddress.ip_address(remote[0]).is_loopback


def _plain(address: _Address) -> _Address:
    """Returns the address and the port; an IPv4 address that an IPv6 socket shows (``::ffff:…``) as IPv4."""
    host = ipaddress.ip_address(address[0])
    if isinstance(host, ipaddress.IPv6Address) and host.ipv4_mapped:
        host = host.ipv4_mapped
    return str(host), address[1]
