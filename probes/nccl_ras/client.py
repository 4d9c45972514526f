"""Asks NCCL's RAS: a line protocol on a TCP port of the loopback address, in the network namespace of the
job.

``CLIENT PROTOCOL 2``, ``SET FORMAT JSON``, ``TIMEOUT`` and ``STATUS`` are commands. The server answers each
of the first three by a line, and the last by a JSON object, and then closes the connection. Versions of NCCL
before 2.28.7 know no JSON, and refuse the second command: what they write as text names no ranks.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import os
import socket
import time
from pathlib import Path
from typing import Final, NamedTuple

from stalltop.probes.nccl_ras.status import MOST_BYTES, RasCommunicator, read_status

PORT: Final = 28028
"""``NCCL_RAS_CLIENT_PORT``. A job may choose another one by NCCL_RAS_ADDR, and is not asked then."""
GATHER_SECONDS: Final = 2.0
"""How long the processes of the job may take to answer each other."""
ANSWER_SECONDS: Final = 8.0
"""Longest time for the whole answer."""
_CLONE_NEWNET: Final = 0x40000000
_LINE_BYTES: Final = 256


class RasError(Exception):
    """RAS does not answer, or not as it should. The text says why."""


class RasAnswer(NamedTuple):
    """What RAS says about a job."""

    communicators: tuple[RasCommunicator, ...]
    addresses: frozenset[str]
    """IP addresses of the network namespace in which it was asked."""


def ask(pid: int, port: int = PORT) -> RasAnswer:
    """Returns what RAS says about the job to which process ``pid`` belongs. Raises RasError.

    Moves the calling thread into the network namespace of the process, so the thread must have no other use.
    Needs the capability SYS_ADMIN, unless the thread is in that namespace already.
    """
    _enter_network_of(pid)
    until = time.monotonic() + ANSWER_SECONDS
    try:
        with socket.create_connection(("localhost", port), 1.0) as link:
            reader = _LinkReader(link, until)
            for command, answer in (
                ("CLIENT PROTOCOL 2", b"SERVER PROTOCOL "),
                ("SET FORMAT JSON", b"OK"),
                (f"TIMEOUT {GATHER_SECONDS:g}", b"OK"),
            ):
                link.sendall(f"{command}\n".encode())
                line = reader.line()
                if not line.startswith(answer):
                    said = line[:80].decode(errors="replace")
                    raise RasError(f"RAS does not understand {command}: {said}")
            link.sendall(b"STATUS\n")
            return RasAnswer(read_status(reader.rest()), own_addresses())
    except OSError as error:
        raise RasError(f"RAS does not answer: {error.strerror or error}") from error
    except ValueError as error:
        raise RasError(f"RAS answers something else: {error}") from error


def own_addresses() -> frozenset[str]:
    """Returns the IP addresses of the calling thread's network namespace. Raises OSError."""
    found = set()
    place = Path("/proc/thread-self/net")
    # fib_trie has "|-- ADDRESS" above "/32 host LOCAL" for each address of this host.
    address = ""
    for line in (place / "fib_trie").read_text().splitlines():
        words = line.split()
        if words[:1] == ["|--"]:
            address = words[1]
        elif words[:3] == ["/32", "host", "LOCAL"]:
            found.add(address)
    with contextlib.suppress(FileNotFoundError):
        for line in (place / "if_inet6").read_text().splitlines():
            found.add(str(ipaddress.IPv6Address(bytes.fromhex(line.split()[0]))))
    return frozenset(found)


def _enter_network_of(pid: int) -> None:
    try:
        wanted, own = os.stat(f"/proc/{pid}/ns/net"), os.stat("/proc/thread-self/ns/net")
        if (wanted.st_dev, wanted.st_ino) == (own.st_dev, own.st_ino):
            return
        with open(f"/proc/{pid}/ns/net", "rb") as file:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(file.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    except OSError as error:
        raise RasError(f"the network of process {pid} cannot be entered: {error.strerror}") from error


class _LinkReader:
    """Reads from a connection until a time by ``time.monotonic()``."""

    def __init__(self, link: socket.socket, until: float) -> None:
        self._link = link
        self._until = until
        self._unread = b""

    def line(self) -> bytes:
        """Returns the next line. Raises RasError if it is too long, and OSError."""
        while b"\n" not in self._unread:
            if len(self._unread) > _LINE_BYTES or not self._more():
                raise RasError("RAS answers no line")
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def rest(self) -> bytes:
        """Returns everything up to the end. Raises RasError if it is too long, and OSError."""
        parts = [self._unread]
        size = len(self._unread)
        self._unread = b""
        while self._more():
            parts.append(self._unread)
            size += len(self._unread)
            self._unread = b""
            if size > MOST_BYTES:
                raise RasError("the answer of RAS is too long")
        return b"".join(parts)

    def _more(self) -> bool:
        self._link.settimeout(max(self._until - time.monotonic(), 0.001))
        data = self._link.recv(1 << 16)
        self._unread += data
        return bool(data)
