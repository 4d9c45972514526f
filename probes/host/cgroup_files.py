"""Reads cgroup directories and their files, for cgroup v1 and v2 alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stalltop.model.text.clean import clean
from stalltop.probes.tenants.cgroups import Mount

UNLIMITED_BYTES: Final = 1 << 62
"""A memory limit of cgroup v1 of at least this many bytes means that there is no limit: v1 then shows a
number of about 2^63."""
OPEN_AGAIN: Final = 10
"""A missing file is looked for again after this many samples."""
SETTINGS_LOOKS: Final = 5
"""Settings of a cgroup are read once in this many samples."""
_FILE_BYTES: Final = 4096
_PATH_LENGTH: Final = 4096


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
    used_bytes: int | None = None
    oom_kills: int = 0
    """OOM kills. cgroup v2 includes the kills in descendant cgroups, cgroup v1 does not."""
    refaults: int | None = None
    """Refaults of file pages, including those of descendant cgroups; None if unknown."""
    limit_hits: int = 0
    """Number of times that processes in this cgroup or below it hit the memory limit of this cgroup."""
    limit_failures: int = 0
    """Number of limit hits after which not enough memory could be freed, so that the Linux kernel kills a
    process. cgroup v1 does not count them separately, so this field then equals ``limit_hits``."""


@dataclass(slots=True)
class CgroupSettings:
    """Limits and allowed CPUs of one cgroup directory. They change rarely."""

    quota: float | None = None
    limit_bytes: int | None = None
    cpuset: str = ""
    io_limits: dict[tuple[int, bool], IoLimit] = field(default_factory=dict)


class Directory:
    """Reads the files of one cgroup directory and keeps them open. A file that cannot be opened is tried
    again every ``OPEN_AGAIN`` samples. Settings are read every ``SETTINGS_LOOKS`` samples, and whenever a
    limit took effect."""

    def __init__(self, place: str, path: str, controllers: Collection[str]) -> None:
        self.path = path
        self.place = place
        self.shown_path = clean(path, _PATH_LENGTH)
        self.typable = clean(place, _PATH_LENGTH) == place
        """Whether ``place`` has only characters that can safely be displayed and typed."""
        self.version = 1 if any(controllers) else 2
        try:
            self.inode = os.stat(place).st_ino
        except OSError:
            self.inode = 0
        self.before = CgroupFigures()
        self.now = CgroupFigures()
        self.settings = CgroupSettings()
        self.revision = 0
        """Rises if the settings change, and if files appear or disappear."""
        self._controllers = controllers
        self._fds: dict[str, int] = {}
        self._looks = 0

    def look(self) -> None:
        """Reads all figures."""
        self._looks += 1
        due = self._looks == 1 or (self._looks + self.inode) % SETTINGS_LOOKS == 0
        if self._looks % OPEN_AGAIN == 0:  # A controller may have been enabled meanwhile.
            due = True
            self._fds = {name: fd for name, fd in self._fds.items() if fd >= 0}
        figures = CgroupFigures()
        for controller in self._controllers:
            READERS[controller][0](self, figures)
        self.before = self.now if self._looks > 1 else figures
        self.now = figures
        if due or self.rise("throttled_ns") or self.rise("limit_hits"):
            settings = CgroupSettings()
            for controller in self._controllers:
                READERS[controller][1](self, settings)
            if settings != self.settings:
                self.settings = settings
                self.revision += 1

    def rise(self, name: str) -> int:
        """Returns by how much the counter ``name`` of ``CgroupFigures`` rose between the last two samples."""
        return max((getattr(self.now, name) or 0) - (getattr(self.before, name) or 0), 0)

    def has(self, name: str) -> bool:
        """Returns whether the file ``name`` could be opened in the last sample."""
        return self._fds.get(name, -1) >= 0

    def content(self, name: str) -> bytes:
        """Returns the content of a small file, or b'' if it is missing or the cgroup is gone."""
        fd = self._fds.get(name)
        if fd is None:
            try:
                fd = os.open(f"{self.place}/{name}", os.O_RDONLY | os.O_CLOEXEC)
                self.revision += 1
            except OSError:
                fd = -1
            self._fds[name] = fd
        if fd < 0:
            return b""
        try:
            return os.pread(fd, _FILE_BYTES, 0)
        except OSError:
            return b""

    def text(self, name: str) -> str:
        """Returns the content of a small file, or '' if it is missing or the cgroup is gone."""
        return self.content(name).decode(errors="replace")

    def number(self, name: str) -> int | None:
        """Returns the number in a file; None if the file is missing or has other content, such as ``max``."""
        text = self.content(name).strip()
        return int(text) if text.isdigit() else None

    def close(self) -> None:
        """Closes the files. The next sample opens them again."""
        for fd in self._fds.values():
            if fd >= 0:
                os.close(fd)
        self._fds.clear()


def _counter(content: bytes, name: bytes) -> int | None:
    """Returns the counter ``name`` of a file that has a name and a number on each line; None if the file has
    no such counter."""
    lines = b"\n" + content
    at = lines.find(b"\n" + name + b" ")
    number = lines[at + len(name) + 2 :].partition(b"\n")[0]
    return int(number) if at >= 0 and number.isdigit() else None


def _v1_cpu(directory: Directory, into: CgroupFigures) -> None:
    stat = directory.content("cpu.stat")
    into.periods = _counter(stat, b"nr_periods") or 0
    into.throttled_periods = _counter(stat, b"nr_throttled") or 0
    into.throttled_ns = _counter(stat, b"throttled_time") or 0


def _v1_cpu_settings(directory: Directory, into: CgroupSettings) -> None:
    quota, period = directory.number("cpu.cfs_quota_us"), directory.number("cpu.cfs_period_us")
    into.quota = quota / period if quota and period else None


def _v1_cpuacct(directory: Directory, into: CgroupFigures) -> None:
    into.usage_ns = directory.number("cpuacct.usage")


def _v1_memory(directory: Directory, into: CgroupFigures) -> None:
    into.used_bytes = directory.number("memory.usage_in_bytes")
    into.oom_kills = _counter(directory.content("memory.oom_control"), b"oom_kill") or 0
    into.refaults = _counter(directory.content("memory.stat"), b"total_workingset_refault_file")
    into.limit_hits = into.limit_failures = directory.number("memory.failcnt") or 0


def _v1_memory_settings(directory: Directory, into: CgroupSettings) -> None:
    limit = directory.number("memory.limit_in_bytes")
    into.limit_bytes = limit if limit is not None and limit < UNLIMITED_BYTES else None


def _v1_cpuset_settings(directory: Directory, into: CgroupSettings) -> None:
    into.cpuset = directory.text("cpuset.effective_cpus").strip()


def _v1_blkio_settings(directory: Directory, into: CgroupSettings) -> None:
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
    stat = directory.content("cpu.stat")
    usage = _counter(stat, b"usage_usec")
    into.usage_ns = None if usage is None else usage * 1000
    into.periods = _counter(stat, b"nr_periods") or 0
    into.throttled_periods = _counter(stat, b"nr_throttled") or 0
    into.throttled_ns = (_counter(stat, b"throttled_usec") or 0) * 1000
    into.used_bytes = directory.number("memory.current")
    events = directory.content("memory.events")
    into.oom_kills = _counter(events, b"oom_kill") or 0
    # memory.events.local exists from Linux 5.2 on. memory.events counts descendant cgroups too.
    own = directory.content("memory.events.local") or events
    into.limit_hits, into.limit_failures = _counter(own, b"max") or 0, _counter(own, b"oom") or 0
    pages = directory.content("memory.stat")
    into.refaults = _counter(pages, b"workingset_refault_file")
    if into.refaults is None:
        # Before Linux 5.9 only refaults of file pages were counted, under a name without _file.
        into.refaults = _counter(pages, b"workingset_refault")


def _v2_settings(directory: Directory, into: CgroupSettings) -> None:
    quota = directory.text("cpu.max").split()
    if len(quota) == 2 and quota[0].isdecimal() and quota[1].isdecimal() and int(quota[1]):
        into.quota = int(quota[0]) / int(quota[1])
    into.limit_bytes = directory.number("memory.max")
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


def _none(directory: Directory, into: CgroupFigures | CgroupSettings) -> None:
    """Reads nothing: the controller has no such files."""


READERS: Final[
    Mapping[
        str, tuple[Callable[[Directory, CgroupFigures], None], Callable[[Directory, CgroupSettings], None]]
    ]
] = {
    "cpu": (_v1_cpu, _v1_cpu_settings),
    "cpuacct": (_v1_cpuacct, _none),
    "memory": (_v1_memory, _v1_memory_settings),
    "cpuset": (_none, _v1_cpuset_settings),
    "blkio": (_none, _v1_blkio_settings),
    "": (_v2, _v2_settings),
}
"""Functions that read figures and settings, by v1 controller; '' is the key of the functions that read those
of cgroup v2."""


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

    def keep(self, used: set[int]) -> None:
        """Closes and forgets all directories whose ``id()`` is not in ``used``."""
        for path, directory in list(self.directories.items()):
            if id(directory) not in used:
                directory.close()
                del self.directories[path]

    def look(self) -> None:
        """Reads all directories."""
        for directory in self.directories.values():
            directory.look()
