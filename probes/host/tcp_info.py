"""Reads the Linux kernel's figures of a TCP connection of another process."""

from __future__ import annotations

import ctypes
import ipaddress
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

_PIDFD_GETFD: Final = 438
"""Number of the system call pidfd_getfd(2), the same on all architectures, from Linux 5.6 on. Unlike a
netlink request, it works for a process in another network namespace."""
_INFO_BYTES: Final = 136
_RTT_AT: Final = 68
"""Offset of ``tcpi_rtt`` (in µs, 32 bits) in struct tcp_info (linux/tcp.h)."""
_BYTES_AT: Final = 120
"""Offset of ``tcpi_bytes_acked``, followed by ``tcpi_bytes_received``; 64 bits each."""
_libc: Final = ctypes.CDLL(None, use_errno=True)


class TcpInfo(NamedTuple):
    """Figures of one TCP connection."""

    sent_bytes: int
    """Bytes that the peer has acknowledged, since the connection was made."""
    received_bytes: int
    rtt_ns: int
    """Smoothed round-trip time."""


def tcp_info(pid: int, fd: int, remote: tuple[str, int]) -> TcpInfo | None:
    """Returns figures of the connection to ``remote`` that is descriptor ``fd`` of a process; None if it has
    been closed, or may not be read."""
    try:
        process = os.pidfd_open(pid)
        try:
            own = _libc.syscall(_PIDFD_GETFD, process, fd, 0)
        finally:
            os.close(process)
        if own < 0:
            return None
        with socket.socket(fileno=own) as connection:
            if plain(connection.getpeername()) != remote:
                return None
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    except OSError:
        return None
    if len(info) < _INFO_BYTES:
        return None
    (rtt_us,) = struct.unpack_from("=I", info, _RTT_AT)
    sent, received = struct.unpack_from("=QQ", info, _BYTES_AT)
    return TcpInfo(sent, received, rtt_us * 1000)


def plain(address: Sequence[Any]) -> tuple[str, int]:
    """Returns address and port. If an IPv6 socket shows an IPv4 address (``::ffff:…``), returns it as plain
    IPv4."""
    host = ipaddress.ip_address(address[0])
    if isinstance(host, ipaddress.IPv6Address) and host.ipv4_mapped:
        host = host.ipv4_mapped
    return str(host), address[1]
