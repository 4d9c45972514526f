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
from typing import Any, Final

from stalltop.model.text.clean import clean
from stalltop.probes.host.cgroup_files import READERS, Directory, Hierarchy, IoLimit
from stalltop.probes.tenants.cgroups import UNIFIED, mounts

LOOK_AGAIN: Final = 5
"""Number of samples after which it is read again which cgroups a process is in: the process may have been
moved."""
_PATH_LENGTH: Final = 4096
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
    paths: dict[frozenset[str], str]
    """Path of the process's cgroup in each hierarchy, by the names of the hierarchy's controllers."""
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
        self._tenant_of_inode: dict[int, str] = {}

    def look(self, tenants: Mapping[str, tuple[str, Collection[int]]]) -> dict[str, Pressed]:
        """Returns the resources that each tenant used since the previous sample, and the limits of the
        tenant.

        ``tenants`` gives, by tenant id, the path of the tenant's own cgroup ('' if it has none) and the PIDs
        of its processes. Counts of a cgroup that was not read in the previous sample are 0.
        """
        places: dict[str, list[_Place]] = {}
        for tenant, (own, pids) in tenants.items():
            paths = {
                pair for pid in pids for pair in self._paths(pid).items() if pair[0] in self._hierarchies
            }
            places[tenant] = [
                _place(names, self._hierarchies[names].chain(path), _own_path(path, own))
                for names, path in paths
                if names in self._hierarchies
            ]
        present = {pid for _, pids in tenants.values() for pid in pids}
        self._members = {pid: member for pid, member in self._members.items() if pid in present}
        used = {id(directory) for found in places.values() for place in found for directory in place.chain}
        for hierarchy in self._hierarchies.values():
            hierarchy.look(used)
        self._tenant_of_inode = self._block_tenants(places)
        return {tenant: _pressed(found) for tenant, found in places.items()}

    def _block_tenants(self, places: Mapping[str, Iterable[_Place]]) -> dict[int, str]:
        """Returns, by inode number, the tenant of each cgroup that only one tenant uses, in the hierarchy of
        the block controller."""
        tenants: dict[int, set[str]] = {}
        for tenant, found in places.items():
            for place in found:
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
            hierarchy.look(set())

    def _paths(self, pid: int) -> dict[frozenset[str], str]:
        member = self._members.get(pid)
        if member is None or (member.looks + pid) % LOOK_AGAIN == 0:
            paths = self._read_paths(pid)
            # A process that has ended keeps its cgroups: their last counts are still to be read.
            if paths or member is None:
                member = self._members[pid] = _Member(paths, member.looks if member else 0)
        member.looks += 1
        return member.paths

    def _read_paths(self, pid: int) -> dict[frozenset[str], str]:
        try:
            text = (self._root / f"proc/{pid}/cgroup").read_text(errors="surrogateescape")
        except OSError:
            return {}
        lines = (line.split(":", 2) for line in text.splitlines())
        return {
            frozenset(filter(None, line[1].split(","))): line[2]
            for line in lines
            if len(line) == 3 and ".." not in line[2].split("/")
        }


def _place(names: frozenset[str], chain: list[Directory], own: str) -> _Place:
    return _Place(names, chain, [directory for directory in chain if own and len(directory.path) >= len(own)])


def _own_path(path: str, own: str) -> str:
    """Returns ``own``, the path of the tenant's own cgroup, if it contains or equals ``path``, the path of
    the cgroup of one of the tenant's processes; otherwise ''."""
    return own if own and (path == own or path.startswith(own + "/")) else ""


def _pressed(places: Iterable[_Place]) -> Pressed:
    every = _each(directory for place in places for directory in place.chain)
    # The result has the quota that throttled longest or, if none throttled, the lowest quota. Of the memory
    # limits, it has the one that is closest to being reached.
    throttled = max(every, key=lambda directory: directory.rise("throttled_ns"), default=None)
    quota = min(
        (directory for directory in every if directory.now.quota is not None),
        key=lambda directory: (-directory.rise("throttled_ns"), directory.now.quota or 0.0),
        default=None,
    )
    if quota is not None and not quota.rise("throttled_ns"):
        throttled = quota
    memory = max(
        (directory for directory in every if directory.now.limit_bytes),
        key=lambda directory: (directory.now.used_bytes or 0) / (directory.now.limit_bytes or 1),
        default=None,
    )
    cpu_from, memory_from = quota or _home(places, "cpu"), memory or _home(places, "memory")
    kills = _oom_kills(places)
    used = [memory.now.used_bytes] if memory else _own(places, "used_bytes", ("memory",))
    usage = _own(places, "usage_ns", ("cpuacct",), rise=True)
    return Pressed(
        cpu_ns=sum(usage) if usage else None,
        periods=throttled.rise("periods") if throttled else 0,
        throttled_periods=throttled.rise("throttled_periods") if throttled else 0,
        throttled_ns=throttled.rise("throttled_ns") if throttled else 0,
        oom_kills=kills,
        refaults=sum(_own(places, "refaults", ("memory",), rise=True)),
        limit_hits=sum(directory.rise("limit_hits") for directory in every),
        # Cgroup files do not show the cause of an OOM kill. If a kill and a failure at the limit fall into
        # the same sample, the limit is assumed to be the cause.
        limit_kills=kills if any(directory.rise("limit_failures") for directory in every) else 0,
        cpu_quota=quota.now.quota if quota else None,
        quota_cgroup=clean(quota.path, _PATH_LENGTH) if quota else "",
        memory_used_bytes=sum(filter(None, used)) if used else None,
        memory_limit_bytes=memory.now.limit_bytes if memory else None,
        memory_cgroup=clean(memory.path, _PATH_LENGTH) if memory else "",
        **_folder("cpu", cpu_from),
        **_folder("memory", memory_from),
        cpuset=_cpuset(places),
        io_limits=_tightest(every),
    )


def _home(places: Iterable[_Place], controller: str) -> Directory | None:
    """Returns the tenant's own cgroup in the hierarchy of ``controller``; None if there is none."""
    own = [place for place in places if place.within]
    legacy = [place for place in own if controller in place.names]
    unified = [place for place in own if place.names == UNIFIED and place.within[-1].has(f"{controller}.max")]
    return next((place.within[-1] for place in (*legacy, *unified)), None)


def _folder(controller: str, directory: Directory | None) -> dict[str, Any]:
    """Returns the fields of ``Pressed`` with the directory of the cgroup's files and the cgroup version.
    Returns no fields if the path contains characters that cannot safely be displayed and typed."""
    if directory is None or clean(directory.place, _PATH_LENGTH) != directory.place:
        return {}
    return {f"{controller}_folder": directory.place, f"{controller}_version": directory.version}


def _cpuset(places: Iterable[_Place]) -> str:
    """Returns the CPU list of the tenant's own cgroup. If the tenant has no own cgroup, returns the CPU list
    of its processes' cgroup. Returns '' if the list is unknown, or if several such cgroups have different
    lists."""
    found = set()
    for place in places:
        above = place.chain[place.chain.index(place.within[-1]) :] if place.within else place.chain
        # In cgroup v2, a cgroup without the cpuset controller uses the CPUs of its ancestor.
        found.add(next((directory.now.cpuset for directory in above if directory.now.cpuset), ""))
    found.discard("")
    return found.pop() if len(found) == 1 else ""


def _each(directories: Iterable[Directory]) -> list[Directory]:
    return list({id(directory): directory for directory in directories}.values())


def _own(
    places: Iterable[_Place], figure: str, controllers: Collection[str], *, rise: bool = False
) -> list[int]:
    """Returns ``figure`` of each of the tenant's own cgroups. If cgroup v2 has the figure, these are the
    cgroups of v2; otherwise those in the v1 hierarchies of ``controllers``. With ``rise``, returns by how
    much the figure rose since the previous sample."""
    for wanted in (UNIFIED, frozenset(controllers)):
        own = _each(
            place.within[-1]
            for place in places
            if place.within and (place.names == wanted or place.names & wanted)
        )
        own = [directory for directory in own if getattr(directory.now, figure) is not None]
        if own:
            return [directory.rise(figure) if rise else getattr(directory.now, figure) for directory in own]
    return []


def _oom_kills(places: Iterable[_Place]) -> int:
    """Returns the number of the tenant's OOM kills since the previous sample.

    cgroup v2 counts a kill in all ancestors too, so only the tenant's topmost cgroup is used. cgroup v1
    counts a kill only in the process's own cgroup, so all cgroups are added up.
    """
    unified = _each(place.within[-1] for place in places if place.within and place.names == UNIFIED)
    legacy = _each(directory for place in places if place.names != UNIFIED for directory in place.within)
    return sum(directory.rise("oom_kills") for directory in (*unified, *legacy))


def _tightest(directories: Iterable[Directory]) -> dict[tuple[int, bool], IoLimit]:
    found: dict[tuple[int, bool], IoLimit] = {}
    for directory in directories:
        for key, limit in directory.now.io_limits.items():
            other = found.get(key, limit)
            found[key] = min(limit, other, key=lambda limit: limit.least_ns(_TYPICAL_BYTES, 1))
    return found
