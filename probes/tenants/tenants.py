"""Whose call it was: from the process id and cgroup id that the kernel counted it under, to a tenant."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from stalltop.model.tenant import Tenant
from stalltop.model.text.clean import clean
from stalltop.model.window import Missing
from stalltop.probes.aside import Aside
from stalltop.probes.tenants.cgroups import CgroupTree, layout, membership
from stalltop.probes.tenants.jobs import Job, job_of, may_hold_jobs
from stalltop.probes.tenants.name_lookups import LookUp, NameLookUps
from stalltop.probes.tenants.patterns import Identity, parse_best, slurm_job

ROOT_CGROUP_ID = 1
"""Inode of the root of the v2 hierarchy: says nothing about who it is."""
ENDED: Final = "process:ended"
"""Id of the tenant of calls by processes of which nothing is left to tell whose they were."""
PATIENCE_SECONDS = 0.2
"""How long names may be waited for between two refreshes; slower ones are shown when they are there."""
NAME_TRIES = 6
"""Look-ups of a name that is not there yet (state files are written after a start), each twice as late."""
LOOK_AGAIN_SECONDS = 5.0
"""How often a process that is known by its own name, or by cgroup v1, is looked at again: both can change."""
MAX_WALKS = 10
"""Walks of the cgroup tree, between two refreshes, for ids that are not known."""
MAX_TENANTS = 2048
"""Tenants remembered although no process of theirs is."""
_NAMED_BY_PATH = ("lxc", "systemd")


@dataclass(slots=True)
class _Owner:
    """What is known of one (process, cgroup id)."""

    tenant: str
    start: str
    """Start time of the process as /proc tells it, so that its number's next user is not taken for it."""
    may_change: bool


@dataclass(slots=True)
class _Nameless:
    identity: Identity
    tgid: int
    """A process of it."""
    tries: int
    next_try: float
    asked: LookUp | None = None
    """The look-up that is under way."""


class Tenants:
    """Finds tenants and remembers them until `forget`. Used from one thread.

    Nothing here raises, and between two refreshes nothing waits longer than `PATIENCE_SECONDS` in all: what
    cannot be found out is told by a short id, and named once the name is there.
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
        self._names = NameLookUps(root, root if files is None else files)
        self._jobs = Aside("jobs")
        self._patience = PATIENCE_SECONDS
        """What is left of it until the next refresh, s."""
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

    def holder(self, tgid: int) -> str:
        """The tenant (id) of a process that a driver lists; empty where there is no such process (any more):
        whose it was cannot be known."""
        tenant = self.find(tgid, 0).id
        if tenant != ENDED:
            return tenant
        self._owners[tgid].pop(0)  # the number may be another's soon
        if not self._owners[tgid]:
            del self._owners[tgid]
        return ""

    def missing(self) -> tuple[Missing, ...]:
        """Whose names have been waited for for long."""
        return self._names.missing()

    def forget(self, tgid: int) -> None:
        """The process has ended and its last counts were read."""
        self._owners.pop(tgid, None)

    def refresh(self) -> None:
        """Catch up with cgroups made and removed, and with names not known so far; call it once a second."""
        if self._tree is not None:
            self._tree.refresh()
        self._walks_left = MAX_WALKS
        self._patience = PATIENCE_SECONDS
        now = self._clock()
        for tenant, nameless in list(self._nameless.items()):
            if nameless.asked is not None:
                self._take(tenant, nameless)
            elif nameless.next_try <= now:
                self._name(tenant, nameless)
        if now - self._looked_again >= LOOK_AGAIN_SECONDS:
            self._looked_again = now
            self._look_again()

    def close(self) -> None:
        """End the threads that look for names."""
        self._names.close()
        self._jobs.close()

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
            job = self._job(tgid)
            return slurm_job(job.id, job.step, user_id(tgid, self._root)) if job else found, True
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
        return Identity(ENDED, "ended processes", "process", ""), False

    def _job(self, tgid: int) -> Job | None:
        began = time.monotonic()
        try:
            return self._jobs.call(lambda: job_of(tgid, self._root), self._patience)
        except Exception:  # whatever it says: it is called what its cgroup is called
            return None
        finally:
            self._spend(began)

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
                if start and start == owners[cgroup_id].start and not self._jobs.busy:
                    again = self._find(tgid, cgroup_id)
                    if not self._jobs.busy:  # else it did not answer, which changes nothing
                        owners[cgroup_id] = again
            # Asked for beside the traced ones: nobody says that it ended, and another may have its number.
            if 0 in owners and (not start or start != owners[0].start):
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
        self._nameless[tenant] = nameless
        nameless.asked, at_once = self._names.ask(nameless.identity, nameless.tgid)
        if at_once:  # else others are before it: it is taken when it is there
            began = time.monotonic()
            nameless.asked.wait(self._patience)
            self._spend(began)
            self._take(tenant, nameless)

    def _spend(self, began: float) -> None:
        self._patience = max(self._patience - (time.monotonic() - began), 0.0)

    def _take(self, tenant: str, nameless: _Nameless) -> None:
        """Take the name that was found, if the look-up is done."""
        if nameless.asked is None or not nameless.asked.wait(0.0):
            return
        identity, found, nameless.asked = nameless.identity, nameless.asked.found, None
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
