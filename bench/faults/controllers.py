"""Limits of one tenant, wherever this host keeps its controllers: in cgroup v1 hierarchies or in v2."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from stalltop.demo.cgroups import Cgroups, hierarchy
from stalltop.model.errors import StalltopError

PERIOD_US: Final = 100_000
"""Of the CPU quota: the kernel's default."""
_V2_NAMES: Final = {"cpu": "cpu", "memory": "memory", "blkio": "io"}


class Limits:
    """The cgroups of one tenant that carry limits: at the same path in every hierarchy, as runtimes do it."""

    def __init__(self, path: str, unified: Path, controllers: tuple[str, ...]) -> None:
        """``path`` below the root of each hierarchy, ``unified`` the tenant's own v2 cgroup, which exists;
        ``controllers`` out of cpu, memory and blkio. Raises StalltopError where this host has no such
        controller."""
        self._unified = unified
        self._legacy: dict[str, Path] = {}
        self._made: list[Cgroups] = []
        try:
            for controller in controllers:
                root = legacy_root(controller)
                if root is None:
                    _enable(unified, _V2_NAMES[controller])
                    continue
                cgroups = Cgroups(root)
                self._made.append(cgroups)
                self._legacy[controller] = cgroups.make(path)
        except BaseException:
            self.close()
            raise

    @property
    def places(self) -> tuple[Path, ...]:
        """The cgroups that its processes have to join, besides the v2 one."""
        return tuple(self._legacy.values())

    def cpu(self, cpus: float) -> None:
        """Let it use as many CPUs."""
        quota = int(cpus * PERIOD_US)
        legacy = self._legacy.get("cpu")
        if legacy is not None:
            (legacy / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self._unified / "cpu.max").write_text(f"{quota} {PERIOD_US}")

    def memory(self, size_bytes: int) -> None:
        """Let it use as much memory, its page cache included."""
        legacy = self._legacy.get("memory")
        if legacy is not None:
            (legacy / "memory.limit_in_bytes").write_text(str(size_bytes))
        else:
            (self._unified / "memory.max").write_text(str(size_bytes))

    def read_rate(self, device: str, bytes_per_s: int) -> None:
        """Let it read no faster from ``device`` (``MAJOR:MINOR``)."""
        legacy = self._legacy.get("blkio")
        if legacy is not None:
            (legacy / "blkio.throttle.read_bps_device").write_text(f"{device} {bytes_per_s}")
        else:
            (self._unified / "io.max").write_text(f"{device} rbps={bytes_per_s}")

    def close(self) -> None:
        """End what runs in the v1 cgroups and remove them."""
        for cgroups in self._made:
            cgroups.close()
        self._made.clear()
        self._legacy.clear()


def legacy_root(controller: str) -> Path | None:
    """Where the v1 hierarchy of ``controller`` is mounted; None where there is none."""
    for point, kind, options in _mounts():
        if kind == "cgroup" and controller in options.split(","):
            return Path(point)
    return None


def disk_of(folder: Path) -> str:
    """``MAJOR:MINOR`` of the whole disk that ``folder`` is on. Raises StalltopError where it is on none."""
    number = folder.stat().st_dev
    place = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not place.exists():
        raise StalltopError(f"{folder} is on no block device", "set XDG_CACHE_HOME to a folder on a disk")
    place = place.resolve()
    return ((place.parent if (place / "partition").exists() else place) / "dev").read_text().strip()


def _enable(place: Path, controller: str) -> None:
    """Let ``place`` have the v2 ``controller``, by way of all its ancestors."""
    root = hierarchy()
    if controller not in (root / "cgroup.controllers").read_text().split():
        raise StalltopError(f"this host has no cgroup controller {controller}")
    for parent in reversed([parent for parent in place.parents if parent.is_relative_to(root)]):
        with contextlib.suppress(
            OSError
        ):  # a parent with processes: the limit's file will be missing, and say so
            (parent / "cgroup.subtree_control").write_text(f"+{controller}")


def _mounts() -> Iterator[tuple[str, str, str]]:
    """Mount point, type and super options of every mount."""
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        yield before.split(" ")[4], kind, options
