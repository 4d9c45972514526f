"""Finds the tenant of a call, from the process id and cgroup id under which it was counted."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from stalltop.model.tenant import Tenant
from stalltop.model.text.clean import clean
from stalltop.model.window import Missing
from stalltop.probes.aside import Aside
from stalltop.probes.tenants.cgroups import CgroupTree, layout, membership
from stalltop.probes.tenants.jobs import Job, may_hold_jobs
from stalltop.probes.tenants.name_lookups import LookUp, NameLookUps, NamesHere, NameSources
from stalltop.probes.tenants.patterns import Identity, parse_best, slurm_job

ROOT_CGROUP_ID = 1
"""Inode of the root of the v2 hierarchy, which identifies no tenant."""
OWN_NAME: Final = "stalltop"
"""Name of stalltop's own process, whose ``/proc/PID/comm`` may be that of Python."""
ENDED: Final = "process:ended"
"""Id of the tenant to which calls are attributed if their process has ended and its tenant is unknown."""
PATIENCE_SECONDS = 0.2
"""Maximum time spent waiting for names between two refreshes, s. Names that take longer are shown once they
arrive."""
NAME_TRIES = 6
"""Maximum number of times that a missing name is looked up. A state file may be written some time after the
container starts, so the delay doubles after each look-up."""
UNANSWERED_SECONDS = 20.0
"""Seconds until the next look-up of a name after a look-up that got no answer. Such look-ups do not count as
tries."""
LOOK_AGAIN_SECONDS = 5.0
"""Seconds after which a process is read again if its cgroup id alone does not identify its tenant. The tenant
then depends on the process's cgroup paths, environment or name, which can change."""
MAX_WALKS = 10
"""Maximum number of walks of the cgroup tree for unknown ids between two refreshes."""
MAX_TENANTS = 2048
"""If there are more tenants than this, those without processes are forgotten."""
_NAMED_BY_PATH = ("lxc", "systemd")


@dataclass(slots=True)
class _Owner:
    """What is known of one pair of process and cgroup id."""

    tenant: str
    start: str
    """Start time of the process from /proc, which distinguishes it from a later process with the same PID."""
    may_change: bool


@dataclass(slots=True)
class _Nameless:
    identity: Identity
    tgid: int
    """A process of the tenant."""
    tries: int
    next_try: float
    asked: LookUp | None = None
    """The look-up that is under way."""


class Tenants:
    """Finds tenants and remembers them until `forget`. Used from one thread.

    No method raises. Between two refreshes, the methods wait at most `PATIENCE_SECONDS` in all: a tenant
    whose name is not known yet is shown by a short id, and gets its name once that arrives.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
        *,
        sources: NameSources | None = None,
    ) -> None:
        """``root`` contains ``/proc`` and ``/sys``. ``sources``: where names are looked up; by default in
        files below ``root``, in this process."""
        self._root = root
        self._clock = clock
        mount = layout(root).unified
        self._tree = CgroupTree(mount) if mount else None
        self._sources = NamesHere(root, root) if sources is None else sources
        self._names = NameLookUps(self._sources)
        self._jobs = Aside("jobs")
        self._patience = PATIENCE_SECONDS
        """Seconds for which names can still be waited for until the next refresh."""
        self._owners: dict[int, dict[int, _Owner]] = {}
        self._tenants: dict[str, Tenant] = {}
        self._nameless: dict[str, _Nameless] = {}
        self._looked_again = clock()
        self._walks_left = MAX_WALKS

    def find(self, tgid: int, cgroup_id: int) -> Tenant:
        """Returns the tenant of calls of process ``tgid`` in cgroup ``cgroup_id`` (0 if that is not known).

        For the same process and cgroup, the answer stays the same until `forget`, with two exceptions: a name
        may become known, and a process may get another tenant if ``cgroup_id`` alone does not identify its
        tenant. The tenant then also depends on the process's cgroup paths, environment or name.
        """
        owner = self._owners.get(tgid, {}).get(cgroup_id)
        if owner is None:
            owner = self._find(tgid, cgroup_id)
            self._owners.setdefault(tgid, {})[cgroup_id] = owner
        return self._tenants[owner.tenant]

    def holder(self, tgid: int) -> str:
        """Returns the id of the tenant of a process that the GPU driver lists; '' if there is no such process
        (any more)."""
        tenant = self.find(tgid, 0).id
        if tenant != ENDED:
            return tenant
        self._owners[tgid].pop(0)  # The owner is not kept, because the PID may soon be used again.
        if not self._owners[tgid]:
            del self._owners[tgid]
        return ""

    def missing(self) -> tuple[Missing, ...]:
        """Returns the look-ups of names that have had no answer for long."""
        return self._names.missing()

    def forget(self, tgid: int) -> None:
        """Forgets a process that has ended and whose last counts were read."""
        self._owners.pop(tgid, None)

    def made(self, cgroups: Mapping[int, str]) -> None:
        """Notes the paths of cgroups that were made since `refresh`, by their ids."""
        if self._tree is not None:
            self._tree.made(cgroups)

    def refresh(self) -> None:
        """Updates the known cgroups, and takes or looks up missing names. Called once a second."""
        if self._tree is not None:
            self._tree.refresh()
        self._walks_left = MAX_WALKS
        self._patience = PATIENCE_SECONDS
        now = self._clock()
        due = {tenant: one for tenant, one in self._nameless.items() if one.asked or one.next_try <= now}
        used = self._used() if due else set()
        for tenant, nameless in due.items():
            if nameless.asked is not None:
                self._take(tenant, nameless)
            elif tenant in used:
                self._name(tenant, nameless)
            else:  # A container that has ended gets no name any more.
                del self._nameless[tenant]
        if now - self._looked_again >= LOOK_AGAIN_SECONDS:
            self._looked_again = now
            self._look_again()

    def close(self) -> None:
        """Ends the threads that look names up."""
        self._names.close()
        self._jobs.close()

    # Identifying the tenant of a process

    def _find(self, tgid: int, cgroup_id: int, start: str = "") -> _Owner:
        start = start or start_time(tgid, self._root)
        identity, may_change = self._identify(tgid, cgroup_id)
        if identity.id not in self._tenants:
            self._add(identity, cgroup_id, tgid)
        return _Owner(identity.id, start, may_change)

    def _identify(self, tgid: int, cgroup_id: int) -> tuple[Identity, bool]:
        """Returns the identity of the tenant, and whether it may change while the process and its cgroup id
        stay the same."""
        member = membership(tgid, self._root)
        counted_in = self._path(cgroup_id, member.unified if member else "")
        unified = counted_in or (member.unified if member else "")
        legacy = member.legacy if member else ()
        may_change = member is not None and (bool(legacy) or not counted_in)
        found = parse_best([unified, *legacy])
        if found is not None and found.runtime == "systemd" and may_hold_jobs(found.id.partition(":")[2]):
            # The processes of this unit belong to several jobs. Only the environment of a process names its
            # job.
            job = self._job(tgid)
            return slurm_job(job.id, job.step, user_id(tgid, self._root)) if job else found, True
        if found is not None:
            uid = found.uid if found.uid is not None or found.kind != "job" else user_id(tgid, self._root)
            return found if uid == found.uid else replace(found, uid=uid), may_change
        if unified.strip("/"):
            # A cgroup that no pattern matches is a tenant of its own: someone made it to group these
            # processes.
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
            uid = user_id(tgid, self._root)
            return self._jobs.call(lambda: self._sources.job(tgid, uid), self._patience)
        except Exception:  # If the job cannot be found, the tenant is named by its cgroup.
            return None
        finally:
            self._spend(began)

    def _path(self, cgroup_id: int, presumed: str) -> str:
        """Returns the path of cgroup ``cgroup_id``; '' for the root and for an unknown cgroup. ``presumed``
        is the path of the process's own cgroup. If this is the right path, the cgroup tree need not be
        walked."""
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
                    again = self._find(tgid, cgroup_id, start)
                    # If the look-up of the job is still under way, ``again`` lacks the job, so the owner
                    # stays as it is.
                    if not self._jobs.busy:
                        owners[cgroup_id] = again
            # If a process has cgroup id 0, it is not traced. Its end is not reported, and its PID may be used
            # again.
            if 0 in owners and (not start or start != owners[0].start):
                del owners[0]
            if not tgid and self._tree is not None:
                # No process reports the end of a cgroup that was asked for without one.
                for cgroup_id in [cgroup_id for cgroup_id in owners if not self._tree.has(cgroup_id)]:
                    del owners[cgroup_id]
            if not owners:
                del self._owners[tgid]
        if len(self._tenants) > MAX_TENANTS:
            used = self._used()
            self._tenants = {key: tenant for key, tenant in self._tenants.items() if key in used}
            self._nameless = {key: value for key, value in self._nameless.items() if key in used}

    def _used(self) -> set[str]:
        """Returns the ids of the tenants that have processes."""
        return {owner.tenant for owners in self._owners.values() for owner in owners.values()}

    # Names of tenants

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
        else:  # Such tenants are named by their user. Only root's processes are shown by their own names.
            to_name = identity.uid is not None and (identity.kind, identity.uid) != ("process", 0)
        if to_name:
            self._name(identity.id, _Nameless(identity, tgid, 0, 0.0))

    def _name(self, tenant: str, nameless: _Nameless) -> None:
        """Looks up the name of a tenant. If it is not found, a later look-up follows."""
        self._nameless[tenant] = nameless
        nameless.asked, at_once = self._names.ask(nameless.identity, nameless.tgid)
        if at_once:  # If other look-ups come first, `refresh` takes the name later.
            began = time.monotonic()
            nameless.asked.wait(self._patience)
            self._spend(began)
            self._take(tenant, nameless)

    def _spend(self, began: float) -> None:
        self._patience = max(self._patience - (time.monotonic() - began), 0.0)

    def _take(self, tenant: str, nameless: _Nameless) -> None:
        """Takes the name that was found, if the look-up is done."""
        if nameless.asked is None or not nameless.asked.wait(0.0):
            return
        if nameless.asked.unanswered:
            nameless.asked, nameless.next_try = None, self._clock() + UNANSWERED_SECONDS
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
    """Returns the name of the process (``/proc/PID/comm``), safe to display; '' if it is gone. stalltop's own
    process is always named ``stalltop``."""
    if tgid == os.getpid() and root == Path("/"):
        return OWN_NAME
    try:
        return clean(_read(tgid, "comm", root))
    except OSError:
        return ""


def user_id(tgid: int, root: Path = Path("/")) -> int | None:
    """Returns the real user id of the process, or None if it is gone."""
    try:
        status = _read(tgid, "status", root)
    except OSError:
        return None
    found = re.search(rb"^Uid:\s+(\d{1,10})\b", status, re.MULTILINE)
    return int(found[1]) if found else None


def start_time(tgid: int, root: Path = Path("/")) -> str:
    """Returns when the process started (clock ticks since boot, from ``/proc/PID/stat``); '' if it is
    gone."""
    try:
        status = _read(tgid, "stat", root)
    except OSError:
        return ""
    fields = status.rpartition(b")")[2].split()  # The name, in parentheses, may contain any characters.
    return fields[19].decode(errors="replace") if len(fields) > 19 else ""


def _read(tgid: int, name: str, root: Path) -> bytes:
    """Returns the content of ``/proc/TGID/NAME``. Raises OSError. A path as text, and a file without a
    buffer, take a third of the time of a Path: this runs for each process every few seconds."""
    with open(f"{root}/proc/{tgid}/{name}", "rb", buffering=0) as file:
        return file.read()
