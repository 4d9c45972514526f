"""Reads cgroup directories and their files, for cgroup v1 and v2 alike."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stalltop.probes.tenants.cgroups import Mount

UNLIMITED_BYTES: Final = 1 << 62
"""A memory limit of cgroup v1 of at least this many bytes means that there is no limit: v1 then shows a
number of about 2^63."""
OPEN_AGAIN: Final = 10
"""A missing file is looked for again after this many samples."""
_FILE_BYTES: Final = 4096


class IoLimit(NamedTuple):
    """Limits of a cgroup for one device in one direction. A limit of None means that there is none."""

    bytes_per_s: int | None
    requests_per_s: int | None
    cgroup: str = ""
    """Path of the cgroup that has this limit."""

    def least_ns(self, bytes_moved: int, requests: int) -> int:
        """Returns the shortest time, in ns, in which the limit allows ``requests`` requests that move
        ``bytes_moved`` bytes in total."""
        times = [
            amount * 1_000_000_000 // limit
            for amount, limit in ((bytes_moved, self.bytes_per_s), (requests, self.requests_per_s))
            if limit
        ]
        return max(times, default=0)


@dataclass(slots=True)
class CgroupFigures:
    """Figures of one cgroup directory. Its counters start at 0 when the cgroup is created."""

    usage_ns: int | None = None
    periods: int = 0
    throttled_periods: int = 0
    throttled_ns: int = 0
    quota: float | None = None
    used_bytes: int | None = None
    limit_bytes: int | None = None
    oom_kills: int = 0
    """OOM kills. cgroup v2 includes the kills in descendant cgroups, cgroup v1 does not."""
    refaults: int | None = None
    """Refaults of file pages, including those of descendant cgroups; None if unknown."""
    limit_hits: int = 0
    """Number of times that processes in this cgroup or below it hit the memory limit of this cgroup."""
    limit_failures: int = 0
    """Number of limit hits after which not enough memory could be freed, so that the Linux kernel kills a
    process. cgroup v1 does not count them separately, so this field then equals ``limit_hits``."""
    cpuset: str = ""
    io_limits: dict[tuple[int, bool], IoLimit] = field(default_factory=dict)


class Directory:
    """Reads the files of one cgroup directory and keeps them open. A file that cannot be opened is tried
    again every ``OPEN_AGAIN`` samples."""

    def __init__(self, place: str, path: str, controllers: Collection[str]) -> None:
        self.path = path
        self.place = place
        self.version = 1 if any(controllers) else 2
        try:
            self.inode = os.stat(place).st_ino
        except OSError:
            self.inode = 0
        self.before = CgroupFigures()
        self.now = CgroupFigures()
        self._controllers = controllers
        self._fds: dict[str, int] = {}
        self._looks = 0

    def look(self) -> None:
        """Reads all figures."""
        self._looks += 1
        if self._looks % OPEN_AGAIN == 0:  # A controller may have been enabled meanwhile.
            self._fds = {name: fd for name, fd in self._fds.items() if fd >= 0}
        figures = CgroupFigures()
        for controller in self._controllers:
            READERS[controller](self, figures)
        self.before = self.now if self._looks > 1 else figures
        self.now = figures

    def rise(self, name: str) -> int:
        """Returns by how much the counter ``name`` of ``CgroupFigures`` rose between the last two samples."""
        return max((getattr(self.now, name) or 0) - (getattr(self.before, name) or 0), 0)

    def has(self, name: str) -> bool:
        """Returns whether the file ``name`` could be opened in the last sample."""
        return self._fds.get(name, -1) >= 0

    def text(self, name: str) -> str:
        """Returns the content of a small file, or '' if it is missing or the cgroup is gone."""
        fd = self._fds.get(name)
        if fd is None:
            try:
                fd = os.open(f"{self.place}/{name}", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                fd = -1
            self._fds[name] = fd
        if fd < 0:
            return ""
        try:
            return os.pread(fd, _FILE_BYTES, 0).decode(errors="replace")
        except OSError:
            return ""

    def number(self, name: str) -> int | None:
        """Returns the number in a file; None if the file is missing or has other content, such as ``max``."""
        text = self.text(name).strip()
        return int(text) if text.isdecimal() else None

    def counters(self, name: str) -> dict[str, int]:
        """Returns the counters of a file that has a name and a number on each line."""
        pairs = (line.split() for line in self.text(name).splitlines())
        return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}

    def close(self) -> None:
        """Closes the files. The next sample opens them again."""
        for fd in self._fds.values():
            if fd >= 0:
                os.close(fd)
        self._fds.clear()


def _v1_cpu(directory: Directory, into: CgroupFigures) -> None:
    counters = directory.counters("cpu.stat")
    into.periods, into.throttled_periods = counters.get("nr_periods", 0), counters.get("nr_throttled", 0)
    into.throttled_ns = counters.get("throttled_time", 0)
    quota, period = directory.number("cpu.cfs_quota_us"), directory.number("cpu.cfs_period_us")
    into.quota = quota / period if quota and period else None


def _v1_cpuacct(directory: Directory, into: CgroupFigures) -> None:
    into.usage_ns = directory.number("cpuacct.usage")


def _v1_memory(directory: Directory, into: CgroupFigures) -> None:
    limit = directory.number("memory.limit_in_bytes")
    into.limit_bytes = limit if limit is not None and limit < UNLIMITED_BYTES else None
    into.used_bytes = directory.number("memory.usage_in_bytes")
    into.oom_kills = directory.counters("memory.oom_control").get("oom_kill", 0)
    into.refaults = directory.counters("memory.stat").get("total_workingset_refault_file")
    into.limit_hits = into.limit_failures = directory.number("memory.failcnt") or 0


def _v1_cpuset(directory: Directory, into: CgroupFigures) -> None:
    into.cpuset = directory.text("cpuset.effective_cpus").strip()


def _v1_blkio(directory: Directory, into: CgroupFigures) -> None:
    for write, word in ((False, "read"), (True, "write")):
        limits: dict[int, list[int | None]] = {}
        for place, unit in enumerate(("bps", "iops")):
            for line in directory.text(f"blkio.throttle.{word}_{unit}_device").splitlines():
                name, _, limit = line.partition(" ")
                device = _device(name)
                if device is not None and limit.isdecimal():
                    limits.setdefault(device, [None, None])[place] = int(limit)
        for device, (bytes_per_s, requests_per_s) in limits.items():
            into.io_limits[device, write] = IoLimit(bytes_per_s, requests_per_s, directory.path)


def _v2(directory: Directory, into: CgroupFigures) -> None:
    counters = directory.counters("cpu.stat")
    if "usage_usec" in counters:
        into.usage_ns = counters["usage_usec"] * 1000
    into.periods, into.throttled_periods = counters.get("nr_periods", 0), counters.get("nr_throttled", 0)
    into.throttled_ns = counters.get("throttled_usec", 0) * 1000
    quota = directory.text("cpu.max").split()
    if len(quota) == 2 and quota[0].isdecimal() and quota[1].isdecimal() and int(quota[1]):
        into.quota = int(quota[0]) / int(quota[1])
    into.used_bytes, into.limit_bytes = directory.number("memory.current"), directory.number("memory.max")
    events = directory.counters("memory.events")
    into.oom_kills = events.get("oom_kill", 0)
    # memory.events.local exists from Linux 5.2 on. memory.events counts descendant cgroups too.
    own = directory.counters("memory.events.local") or events
    into.limit_hits, into.limit_failures = own.get("max", 0), own.get("oom", 0)
    pages = directory.counters("memory.stat")
    # Before Linux 5.9 only refaults of file pages were counted, under a name without _file.
    into.refaults = pages.get("workingset_refault_file", pages.get("workingset_refault"))
    into.cpuset = directory.text("cpuset.cpus.effective").strip()
    for line in directory.text("io.max").splitlines():
        name, _, words = line.partition(" ")
        device = _device(name)
        limits = {key: int(limit) for key, _, limit in _assigned(words) if limit.isdecimal()}
        for write, letter in ((False, "r"), (True, "w")):
            found = IoLimit(limits.get(f"{letter}bps"), limits.get(f"{letter}iops"), directory.path)
            if device is not None and (found.bytes_per_s or found.requests_per_s):
                into.io_limits[device, write] = found


def _assigned(words: str) -> list[tuple[str, str, str]]:
    return [word.partition("=") for word in words.split()]


def _device(name: str) -> int | None:
    major, _, minor = name.partition(":")
    return int(major) << 20 | int(minor) if major.isdecimal() and minor.isdecimal() else None


READERS: Final = {
    "cpu": _v1_cpu,
    "cpuacct": _v1_cpuacct,
    "memory": _v1_memory,
    "cpuset": _v1_cpuset,
    "blkio": _v1_blkio,
    "": _v2,
}
"""Functions that read figures, by v1 controller; '' is the key of the function that reads all figures of
cgroup v2."""


class Hierarchy:
    """The directories of one cgroup hierarchy."""

    def __init__(self, mount: Mount, controllers: Collection[str]) -> None:
        self._mount = mount
        self._controllers = controllers
        self.directories: dict[str, Directory] = {}

    def chain(self, path: str) -> list[Directory]:
        """Returns the cgroup at ``path`` and its ancestors, except the root cgroup, which has no limits, and
        except cgroups that the mount does not show."""
        names = path.strip("/").split("/")
        paths = ["/" + "/".join(names[:depth]) for depth in range(len(names), 0, -1)]
        root = self._mount.root.rstrip("/")
        return [self._directory(path) for path in paths if f"{path}/".startswith(f"{root}/") and path != "/"]

    def _directory(self, path: str) -> Directory:
        found = self.directories.get(path)
        if found is None:
            below = path if self._mount.root == "/" else path.removeprefix(self._mount.root)
            found = Directory(f"{self._mount.point}{below}", path, self._controllers)
            self.directories[path] = found
        return found

    def look(self, used: set[int]) -> None:
        """Reads the directories whose ``id()`` is in ``used``; closes and forgets all others."""
        for path, directory in list(self.directories.items()):
            if id(directory) in used:
                directory.look()
            else:
                directory.close()
                del self.directories[path]
