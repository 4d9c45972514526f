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
import select
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from stalltop.probes.nccl_ras.status import RasCommunicator, received_status

PORT: Final = 28028
"""``NCCL_RAS_CLIENT_PORT``. A job may choose another one by NCCL_RAS_ADDR, and is not asked then."""
GATHER_SECONDS: Final = 2.0
"""How long the processes of the job may take to answer each other."""
ANSWER_SECONDS: Final = 8.0
"""Longest time until the answer begins."""
_PAUSE_MICROSECONDS: Final = 500_000
"""Longest time between two parts of the answer, µs."""
_CLONE_NEWNET: Final = 0x40000000
_LINE_BYTES: Final = 256


class RasError(Exception):
    """RAS does not answer, or not as it should. The text says why."""


class RasAnswer(NamedTuple):
    """What RAS says about a job."""

    communicators: tuple[RasCommunicator, ...]
    addresses: frozenset[str]
    """IP addresses of the network namespace in which it was asked."""


def ask(
    pid: int, port: int = PORT, receive: Callable[[int], tuple[RasCommunicator, ...]] = received_status
) -> RasAnswer:
    """Returns what RAS says about the job to which process ``pid`` belongs. ``receive`` reads the answer from
    a connection: RAS is a thread of the job, which can answer anything. Raises RasError.

    Moves the calling thread into the network namespace of the process, so the thread must have no other use.
    Needs the capability SYS_ADMIN, unless the thread is in that namespace already.
    """
    _enter_network_of(pid)
    until = time.monotonic() + ANSWER_SECONDS
    try:
        with socket.create_connection(("localhost", port), 1.0) as link:
            for command, answer in (
                ("CLIENT PROTOCOL 2", b"SERVER PROTOCOL "),
                ("SET FORMAT JSON", b"OK"),
                (f"TIMEOUT {GATHER_SECONDS:g}", b"OK"),
            ):
                link.sendall(f"{command}\n".encode())
                line = _line(link, until)
                if not line.startswith(answer):
                    said = line[:80].decode(errors="replace")
                    raise RasError(f"RAS does not understand {command}: {said}")
            link.sendall(b"STATUS\n")
            _await(link, until)
            link.setblocking(True)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, _PAUSE_MICROSECONDS))
            return RasAnswer(receive(link.fileno()), own_addresses())
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


def _await(link: socket.socket, until: float) -> None:
    """Waits until something comes. Raises TimeoutError if nothing does before ``until``
    (``time.monotonic()``)."""
    poll = select.poll()
    poll.register(link, select.POLLIN)
    if not poll.poll(max(until - time.monotonic(), 0.0) * 1000):
        raise TimeoutError("timed out")


def _line(link: socket.socket, until: float) -> bytes:
    """Returns the next line. Raises RasError if it is too long, and OSError."""
    line = b""
    while not line.endswith(b"\n"):
        _await(link, until)
        byte = link.recv(1)
        line += byte
        if not byte or len(line) > _LINE_BYTES:
            raise RasError("RAS answers no line")
    return line[:-1]
