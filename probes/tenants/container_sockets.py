"""Asks Docker or Podman for names and labels of containers, over their sockets.

Daemons are asked for names and labels that state files do not contain. State files are read first: they can
be read while a daemon is down, and a daemon cannot delay the reading. Both daemons give the same answers:
https://docs.docker.com/reference/api/engine/ (ContainerInspect).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from stalltop.probes.tenants.host_files import inside
from stalltop.probes.tenants.names import Names, docker_names
from stalltop.probes.tenants.unix_socket import connected, peer_uid, why_no_socket

SOCKETS: Final = ("run/docker.sock", "run/podman/podman.sock")
"""Sockets of root's daemons, below the root of the host's files."""
USERS_SOCKETS: Final = ("run/user/{uid}/docker.sock", "run/user/{uid}/podman/podman.sock")
"""Sockets of daemons that a user runs. That user decides what these daemons answer."""
SECONDS: Final = 1.0
"""Time limit for an answer until its last byte, s."""
MOST_BYTES: Final = 1 << 20
"""Maximum size of an answer, bytes; usual answers have 10 KiB."""
LEFT_ALONE_SECONDS: Final = 30.0
"""Time in seconds for which a daemon is not asked again after it failed."""
_KEPT: Final = 1_024
"""Maximum number of containers whose names are remembered."""


class DaemonError(Exception):
    """The daemon gave no answer; the text says why in one line."""


Ask = Callable[[str, str, int | None], Names | None]
"""Asks the daemon whose socket has this path (below the root of the host's files) for this address, as this
user's daemon (`asked`). Returns the names in its answer; None if there is no socket, or the daemon does not
know the container. Raises DaemonError."""


class ContainerSockets:
    """Asks the daemons below ``root``. Used from one thread.

    Asks at most two daemons about a container, each for at most ``SECONDS``. Raises only what ``ask`` raises
    besides DaemonError.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
        ask: Ask | None = None,
    ) -> None:
        """``ask``: how daemons are asked; by default in this process."""
        self._root = root
        self._clock = clock
        self._ask = ask or self._ask_here
        self._known: dict[tuple[str, int | None], Names] = {}
        self._left_alone: dict[str, float] = {}
        """Clock time before which a socket that failed is not used again, by path of the socket."""

    def look_up(self, container_id: str, uid: int | None = None) -> Names:
        """Returns the names of a container, given its full id. ``uid`` is the user whose daemon runs the
        container; None for root."""
        known = self._known.get((container_id, uid))
        if known is not None:
            return known
        # The id becomes a part of a URL, so it must not contain other characters.
        if not container_id.isalnum():
            return Names()
        for path in (template.format(uid=uid) for template in (USERS_SOCKETS if uid else SOCKETS)):
            if self._left_alone.get(path, 0.0) > self._clock():
                continue
            try:
                found = self._ask(path, f"/containers/{container_id}/json", uid or None)
            except DaemonError:
                self._left_alone[path] = self._clock() + LEFT_ALONE_SECONDS
                continue
            if found is not None and found.container:
                if len(self._known) >= _KEPT:
                    self._known.clear()
                self._known[container_id, uid] = found
                return found
        return Names()

    def _ask_here(self, path: str, address: str, uid: int | None) -> Names | None:
        place = inside(self._root, path)
        return None if why_no_socket(place) else docker_names(asked(place, address, uid))


def asked(path: Path, address: str, uid: int | None = None) -> Any:
    """Returns the JSON that the daemon at the socket ``path`` answers to ``address``; None if it does not
    know ``address``.

    If ``uid`` is given, the daemon is asked only if it belongs to that user, because a symbolic link at
    ``path`` can lead to another user's socket. Raises DaemonError.
    """
    with _daemon_errors(), connected(path, SECONDS) as connection:
        send_request(connection, address, uid)
        return answer(connection.fileno())


def send_request(connection: socket.socket, address: str, uid: int | None) -> None:
    """Asks the daemon at the other end of ``connection``, on which ``answer`` can then wait. ``uid``: see
    `asked`. Raises DaemonError and OSError."""
    if uid is not None and peer_uid(connection) != uid:
        raise DaemonError("the socket belongs to another user")
    connection.sendall(f"GET {address} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    connection.setblocking(True)
    connection.setsockopt(
        socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(SECONDS), int(SECONDS % 1 * 1e6))
    )


def answer(connection: int) -> Any:
    """Returns the JSON that comes from the daemon at the other end of the descriptor ``connection``; None if
    the daemon does not know what it was asked for. Raises DaemonError.

    Only reads: the confined process, which may do nothing else with a connection, can call this.
    """
    import http.client  # Imported here, because it is slow to import and only needed if there is a daemon.

    with _daemon_errors():
        try:
            response = http.client.HTTPResponse(_Heard(_heard(connection)))  # type: ignore[arg-type]
            response.begin()
            body = response.read()
            if response.status == http.client.NOT_FOUND:
                return None
            if response.status != http.client.OK:
                raise DaemonError(f"it answered with HTTP status {response.status}")
            return json.loads(body)
        except (http.client.HTTPException, ValueError, RecursionError) as error:
            raise DaemonError(f"its answer is not valid ({type(error).__name__})") from None


@contextlib.contextmanager
def _daemon_errors() -> Iterator[None]:
    """Raises DaemonError in the place of OSError."""
    try:
        yield
    except (TimeoutError, BlockingIOError):
        raise DaemonError(f"no answer within {SECONDS:g} s") from None
    except OSError as error:
        raise DaemonError(error.strerror or str(error)) from None


def _heard(connection: int) -> bytes:
    """Returns everything that was received until the connection was closed. Raises OSError: BlockingIOError
    if nothing comes for ``SECONDS``."""
    until = time.monotonic() + SECONDS
    heard = bytearray()
    while data := os.read(connection, 1 << 16):
        heard += data
        # Without this check, a daemon that sends a byte now and then would keep the caller waiting forever.
        if time.monotonic() >= until:
            raise TimeoutError
        if len(heard) > MOST_BYTES:
            raise DaemonError(f"its answer is larger than {MOST_BYTES >> 20} MiB")
    return bytes(heard)


class _Heard:
    """Gives received bytes to ``HTTPResponse``, which expects a socket."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._content)
