"""Reads what cgroups use (CPU time, memory) and what limits them: CPU quotas, memory limits, block I/O
limits.

cgroup v2 is one hierarchy, cgroup v1 has several, and a process is in one cgroup of each hierarchy. A limit
may be set on that cgroup or on any of its ancestors, so all of these are read. A cgroup that several tenants
share is read once per sample.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stalltop.probes.host.cgroup_files import READERS, Directory, Hierarchy, IoLimit
from stalltop.probes.tenants.cgroups import UNIFIED, mounts

LOOK_AGAIN: Final = 5
"""Number of samples after which it is read again which cgroups a process is in: the process may have been
moved."""
_TYPICAL_BYTES: Final = 64 * 1024
"""Assumed size of a request in bytes, to compare a limit in bytes/s with a limit in requests/s."""

IoLimits = Mapping[tuple[int, bool], IoLimit]
"""I/O limits by device (major << 20 | minor) and whether they are for writes."""


@dataclass(frozen=True, slots=True)
class Pressed:
    """Cgroup figures of one tenant: counts are since the previous sample, all other figures are as of now.
    The fields mean the same as in TenantUse."""

    cpu_ns: int | None = None
    """CPU time of the tenant; None if the tenant has no cgroup of its own."""
    periods: int = 0
    throttled_periods: int = 0
    throttled_ns: int = 0
    oom_kills: int = 0
    refaults: int = 0
    limit_hits: int = 0
    limit_kills: int = 0
    cpu_quota: float | None = None
    quota_cgroup: str = ""
    memory_used_bytes: int | None = None
    memory_limit_bytes: int | None = None
    memory_cgroup: str = ""
    cpu_folder: str = ""
    cpu_version: int = 0
    memory_folder: str = ""
    memory_version: int = 0
    cpuset: str = ""
    io_limits: IoLimits = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Place:
    """The cgroups, in one hierarchy, of some processes of a tenant."""

    names: frozenset[str]
    """Names of the hierarchy's controllers."""
    chain: list[Directory]
    """The processes' cgroup and its ancestors, from the bottom up."""

    within: list[Directory]
    """The cgroups of the chain that only this tenant uses."""


@dataclass(slots=True)
class _Member:
    cgroups: tuple[tuple[frozenset[str], str], ...]
    """The process's cgroups: the names of the hierarchy's controllers, and the path in the hierarchy."""
    looks: int = 0


class Pressures:
    """Samples the cgroups of tenants, once a second. Used from one thread."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._hierarchies = {
            names: Hierarchy(mount, sorted(names & READERS.keys()) if names else [""])
            for names, mount in mounts(root).items()
            if names == UNIFIED or names & READERS.keys()
        }
        self.block_is_unified = not any("blkio" in names for names in self._hierarchies)
        """Whether cgroup v2 has the block controller."""
        self._members: dict[int, _Member] = {}
        self._homes: dict[str, _Home] = {}
        self._tenant_of_inode: dict[int, str] = {}

    def look(self, tenants: Mapping[str, tuple[str, Collection[int]]]) -> dict[str, Pressed]:
        """Returns the resources that each tenant used since the previous sample, and the limits of the
        tenant.

        ``tenants`` gives, by tenant id, the path of the tenant's own cgroup ('' if it has none) and the PIDs
        of its processes. Counts of a cgroup that was not read in the previous sample are 0.
        """
        before, self._homes = self._homes, {}
        for tenant, (own, pids) in tenants.items():
            cgroups = own, frozenset(cgroup for pid in pids for cgroup in self._cgroups(pid))
            home = before.get(tenant)
            if home is None or home.cgroups != cgroups:
                home = _Home(cgroups, self._places(*cgroups))
            self._homes[tenant] = home
        present = {pid for _, pids in tenants.values() for pid in pids}
        self._members = {pid: member for pid, member in self._members.items() if pid in present}
        if self._homes != before:
            used = {id(directory) for home in self._homes.values() for directory in home.every}
            for hierarchy in self._hierarchies.values():
                hierarchy.keep(used)
            self._tenant_of_inode = self._block_tenants()
        for hierarchy in self._hierarchies.values():
            hierarchy.look()
        return {tenant: home.pressed() for tenant, home in self._homes.items()}

    def _places(self, own: str, cgroups: Iterable[tuple[frozenset[str], str]]) -> list[_Place]:
        return [
            _place(names, self._hierarchies[names].chain(path), _own_path(path, own))
            for names, path in cgroups
        ]

    def _block_tenants(self) -> dict[int, str]:
        """Returns, by inode number, the tenant of each cgroup that only one tenant uses, in the hierarchy of
        the block controller."""
        tenants: dict[int, set[str]] = {}
        for tenant, home in self._homes.items():
            for place in home.places:
                if place.names == UNIFIED if self.block_is_unified else "blkio" in place.names:
                    for directory in place.chain:
                        tenants.setdefault(directory.inode, set()).add(tenant)
        return {inode: next(iter(users)) for inode, users in tenants.items() if len(users) == 1}

    def tenant_of_block_cgroup(self, inode: int) -> str | None:
        """Returns the tenant of the cgroup that had this inode number in the last sample, in the block
        controller's hierarchy; None if there is none, or if several tenants use the cgroup."""
        return self._tenant_of_inode.get(inode)

    def close(self) -> None:
        """Closes all files. May be called twice."""
        for hierarchy in self._hierarchies.values():
            hierarchy.keep(set())
        self._homes = {}

    def _cgroups(self, pid: int) -> tuple[tuple[frozenset[str], str], ...]:
        member = self._members.get(pid)
        if member is None or (member.looks + pid) % LOOK_AGAIN == 0:
            cgroups = self._read_cgroups(pid)
            # A process that has ended keeps its cgroups: their last counts are still to be read.
            if cgroups or member is None:
                member = self._members[pid] = _Member(cgroups, member.looks if member else 0)
        member.looks += 1
        return member.cgroups

    def _read_cgroups(self, pid: int) -> tuple[tuple[frozenset[str], str], ...]:
        try:
            with open(f"{self._root}/proc/{pid}/cgroup", "rb", buffering=0) as file:
                text = file.read().decode(errors="surrogateescape")
        except OSError:
            return ()
        lines = (line.split(":", 2) for line in text.splitlines())
        paths = {
            frozenset(filter(None, line[1].split(","))): line[2]
            for line in lines
            if len(line) == 3 and ".." not in line[2].split("/")
        }
        return tuple((names, path) for names, path in paths.items() if names in self._hierarchies)


def _place(names: frozenset[str], chain: list[Directory], own: str) -> _Place:
    return _Place(names, chain, [directory for directory in chain if own and len(directory.path) >= len(own)])


def _own_path(path: str, own: str) -> str:
    """Returns ``own``, the path of the tenant's own cgroup, if it contains or equals ``path``, the path of
    the cgroup of one of the tenant's processes; otherwise ''."""
    return own if own and (path == own or path.startswith(own + "/")) else ""


class _Home:
    """The cgroups of one tenant, and which of them say what. That is found again if a limit or a file of a
    cgroup changes."""

    def __init__(
        self, cgroups: tuple[str, frozenset[tuple[frozenset[str], str]]], places: list[_Place]
    ) -> None:
        self.cgroups = cgroups
        self.places = places
        self.every = _each(directory for place in places for directory in place.chain)
        self._revisions: list[int] | None = None

    def pressed(self) -> Pressed:
        """Returns the tenant's figures after its cgroups were read."""
        revisions = [directory.revision for directory in self.every]
        if revisions != self._revisions:
            self._revisions = revisions
            self._find()
        # The result has the quota that throttled longest or, if none throttled, the lowest quota. Of the
        # memory limits, it has the one that is closest to being reached.
        throttled = max(self._cpu, key=lambda directory: directory.rise("throttled_ns"), default=None)
        quota = min(
            self._quotas,
            key=lambda directory: (-directory.rise("throttled_ns"), directory.settings.quota or 0.0),
            default=None,
        )
        if quota is not None and not quota.rise("throttled_ns"):
            throttled = quota
        memory = max(
            self._limits,
            key=lambda directory: (directory.now.used_bytes or 0) / (directory.settings.limit_bytes or 1),
            default=None,
        )
        cpu_from, memory_from = quota or self._cpu_home, memory or self._memory_home
        kills = sum(directory.rise("oom_kills") for directory in self._kills)
        used = [memory.now.used_bytes] if memory else _first(self._memory, "used_bytes")
        usage = _first(self._usage, "usage_ns", rise=True)
        return Pressed(
            cpu_ns=sum(filter(None, usage)) if usage else None,
            periods=throttled.rise("periods") if throttled else 0,
            throttled_periods=throttled.rise("throttled_periods") if throttled else 0,
            throttled_ns=throttled.rise("throttled_ns") if throttled else 0,
            oom_kills=kills,
            refaults=sum(filter(None, _first(self._memory, "refaults", rise=True))),
            limit_hits=sum(directory.rise("limit_hits") for directory in self._limited),
            # Cgroup files do not show the cause of an OOM kill. If a kill and a failure at the limit fall
            # into the same sample, the limit is assumed to be the cause.
            limit_kills=kills if any(each.rise("limit_failures") for each in self._limited) else 0,
            cpu_quota=quota.settings.quota if quota else None,
            quota_cgroup=quota.shown_path if quota else "",
            memory_used_bytes=sum(filter(None, used)) if used else None,
            memory_limit_bytes=memory.settings.limit_bytes if memory else None,
            memory_cgroup=memory.shown_path if memory else "",
            cpu_folder=cpu_from.place if cpu_from and cpu_from.typable else "",
            cpu_version=cpu_from.version if cpu_from and cpu_from.typable else 0,
            memory_folder=memory_from.place if memory_from and memory_from.typable else "",
            memory_version=memory_from.version if memory_from and memory_from.typable else 0,
            cpuset=self._cpuset,
            io_limits=self._io_limits,
        )

    def _find(self) -> None:
        every, places = self.every, self.places
        self._cpu = [directory for directory in every if directory.has("cpu.stat")] or every
        self._quotas = [directory for directory in every if directory.settings.quota is not None]
        self._limits = [directory for directory in every if directory.settings.limit_bytes]
        self._limited = [
            directory
            for directory in every
            if directory.has("memory.events") or directory.has("memory.failcnt")
        ]
        self._cpu_home, self._memory_home = _home(places, "cpu"), _home(places, "memory")
        self._memory, self._usage = _own(places, "memory"), _own(places, "cpuacct")
        self._kills = _killing(places)
        self._cpuset = _cpuset(places)
        self._io_limits = _tightest(every)


def _home(places: Iterable[_Place], controller: str) -> Directory | None:
    """Returns the tenant's own cgroup in the hierarchy of ``controller``; None if there is none."""
    own = [place for place in places if place.within]
    legacy = [place for place in own if controller in place.names]
    unified = [place for place in own if place.names == UNIFIED and place.within[-1].has(f"{controller}.max")]
    return next((place.within[-1] for place in (*legacy, *unified)), None)


def _cpuset(places: Iterable[_Place]) -> str:
    """Returns the CPU list of the tenant's own cgroup. If the tenant has no own cgroup, returns the CPU list
    of its processes' cgroup. Returns '' if the list is unknown, or if several such cgroups have different
    lists."""
    found = set()
    for place in places:
        above = place.chain[place.chain.index(place.within[-1]) :] if place.within else place.chain
        # In cgroup v2, a cgroup without the cpuset controller uses the CPUs of its ancestor.
        found.add(next((directory.settings.cpuset for directory in above if directory.settings.cpuset), ""))
    found.discard("")
    return found.pop() if len(found) == 1 else ""


def _each(directories: Iterable[Directory]) -> list[Directory]:
    return list({id(directory): directory for directory in directories}.values())


def _own(places: Iterable[_Place], controller: str) -> tuple[list[Directory], list[Directory]]:
    """Returns the tenant's own cgroups: those of cgroup v2, and those in the v1 hierarchy of
    ``controller``."""
    own = [place for place in places if place.within]
    return (
        _each(place.within[-1] for place in own if place.names == UNIFIED),
        _each(place.within[-1] for place in own if controller in place.names),
    )


def _first(kinds: Iterable[list[Directory]], figure: str, *, rise: bool = False) -> list[int | None]:
    """Returns ``figure`` of each directory of the first of ``kinds`` that has the figure. With ``rise``,
    returns by how much the figure rose since the previous sample."""
    for directories in kinds:
        having = [directory for directory in directories if getattr(directory.now, figure) is not None]
        if having:
            return [
                directory.rise(figure) if rise else getattr(directory.now, figure) for directory in having
            ]
    return []


def _killing(places: Iterable[_Place]) -> list[Directory]:
    """Returns the cgroups whose OOM kills are those of the tenant.

    cgroup v2 counts a kill in all ancestors too, so only the tenant's topmost cgroup is used. cgroup v1
    counts a kill only in the process's own cgroup, so all cgroups are added up.
    """
    unified = _each(place.within[-1] for place in places if place.within and place.names == UNIFIED)
    legacy = _each(directory for place in places if "memory" in place.names for directory in place.within)
    return [*unified, *legacy]


def _tightest(directories: Iterable[Directory]) -> dict[tuple[int, bool], IoLimit]:
    found: dict[tuple[int, bool], IoLimit] = {}
    for directory in directories:
        for key, limit in directory.settings.io_limits.items():
            other = found.get(key, limit)
            found[key] = min(limit, other, key=lambda limit: limit.least_ns(_TYPICAL_BYTES, 1))
    return found
