"""Whose call it was: from the process id and cgroup id that the kernel counted it under, to a tenant."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from model.tenant import Tenant
from probes.aside import Aside
from probes.cgroups import CgroupTree, layout, membership
from probes.container_sockets import ContainerSockets
from probes.jobs import job_of, may_hold_jobs
from probes.tenant_names import NameFiles, Names
from probes.tenant_patterns import Identity, parse_best, slurm_job
from probes.text import clean

ROOT_CGROUP_ID = 1
"""Inode of the root of the v2 hierarchy: says nothing about who it is."""
PATIENCE_SECONDS = 0.1
"""How long the first look-up of a name may take; a slower one is shown when it is there."""
NAME_TRIES = 6
"""Look-ups of a name that is not there yet (state files are written after a start), each twice as late."""
LOOK_AGAIN_SECONDS = 5.0
"""How often a process that is known by its own name, or by cgroup v1, is looked at again: both can change."""
MAX_WALKS = 10
"""Walks of the cgroup tree, between two refreshes, for ids that are not known."""
MAX_TENANTS = 2048
"""Tenants remembered although no process of theirs is."""
_NAMED_BY_PATH = ("lxc", "systemd")
_ASKED = ("docker", "podman", "ecs", "")
"""Runtimes whose containers Docker or Podman may know; the last is a container of an unknown one."""


@dataclass(slots=True)
class _Owner:
    """What is known of one (process, cgroup id)."""

    tenant: str
    start: str
    """Start time of the process as /proc tells it, so that its number's next user is not taken for it."""
    may_change: bool


@dataclass(frozen=True, slots=True)
class _Found:
    """What a look-up brought."""

    shown: str
    """The name for people."""
    user: str = ""
    names: Names = field(default_factory=Names)


@dataclass(slots=True)
class _Nameless:
    identity: Identity
    tgid: int
    """A process of it."""
    tries: int
    next_try: float


class Tenants:
    """Finds tenants and remembers them until `forget`. Used from one thread.

    Nothing here raises, and nothing waits longer than `PATIENCE_SECONDS`: what cannot be found out is told
    by a short id, and named once the name is there.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
        *,
        files: Path | None = None,
    ) -> None:
        """``root`` is where ``/proc`` and ``/sys`` are, ``files`` where the host's own files are; the same by
        default."""
        self._root = root
        self._clock = clock
        mount = layout(root).unified
        self._tree = CgroupTree(mount) if mount else None
        self._files = NameFiles(root if files is None else files)
        self._sockets = ContainerSockets(root if files is None else files)
        self._aside = Aside("names")
        self._owners: dict[int, dict[int, _Owner]] = {}
        self._tenants: dict[str, Tenant] = {}
        self._nameless: dict[str, _Nameless] = {}
        self._looked_again = clock()
        self._walks_left = MAX_WALKS

    def find(self, tgid: int, cgroup_id: int) -> Tenant:
        """The tenant of a call by process ``tgid`` in cgroup ``cgroup_id`` (0 where that is not known).

        The answer for a pair stays the same until `forget`, save that a name may become known and that a
        process known by its own name may change it.
        """
        owner = self._owners.get(tgid, {}).get(cgroup_id)
        if owner is None:
            owner = self._find(tgid, cgroup_id)
            self._owners.setdefault(tgid, {})[cgroup_id] = owner
        return self._tenants[owner.tenant]

    def forget(self, tgid: int) -> None:
        """The process has ended and its last counts were read."""
        self._owners.pop(tgid, None)

    def refresh(self) -> None:
        """Catch up with cgroups made and removed, and with names not known so far; call it once a second."""
        if self._tree is not None:
            self._tree.refresh()
        self._walks_left = MAX_WALKS
        now = self._clock()
        for tenant, nameless in list(self._nameless.items()):
            if nameless.next_try <= now:
                self._name(tenant, nameless)
        if now - self._looked_again >= LOOK_AGAIN_SECONDS:
            self._looked_again = now
            self._look_again()

    def close(self) -> None:
        """End the thread that reads state files."""
        self._aside.close()

    # Who it is

    def _find(self, tgid: int, cgroup_id: int) -> _Owner:
        start = start_time(tgid, self._root)
        identity, may_change = self._identify(tgid, cgroup_id)
        if identity.id not in self._tenants:
            self._add(identity, cgroup_id, tgid)
        return _Owner(identity.id, start, may_change)

    def _identify(self, tgid: int, cgroup_id: int) -> tuple[Identity, bool]:
        """Who it is, and whether that may change while the process and its cgroup id stay the same."""
        member = membership(tgid, self._root)
        counted_in = self._path(cgroup_id, member.unified if member else "")
        unified = counted_in or (member.unified if member else "")
        legacy = member.legacy if member else ()
        may_change = member is not None and (bool(legacy) or not counted_in)
        found = parse_best([unified, *legacy])
        if found is not None and found.runtime == "systemd" and may_hold_jobs(found.id.partition(":")[2]):
            # Its processes are of several jobs, and only they can say of which.
            return self._job(tgid) or found, True
        if found is not None:
            uid = found.uid if found.uid is not None or found.kind != "job" else user_id(tgid, self._root)
            return replace(found, uid=uid), may_change
        if unified.strip("/"):
            # A cgroup that somebody made for a purpose of their own: whoever is in it belongs together.
            name = clean(unified.rstrip("/").rpartition("/")[2])
            known = cgroup_id if counted_in else self._id(unified)
            return Identity(f"cgroup:{known}", name, "unit", "", cgroup_path=unified), may_change
        name = process_name(tgid, self._root)
        if name:
            uid = user_id(tgid, self._root)
            return Identity(f"process:{uid or 0}/{name}", name, "process", "", uid=uid), True
        if cgroup_id > ROOT_CGROUP_ID and not counted_in:
            return Identity(f"cgroup:{cgroup_id}", f"cgroup {cgroup_id}", "unit", ""), False
        return Identity("process:ended", "ended processes", "process", ""), False

    def _job(self, tgid: int) -> Identity | None:
        job = None
        with contextlib.suppress(Exception):  # whatever it says: it is called what its cgroup is called
            job = self._aside.call(lambda: job_of(tgid, self._root), PATIENCE_SECONDS)
        return slurm_job(job.id, job.step, user_id(tgid, self._root)) if job is not None else None

    def _path(self, cgroup_id: int, presumed: str) -> str:
        """Path of the cgroup, or empty for the root and for one that is not known."""
        if self._tree is None or cgroup_id <= ROOT_CGROUP_ID:
            return ""
        path = self._tree.path(cgroup_id)
        if path is None and presumed and self._tree.id(presumed) == cgroup_id:
            path = presumed
        if path is None and self._walks_left > 0:
            self._walks_left -= 1
            self._tree.refresh()
            path = self._tree.path(cgroup_id)
        return "" if path in (None, "/") else str(path)

    def _id(self, path: str) -> int:
        return self._tree.id(path) if self._tree is not None else 0

    def _look_again(self) -> None:
        for tgid, owners in list(self._owners.items()):
            changing = [cgroup_id for cgroup_id, owner in owners.items() if owner.may_change]
            start = start_time(tgid, self._root) if changing or 0 in owners else ""
            for cgroup_id in changing:
                if start and start == owners[cgroup_id].start:
                    owners[cgroup_id] = self._find(tgid, cgroup_id)
            if 0 in owners and not start:  # asked for beside the traced ones: nobody will say that it ended
                del owners[0]
            if not owners:
                del self._owners[tgid]
        if len(self._tenants) > MAX_TENANTS:
            used = {owner.tenant for owners in self._owners.values() for owner in owners.values()}
            self._tenants = {key: tenant for key, tenant in self._tenants.items() if key in used}
            self._nameless = {key: value for key, value in self._nameless.items() if key in used}

    # What it is called

    def _add(self, identity: Identity, cgroup_id: int, tgid: int) -> None:
        own_path = identity.cgroup_path
        counted_in = self._tree.path(cgroup_id) if self._tree is not None else None
        self._tenants[identity.id] = Tenant(
            id=identity.id,
            name=identity.name or identity.id,
            kind=identity.kind,
            runtime=identity.runtime,
            container_id=identity.container_id,
            pod=identity.pod,
            pod_uid=identity.pod,
            cgroup_id=cgroup_id if own_path and counted_in == own_path else self._id(own_path),
            cgroup_path=clean(own_path, 4096),
        )
        if identity.kind in ("container", "pod"):
            to_name = identity.runtime not in _NAMED_BY_PATH
        else:  # by its user, save for root's processes: those are called what they call themselves
            to_name = identity.uid is not None and (identity.kind, identity.uid) != ("process", 0)
        if to_name:
            self._name(identity.id, _Nameless(identity, tgid, 0, 0.0))

    def _name(self, tenant: str, nameless: _Nameless) -> None:
        """Look for the name; where it is not there yet, remember to look again."""
        identity = nameless.identity
        self._nameless[tenant] = nameless
        if self._aside.busy:  # held up by an earlier look-up: not this one's fault
            nameless.next_try = self._clock() + 1.0
            return
        try:
            found = self._aside.call(lambda: self._look_up(identity, nameless.tgid), PATIENCE_SECONDS)
        except Exception:  # whatever a state file holds: a name is never worth a row
            found = None
        if found is not None:
            self._tenants[tenant] = replace(
                self._tenants[tenant],
                name=found.shown,
                pod=found.names.pod or identity.pod,
                namespace=found.names.namespace,
                container=found.names.container,
                user=found.user,
                labels=found.names.labels,
            )
        named = found is not None and (
            identity.kind not in ("container", "pod") or found.shown != identity.name
        )
        nameless.tries += 1
        nameless.next_try = self._clock() + 2.0 ** (nameless.tries - 1)
        if named or nameless.tries >= NAME_TRIES:
            del self._nameless[tenant]

    def _look_up(self, identity: Identity, tgid: int) -> _Found:
        """Runs aside, since it reads files and asks daemons."""
        if identity.kind not in ("container", "pod"):
            user = self._files.user(identity.uid or 0)
            job = job_of(tgid, self._root) if identity.kind == "job" else None
            if job is None or identity.id.partition("/")[0] != f"slurm:job_{job.id}":
                return _Found(f"{user} {identity.name}".strip(), user)
            return _Found(f"{user} {identity.name} {job.name}".strip(), user, Names(labels=job.labels))
        user = self._files.user(identity.uid) if identity.uid else ""
        names = self._files.look_up(identity.container_id, identity.pod, identity.uid)
        if identity.runtime in _ASKED and not (names.container and names.labels):
            names = names.filled_from(self._sockets.look_up(identity.container_id, identity.uid))
        own = names.container or (identity.name if identity.kind == "container" else "")
        return _Found("/".join(filter(None, (names.pod, own))) or identity.name, user, names)


def process_name(tgid: int, root: Path = Path("/")) -> str:
    """What the process calls itself (``/proc/PID/comm``), fit to show; empty where it is gone."""
    try:
        return clean((root / f"proc/{tgid}/comm").read_bytes())
    except OSError:
        return ""


def user_id(tgid: int, root: Path = Path("/")) -> int | None:
    """Real user id of the process, or None where it is gone."""
    try:
        status = (root / f"proc/{tgid}/status").read_bytes()
    except OSError:
        return None
    found = re.search(rb"^Uid:\s+(\d{1,10})\b", status, re.MULTILINE)
    return int(found[1]) if found else None


def start_time(tgid: int, root: Path = Path("/")) -> str:
    """When the process started (clock ticks since boot, from ``/proc/PID/stat``); empty where it is gone."""
    try:
        status = (root / f"proc/{tgid}/stat").read_text(errors="replace")
    except OSError:
        return ""
    fields = status.rpartition(")")[2].split()  # the name before it may hold anything
    return fields[19] if len(fields) > 19 else ""
