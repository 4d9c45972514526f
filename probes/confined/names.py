"""Looks up names of containers, pods, jobs and users in a confined process."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from stalltop.probes.confined.coding import Descriptor
from stalltop.probes.confined.examiner import Examiner
from stalltop.probes.confined.link import Confined, NoAnswerError
from stalltop.probes.tenants.container_sockets import (
    SECONDS,
    ContainerSockets,
    DaemonError,
    send_request,
)
from stalltop.probes.tenants.jobs import MAPPING_VARIABLE, Job
from stalltop.probes.tenants.names import Names
from stalltop.probes.tenants.unix_socket import connected_to

T = TypeVar("T")

ALONE_SECONDS: Final = (20.0, 60.0, 180.0, 600.0)
"""For how long the files of a user are left alone, s, after the first, second, … look-up in a row that got no
answer. Each delays the names of others by ``link.PATIENCE_SECONDS``."""


class _SilentUser(NamedTuple):
    """A user whose files and daemons are left alone."""

    until: float
    times: int
    error: NoAnswerError


class ConfinedNames:
    """Names that a confined process reads (``tenants.name_lookups.NameSources``), which is started for the
    first of them.

    That process finds, reads and parses. Only connecting to a daemon's socket, which it found, and sending a
    request there is done in this process.
    """

    def __init__(
        self, asks: Confined, files: Path = Path("/"), clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``files`` contains the host's own files."""
        self._asks = asks
        self._files = str(files)
        self._clock = clock
        self._sockets = ContainerSockets(files, ask=self._ask_daemon)
        self._lock = threading.Lock()
        self._alone: dict[int, _SilentUser] = {}
        """By user id; 0 for root."""

    def files(self, container_id: str, pod_uid: str, uid: int | None) -> Names:
        """See `NameSources`."""
        return self._ask(uid, Examiner.names, self._files, container_id, pod_uid, uid)

    def sockets(self, container_id: str, uid: int | None) -> Names:
        """See `NameSources`."""
        return self._sockets.look_up(container_id, uid)

    def user(self, uid: int) -> str:
        """See `NameSources`."""
        return self._ask(0, Examiner.user, self._files, uid)

    def job(self, pid: int, uid: int | None) -> Job | None:
        """See `NameSources`."""
        return self._ask(uid, Examiner.job, pid)

    def prepared_job(self, number: str) -> Job | None:
        """See `NameSources`."""
        mapping = os.environ.get(MAPPING_VARIABLE, "")
        return self._ask(0, Examiner.prepared_job, self._files, number, mapping)

    def unanswering(self) -> Collection[int]:
        """See `NameSources`."""
        with self._lock:
            return [uid for uid, alone in self._alone.items() if self._holds(alone)]

    def close(self) -> None:
        """See `NameSources`."""
        self._asks.close()

    def _ask_daemon(self, path: str, address: str, uid: int | None) -> Names | None:
        found = self._ask(uid, Examiner.socket, self._files, path)
        if found is None:
            return None
        try:
            with connected_to(found, SECONDS) as connection:
                send_request(connection, address, uid)
                return self._ask(uid, Examiner.told, Descriptor(connection.fileno()))
        except OSError as error:
            if isinstance(error, NoAnswerError):
                raise
            raise DaemonError(error.strerror or str(error)) from None
        finally:
            os.close(found)

    def _ask(self, owner: int | None, question: Callable[..., T], *arguments: object) -> T:
        """Asks about something that belongs to the user ``owner``. Raises the error that is the answer."""
        uid = owner or 0
        with self._lock:
            before = self._alone.get(uid)
        if before is not None and self._holds(before):
            raise before.error
        (answer,) = self._asks.ask(question, [arguments])
        if isinstance(answer, NoAnswerError):
            times = 0 if before is None else before.times
            until = self._clock() + ALONE_SECONDS[min(times, len(ALONE_SECONDS) - 1)]
            with self._lock:
                self._alone[uid] = _SilentUser(until, times + 1, answer)
        elif before is not None:
            with self._lock, contextlib.suppress(KeyError):
                del self._alone[uid]
        if isinstance(answer, OSError):
            raise answer
        return answer

    def _holds(self, alone: _SilentUser) -> bool:
        return self._clock() < alone.until or alone.error.still_hangs()
