"""Asks Docker or Podman for names and labels of containers, over their sockets.

Daemons are asked for names and labels that state files do not contain. State files are read first: they can
be read while a daemon is down, and a daemon cannot delay the reading. Both daemons give the same answers:
https://docs.docker.com/reference/api/engine/ (ContainerInspect).
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
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


class ContainerSockets:
    """Asks the daemons below ``root``. Used from one thread.

    Never raises. Asks at most two daemons about a container, each for at most ``SECONDS``.
    """

    def __init__(self, root: Path = Path("/"), clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
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
            place = inside(self._root, path)
            if self._left_alone.get(path, 0.0) > self._clock() or why_no_socket(place):
                continue
            try:
                found = docker_names(asked(place, f"/containers/{container_id}/json", uid or None))
            except DaemonError:
                self._left_alone[path] = self._clock() + LEFT_ALONE_SECONDS
                continue
            if found.container:
                if len(self._known) >= _KEPT:
                    self._known.clear()
                self._known[container_id, uid] = found
                return found
        return Names()


def asked(path: Path, address: str, uid: int | None = None) -> Any:
    """Returns the JSON that the daemon at the socket ``path`` answers to ``address``; None if it does not
    know ``address``.

    If ``uid`` is given, the daemon is asked only if it belongs to that user, because a symbolic link at
    ``path`` can lead to another user's socket. Raises DaemonError.
    """
    import http.client  # Imported here, because it is slow to import and only needed if there is a daemon.

    try:
        answer = http.client.HTTPResponse(_Heard(_heard(path, address, uid)))  # type: ignore[arg-type]
        answer.begin()
        body = answer.read()
        if answer.status == http.client.NOT_FOUND:
            return None
        if answer.status != http.client.OK:
            raise DaemonError(f"it answered with HTTP status {answer.status}")
        return json.loads(body)
    except TimeoutError:
        raise DaemonError(f"no answer within {SECONDS:g} s") from None
    except (http.client.HTTPException, ValueError, RecursionError) as error:
        raise DaemonError(f"its answer is not valid ({type(error).__name__})") from None
    except OSError as error:
        raise DaemonError(error.strerror or str(error)) from None


def _heard(path: Path, address: str, uid: int | None) -> bytes:
    """Returns everything that was received until the connection was closed."""
    until = time.monotonic() + SECONDS
    heard = bytearray()
    with connected(path, SECONDS) as connection:
        if uid is not None and peer_uid(connection) != uid:
            raise DaemonError("the socket belongs to another user")
        connection.sendall(f"GET {address} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        while data := connection.recv(1 << 16):
            heard += data
            left = until - time.monotonic()
            # Without this check, a daemon that sends a byte now and then would keep the caller waiting
            # forever.
            if left <= 0:
                raise TimeoutError
            if len(heard) > MOST_BYTES:
                raise DaemonError(f"its answer is larger than {MOST_BYTES >> 20} MiB")
            connection.settimeout(left)
    return bytes(heard)


class _Heard:
    """Gives received bytes to ``HTTPResponse``, which expects a socket."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._content)
