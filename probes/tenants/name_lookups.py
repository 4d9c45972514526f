"""Looks up names, in another thread than the one that makes windows.

Files may lie on a server that is down, daemons may hang, and users write both. So a tracer does not read them
itself: its `NameSources` ask a confined process, with a time limit (``confined.names``).
"""

from __future__ import annotations

import errno
import os
import queue
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from stalltop.model.window import Missing
from stalltop.probes.tenants.container_sockets import ContainerSockets
from stalltop.probes.tenants.jobs import LABELS, MAPPING_VARIABLE, Job, job_of, prepared_job
from stalltop.probes.tenants.labels import Labels, bounded
from stalltop.probes.tenants.names import NameFiles, Names
from stalltop.probes.tenants.patterns import Identity

TOLD_SECONDS: Final = 5.0
"""Time in seconds after which a look-up without an answer is reported."""
_ASKED: Final = ("docker", "podman", "ecs", "")
"""Runtimes whose containers Docker or Podman may know; '' stands for an unknown runtime."""
UNANSWERED: Final = (errno.ETIMEDOUT, errno.ECHILD)
"""Errors that say nothing about a name: files or daemons did not answer, or nobody could read them."""


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a look-up."""

    shown: str
    """Name to display."""
    user: str = ""
    names: Names = field(default_factory=Names)


class NameSources(Protocol):
    """The sources in which names are looked up. ``uid`` is the user whose runtime, daemon or process it is;
    None, or 0, for root.

    Methods raise OSError if nothing answers: with one of ``UNANSWERED`` if it may answer later.
    """

    def files(self, container_id: str, pod_uid: str, uid: int | None) -> Names:
        """Returns the names in state files (`NameFiles.look_up`)."""
        ...

    def sockets(self, container_id: str, uid: int | None) -> Names:
        """Returns the names that daemons tell (`ContainerSockets.look_up`)."""
        ...

    def user(self, uid: int) -> str:
        """Returns the name of a user (`NameFiles.user`)."""
        ...

    def job(self, pid: int, uid: int | None) -> Job | None:
        """Returns the job of a process (`job_of`). May be called from another thread than the others."""
        ...

    def prepared_job(self, number: str) -> Job | None:
        """Returns a job as Slurm's prolog describes it (`jobs.prepared_job`)."""
        ...

    def unanswering(self) -> Collection[int]:
        """Returns the users whose files or daemons do not answer; 0 for root's. May be called from another
        thread than the others."""
        ...

    def close(self) -> None:
        """Ends what answers. May be called twice, and while another thread waits for an answer."""
        ...


class NamesHere:
    """Reads in this process, without protection and without a time limit for files."""

    def __init__(self, root: Path, files: Path) -> None:
        """``root`` contains ``/proc``; ``files`` contains the host's own files."""
        self._root = root
        self._host = files
        self._files = NameFiles(files)
        self._sockets = ContainerSockets(files)

    def files(self, container_id: str, pod_uid: str, uid: int | None) -> Names:
        """See `NameSources`."""
        return self._files.look_up(container_id, pod_uid, uid)

    def sockets(self, container_id: str, uid: int | None) -> Names:
        """See `NameSources`."""
        return self._sockets.look_up(container_id, uid)

    def user(self, uid: int) -> str:
        """See `NameSources`."""
        return self._files.user(uid)

    def job(self, pid: int, uid: int | None) -> Job | None:
        """See `NameSources`."""
        return job_of(pid, self._root)

    def prepared_job(self, number: str) -> Job | None:
        """See `NameSources`."""
        return prepared_job(number, self._host, os.environ.get(MAPPING_VARIABLE, ""))

    def unanswering(self) -> Collection[int]:
        """See `NameSources`."""
        return ()

    def close(self) -> None:
        """See `NameSources`."""


class LookUp:
    """One look-up, under way or done."""

    def __init__(self, identity: Identity, work: Callable[[NameSources], Found]) -> None:
        self.identity = identity
        self.found: Found | None = None
        """Result of the look-up; None before it is done, and if it failed."""
        self.unanswered = False
        """Whether it failed because nothing answered."""
        self._work = work
        self._done = threading.Event()

    def wait(self, patience_seconds: float) -> bool:
        """Waits at most ``patience_seconds``; returns whether it is done."""
        return self._done.wait(max(patience_seconds, 0.0))

    def run(self, sources: NameSources) -> None:
        """Makes the look-up. Never raises."""
        try:
            self.found = self._work(sources)
        except OSError as error:
            self.unanswered = error.errno in UNANSWERED
        # A state file may contain anything. If the look-up fails, the tenant is shown without a name.
        except Exception:
            self.found = None
        self._done.set()


class NameLookUps:
    """Queues look-ups, which a thread makes one after the other. Used from one thread. No method waits or
    raises."""

    def __init__(self, sources: NameSources) -> None:
        self._sources = sources
        self._queue: queue.SimpleQueue[LookUp | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: LookUp | None = None
        self._current: tuple[LookUp, float] | None = None
        """The look-up that is under way, and the time at which it began."""

    def ask(self, identity: Identity, tgid: int) -> tuple[LookUp, bool]:
        """Queues a look-up of the name of ``identity``; ``tgid`` is a process of that tenant. Returns the
        look-up, and whether it begins at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="names", daemon=True)
            self._thread.start()
        at_once = self._last is None or self._last.wait(0.0)
        self._last = LookUp(identity, lambda sources: look_up_name(identity, tgid, sources))
        self._queue.put(self._last)
        return self._last, at_once

    def missing(self) -> tuple[Missing, ...]:
        """Returns whose names cannot be looked up, because nothing answers."""
        silent = {
            f"user {uid}" if uid else "this host": "do not answer" for uid in self._sources.unanswering()
        }
        if (current := self._current) is not None:
            seconds = time.monotonic() - current[1]
            if seconds >= TOLD_SECONDS:
                uid = _owner(current[0].identity)
                who = f"user {uid}" if uid else "this host"
                silent.setdefault(who, f"have not answered for {seconds:.0f} s")
        return tuple(
            Missing(
                "names",
                f"files or daemons of {who} {how}: ids are shown",
                "check the file server or the container daemon that does not answer",
            )
            for who, how in silent.items()
        )

    def close(self) -> None:
        """Ends the thread. Does not wait. May be called twice."""
        self._sources.close()
        self._queue.put(None)

    def _run(self) -> None:
        while (look_up := self._queue.get()) is not None:
            self._current = look_up, time.monotonic()
            look_up.run(self._sources)
            self._current = None


def look_up_name(identity: Identity, tgid: int, sources: NameSources) -> Found:
    """Returns the name of a tenant. Reads files and asks daemons, which may take long. ``tgid`` is a process
    of the tenant. Raises OSError if nothing answers."""
    if identity.kind not in ("container", "pod"):
        user = sources.user(identity.uid or 0)
        labels = _job_labels(identity, tgid, sources) if identity.kind == "job" else ()
        name = dict(labels).get(LABELS["SLURM_JOB_NAME"], "")
        return Found(f"{user} {identity.name} {name}".strip(), user, Names(labels=labels))
    user = sources.user(identity.uid) if identity.uid else ""
    names = sources.files(identity.container_id, identity.pod, identity.uid)
    if identity.runtime in _ASKED and not (names.container and names.labels):
        names = names.filled_from(sources.sockets(identity.container_id, identity.uid))
    own = names.container or (identity.name if identity.kind == "container" else "")
    return Found("/".join(filter(None, (names.pod, own))) or identity.name, user, names)


def _job_labels(identity: Identity, tgid: int, sources: NameSources) -> Labels:
    """Returns the labels of a Slurm job: from the prolog, else from the environment of its process."""
    number = identity.id.partition("/")[0].removeprefix("slurm:job_")
    told = sources.job(tgid, _owner(identity))
    labels = told.labels if told is not None and told.id == number else ()
    prepared = sources.prepared_job(number)
    # Without a cgroup of the job, the process itself says which job it belongs to: only its own user's.
    own = identity.cgroup_path or prepared is None or prepared.uid in ("", str(identity.uid or 0))
    return bounded((*labels, *prepared.labels)) if prepared is not None and own else labels


def _owner(identity: Identity) -> int:
    """Returns the user to whom the files, daemons or processes belong that a look-up uses; 0 for root."""
    return (identity.uid or 0) if identity.kind in ("container", "pod", "job") else 0
