"""Looks up names, in other threads than the one that makes windows.

Files may lie on a server that is down, and daemons may hang. One thread reads root's files and daemons; other
threads read those of users. If the files of a user hang, only the names that are looked up on the same thread
are delayed.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from stalltop.model.window import Missing
from stalltop.probes.tenants.container_sockets import ContainerSockets
from stalltop.probes.tenants.jobs import job_of
from stalltop.probes.tenants.names import NameFiles, Names
from stalltop.probes.tenants.patterns import Identity

USERS_THREADS: Final = 8
"""Number of threads that read users' files and ask users' daemons. If there are more users, some of them
share a thread."""
TOLD_SECONDS: Final = 5.0
"""Time in seconds after which a look-up without an answer is reported."""
_ASKED: Final = ("docker", "podman", "ecs", "")
"""Runtimes whose containers Docker or Podman may know; '' stands for an unknown runtime."""


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a look-up."""

    shown: str
    """Name to display."""
    user: str = ""
    names: Names = field(default_factory=Names)


class Sources(NamedTuple):
    """The sources in which names are looked up. Used from one thread."""

    files: NameFiles
    sockets: ContainerSockets


class LookUp:
    """One look-up, under way or done."""

    def __init__(self, identity: Identity, work: Callable[[Sources], Found]) -> None:
        self.identity = identity
        self.found: Found | None = None
        """Result of the look-up; None before it is done, and if it failed."""
        self._work = work
        self._done = threading.Event()

    def wait(self, patience_seconds: float) -> bool:
        """Waits at most ``patience_seconds``; returns whether it is done."""
        return self._done.wait(max(patience_seconds, 0.0))

    def run(self, sources: Sources) -> None:
        """Makes the look-up. Never raises."""
        try:
            self.found = self._work(sources)
        # A state file may contain anything. If the look-up fails, the tenant is shown without a name.
        except Exception:
            self.found = None
        self._done.set()


class NameLookUps:
    """Queues look-ups. Used from one thread. No method waits or raises."""

    def __init__(self, root: Path, files: Path) -> None:
        """``root`` contains ``/proc``; ``files`` contains the host's own files."""
        self._root = root
        self._files = files
        self._lanes: dict[int, _Lane] = {}

    def ask(self, identity: Identity, tgid: int) -> tuple[LookUp, bool]:
        """Queues a look-up of the name of ``identity``; ``tgid`` is a process of that tenant. Returns the
        look-up, and whether it begins at once."""
        place = identity.uid % USERS_THREADS + 1 if identity.uid and _is_users(identity) else 0
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = _Lane(self._files)
        at_once = lane.idle
        look_up = LookUp(identity, lambda sources: look_up_name(identity, tgid, sources, self._root))
        lane.put(look_up)
        return look_up, at_once

    def missing(self) -> tuple[Missing, ...]:
        """Returns the look-ups that have had no answer for long."""
        found = []
        for lane in self._lanes.values():
            identity, seconds = lane.held_up()
            if identity is not None and seconds >= TOLD_SECONDS:
                whose = f"user {identity.uid}" if identity.uid and _is_users(identity) else "this host"
                reason = f"files or daemons of {whose} have not answered for {seconds:.0f} s: ids are shown"
                found.append(
                    Missing(
                        "names", reason, "check the file server or the container daemon that does not answer"
                    )
                )
        return tuple(found)

    def close(self) -> None:
        """Ends each thread after the look-ups that are queued for it. Does not wait. May be called twice."""
        for lane in self._lanes.values():
            lane.close()


class _Lane:
    """One thread and its queue."""

    def __init__(self, files: Path) -> None:
        self._sources = Sources(NameFiles(files), ContainerSockets(files))
        self._queue: queue.SimpleQueue[LookUp | None] = queue.SimpleQueue()
        self._last: LookUp | None = None
        self._current: tuple[LookUp, float] | None = None
        """The look-up that is under way, and the time at which it began."""
        threading.Thread(target=self._run, name="names", daemon=True).start()

    @property
    def idle(self) -> bool:
        """Returns whether the next look-up would begin at once."""
        return self._last is None or self._last.wait(0.0)

    def put(self, look_up: LookUp) -> None:
        """Queues a look-up behind those that were queued before."""
        self._last = look_up
        self._queue.put(look_up)

    def held_up(self) -> tuple[Identity | None, float]:
        """Returns the identity whose name is being looked up, and for how many seconds; (None, 0) if there is
        none."""
        current = self._current
        return (None, 0.0) if current is None else (current[0].identity, time.monotonic() - current[1])

    def close(self) -> None:
        self._queue.put(None)

    def _run(self) -> None:
        while (look_up := self._queue.get()) is not None:
            self._current = look_up, time.monotonic()
            look_up.run(self._sources)
            self._current = None


def look_up_name(identity: Identity, tgid: int, sources: Sources, root: Path) -> Found:
    """Returns the name of a tenant. Reads files and asks daemons, which may take long. ``tgid`` is a process
    of the tenant; ``root`` contains ``/proc``."""
    if identity.kind not in ("container", "pod"):
        user = sources.files.user(identity.uid or 0)
        job = job_of(tgid, root) if identity.kind == "job" else None
        if job is None or identity.id.partition("/")[0] != f"slurm:job_{job.id}":
            return Found(f"{user} {identity.name}".strip(), user)
        return Found(f"{user} {identity.name} {job.name}".strip(), user, Names(labels=job.labels))
    user = sources.files.user(identity.uid) if identity.uid else ""
    names = sources.files.look_up(identity.container_id, identity.pod, identity.uid)
    if identity.runtime in _ASKED and not (names.container and names.labels):
        names = names.filled_from(sources.sockets.look_up(identity.container_id, identity.uid))
    own = names.container or (identity.name if identity.kind == "container" else "")
    return Found("/".join(filter(None, (names.pod, own))) or identity.name, user, names)


def _is_users(identity: Identity) -> bool:
    """Returns whether the look-up uses files, daemons or processes that belong to the tenant's user."""
    return identity.kind in ("container", "pod", "job")
