"""Connects to the sockets of daemons, even if their paths are long."""

from __future__ import annotations

import os
import socket
import stat
import struct
from pathlib import Path
from typing import Final

NOT_THERE: Final = "not there"
_UCRED: Final = struct.Struct("3i")
"""struct ucred: process, user, group."""


def connected(path: Path, seconds: float) -> socket.socket:
    """Returns a connection to the socket at ``path``, which waits at most ``seconds`` for each answer.

    The path of a socket has at most 107 bytes, so the socket is opened through a descriptor of its folder.
    Raises OSError.
    """
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _connected(f"/proc/self/fd/{folder}/{path.name}", seconds)
    finally:
        os.close(folder)


def connected_to(found: int, seconds: float) -> socket.socket:
    """Returns a connection to the socket that was opened by ``O_PATH`` at ``found``, which waits at most
    ``seconds`` for each answer. No path is followed. Raises OSError."""
    return _connected(f"/proc/self/fd/{found}", seconds)


def _connected(path: str, seconds: float) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        made.settimeout(seconds)
        made.connect(path)
    except BaseException:
        made.close()
        raise
    return made


def opened_socket(path: Path) -> int | None:
    """Returns a descriptor (``O_PATH``) of the socket at ``path``; None if there is none. Raises OSError."""
    try:
        found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if stat.S_ISSOCK(os.fstat(found).st_mode):
        return found
    os.close(found)
    return None


def peer_uid(connection: socket.socket) -> int:
    """Returns the user id of the process at the other end (``struct ucred`` of sys/socket.h). Raises
    OSError."""
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    return int(_UCRED.unpack(told)[1])


def why_no_socket(path: Path) -> str:
    """Returns '' if there is a socket at ``path``. Otherwise says, in a few words, what is there instead."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return NOT_THERE
    except OSError as error:
        return error.strerror or str(error)
    return "" if stat.S_ISSOCK(mode) else "no socket"
