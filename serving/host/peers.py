"""Which processes the tracer admits. The Linux kernel says who is at the other end of a socket (unix(7))."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from typing import Final, NamedTuple

_CREDENTIALS: Final = struct.Struct("3i")
_SO_PEERGROUPS: Final = 59
"""From include/uapi/asm-generic/socket.h; the module ``socket`` does not have it."""
_MOST_GROUPS_BYTES: Final = 1_024
"""The most that Python's ``getsockopt`` returns: 256 groups."""


class Peer(NamedTuple):
    """The process at the other end of a socket, when it connected."""

    pid: int
    uid: int
    groups: frozenset[int]
    """Its group and its supplementary groups."""


def peer_of(link: socket.socket) -> Peer:
    """Return the process at the other end of ``link``. Raises OSError."""
    pid, uid, gid = _CREDENTIALS.unpack(
        link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    groups = b""
    # Of a process in more groups, only the first one is known.
    with contextlib.suppress(OSError):
        groups = link.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MOST_GROUPS_BYTES)
    return Peer(pid, uid, frozenset((gid, *struct.unpack(f"{len(groups) // 4}I", groups))))


def is_owner(peer: Peer) -> bool:
    """Return whether ``peer`` is root or the same user as this process."""
    return peer.uid in (0, os.geteuid())


def is_admitted(peer: Peer, group: int | None) -> bool:
    """Return whether ``peer`` may read the windows of this process: root, the same user, and members of
    ``group``."""
    return is_owner(peer) or (group is not None and group in peer.groups)
