"""Sets limits of one tenant by cgroup controllers: those of cgroup v1 or of v2, depending on the version that
this host uses."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from stalltop.demo.cgroups import Cgroups, hierarchy
from stalltop.model.errors import StalltopError

PERIOD_US: Final = 100_000
"""Period of the CPU quota: the default of the Linux kernel."""
_V2_NAMES: Final = {"cpu": "cpu", "memory": "memory", "blkio": "io"}


class Limits:
    """The cgroups of one tenant that have limits, at the same path in every hierarchy, as container runtimes
    make them."""

    def __init__(self, path: str, unified: Path, controllers: tuple[str, ...]) -> None:
        """``path`` is the path of the tenant's cgroups below the root of each hierarchy. ``unified`` is the
        directory of its v2 cgroup, which exists already. ``controllers`` are some of cpu, memory and blkio.
        Raises StalltopError if this host lacks one of them."""
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
        """Returns the v1 cgroups that the tenant's processes have to join, besides the tenant's v2 cgroup."""
        return tuple(self._legacy.values())

    def cpu(self, cpus: float | None) -> None:
        """Limits the tenant to ``cpus`` CPUs; None removes the limit."""
        quota = "" if cpus is None else str(int(cpus * PERIOD_US))
        legacy = self._legacy.get("cpu")
        if legacy is not None:
            (legacy / "cpu.cfs_quota_us").write_text(quota or "-1")
        else:
            (self._unified / "cpu.max").write_text(f"{quota or 'max'} {PERIOD_US}")

    def cpu_weight(self, times: float) -> None:
        """Sets this tenant's CPU weight to ``times`` the default weight. While this tenant and one with the
        default weight compete for a CPU, this tenant gets ``times`` the CPU time of the other one."""
        legacy = self._legacy.get("cpu")
        if legacy is not None:
            (legacy / "cpu.shares").write_text(str(int(1024 * times)))
        else:
            (self._unified / "cpu.weight").write_text(str(max(int(100 * times), 1)))

    def memory(self, size_bytes: int) -> None:
        """Limits the tenant's memory, including page cache."""
        legacy = self._legacy.get("memory")
        if legacy is not None:
            (legacy / "memory.limit_in_bytes").write_text(str(size_bytes))
        else:
            (self._unified / "memory.max").write_text(str(size_bytes))

    def read_rate(self, device: str, bytes_per_s: int | None) -> None:
        """Limits how fast the tenant reads from ``device`` (``MAJOR:MINOR``); None removes the limit."""
        self._rate("read", device, bytes_per_s)

    def write_rate(self, device: str, bytes_per_s: int) -> None:
        """Limits how fast the tenant writes to ``device`` (``MAJOR:MINOR``)."""
        self._rate("write", device, bytes_per_s)

    def _rate(self, way: str, device: str, bytes_per_s: int | None) -> None:
        legacy = self._legacy.get("blkio")
        if legacy is not None:
            (legacy / f"blkio.throttle.{way}_bps_device").write_text(f"{device} {bytes_per_s or 0}")
        else:
            (self._unified / "io.max").write_text(f"{device} {way[0]}bps={bytes_per_s or 'max'}")

    def close(self) -> None:
        """Kills all processes in the tenant's v1 cgroups and removes these cgroups."""
        for cgroups in self._made:
            cgroups.close()
        self._made.clear()
        self._legacy.clear()


def legacy_root(controller: str) -> Path | None:
    """Returns the mount point of the v1 hierarchy of ``controller``; None if there is none."""
    for point, kind, options in _mounts():
        if kind == "cgroup" and controller in options.split(","):
            return Path(point)
    return None


def disk_of(folder: Path) -> str:
    """Returns ``MAJOR:MINOR`` of the whole disk (not the partition) that holds ``folder``. Raises
    StalltopError if ``folder`` is not on a disk."""
    number = folder.stat().st_dev
    place = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    if not place.exists():
        raise StalltopError(f"{folder} is on no block device", "set XDG_CACHE_HOME to a folder on a disk")
    place = place.resolve()
    return ((place.parent if (place / "partition").exists() else place) / "dev").read_text().strip()


def _enable(place: Path, controller: str) -> None:
    """Enables the v2 ``controller`` for the cgroup ``place``. This is possible only if all ancestors of
    ``place`` enable the controller too."""
    root = hierarchy()
    if controller not in (root / "cgroup.controllers").read_text().split():
        raise StalltopError(f"this host has no cgroup controller {controller}")
    for parent in reversed([parent for parent in place.parents if parent.is_relative_to(root)]):
        # The Linux kernel refuses to enable a controller for the children of a cgroup that has processes. The
        # refusal is ignored here, because setting the limit then fails with a message.
        with contextlib.suppress(OSError):
            (parent / "cgroup.subtree_control").write_text(f"+{controller}")


def _mounts() -> Iterator[tuple[str, str, str]]:
    """Yields mount point, type and super options of every mount."""
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        yield before.split(" ")[4], kind, options
