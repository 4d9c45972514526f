"""Adds names to records of block I/O: of devices, of processes, and of the tenants on whose behalf kernel
threads submit requests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from stalltop.model.evidence import BlockIo
from stalltop.model.text.clean import clean
from stalltop.probes.host.cgroup_pressure import Pressed, Pressures
from stalltop.probes.host.events import RawBlockIo
from stalltop.probes.tenants.owners import HOST, Owner, Owners

MOST_PROCESSES: Final = 64
"""Maximum number of raw records of processes that are attributed to their processes; the records that took
most time are chosen. The other records of processes are summed by device and direction as I/O of the host."""
WRITEBACK: Final = "writeback"
"""Name that stands for the process in records of block I/O that kernel threads submit, for a tenant or for
the host."""
MOST_DEVICES: Final = 1024
"""Maximum number of device names that are remembered. When the maximum is reached, all names are forgotten
and looked up again. So names of reused device numbers are dropped, too."""


class _Key(NamedTuple):
    owner: Owner
    device: int
    write: bool


@dataclass(slots=True)
class _Sums:
    requests: int = 0
    bytes: int = 0
    queued_ns: int = 0
    service_ns: int = 0
    max_ns: int = 0

    def add(self, io: RawBlockIo) -> None:
        self.requests += io.requests
        self.bytes += io.bytes
        self.queued_ns += io.queued_ns
        self.service_ns += io.service_ns
        self.max_ns = max(self.max_ns, io.max_ns)


class BlockIoNames:
    """Turns raw block I/O records into records with the names of tenant, process and device. Used from one
    thread."""

    def __init__(self, owners: Owners, pressures: Pressures) -> None:
        self._owners = owners
        self._pressures = pressures
        self._devices: dict[int, str] = {}

    def records(self, raw: Iterable[RawBlockIo], pressed: Mapping[str, Pressed]) -> tuple[BlockIo, ...]:
        """Returns one record for each owner, device and direction. An owner is a process, a tenant for which
        kernel threads submitted requests, or the host. ``pressed`` has the cgroup figures of each tenant for
        this window."""
        sums: dict[_Key, _Sums] = {}
        passed_on: list[tuple[_Key, RawBlockIo]] = []
        named = 0
        for io in sorted(raw, key=lambda io: -(io.queued_ns + io.service_ns)):
            if not io.tgid:
                passed_on.append((_Key(self._on_behalf_of(io.cgroup_id), io.device, io.write), io))
                continue
            named += 1
            owner = self._owners.of(io.tgid, io.cgroup_id) if named <= MOST_PROCESSES else HOST
            sums.setdefault(_Key(owner, io.device, io.write), _Sums()).add(io)
        for key, io in passed_on:
            _add_passed_on(sums, key, io, pressed)
        return tuple(
            BlockIo(
                *key.owner,
                self._device(key.device),
                key.write,
                of.requests,
                of.bytes,
                of.queued_ns,
                of.service_ns,
                of.max_ns,
            )
            for key, of in sums.items()
        )

    def _on_behalf_of(self, block_cgroup: int) -> Owner:
        tenant = self._pressures.tenant_of_block_cgroup(block_cgroup)
        if tenant is not None:
            return Owner(tenant, 0, WRITEBACK)
        if self._pressures.block_is_unified:
            return self._owners.of_cgroup(block_cgroup)._replace(process=WRITEBACK)
        return HOST._replace(process=WRITEBACK)

    def _device(self, number: int) -> str:
        name = self._devices.get(number)
        if name is None:
            major_minor = f"{number >> 20}:{number & 0xFFFFF}"
            try:
                name = clean(os.path.basename(os.readlink(f"/sys/dev/block/{major_minor}")))
            except OSError:
                name = major_minor
            if len(self._devices) >= MOST_DEVICES:
                self._devices.clear()
            self._devices[number] = name
        return name


def _add_passed_on(
    sums: dict[_Key, _Sums], key: _Key, io: RawBlockIo, pressed: Mapping[str, Pressed]
) -> None:
    """Adds requests that a kernel thread submitted: writeback, or requests that an I/O limit of the cgroup
    had held back.

    The Linux kernel reports a request only once the limit lets it through. The time for which the limit held
    it back is therefore estimated, as the time in which the cgroup had no request under way. In a part of
    this time, the cgroup may have had nothing to submit. So the estimate is at most the time that the limit
    requires for the bytes and requests that were moved.

    If there is a limit, and if only one process of the tenant uses the device in this direction, the requests
    are added to that process; otherwise to ``key``.
    """
    tenant = key.owner.tenant
    same = [other for other in sums if other.owner.tenant == tenant and other[1:] == key[1:]]
    limits = pressed[tenant].io_limits if tenant in pressed else {}
    limit = limits.get((io.device, io.write))
    held_ns = 0
    if limit is not None:
        moved = io.bytes + sum(sums[other].bytes for other in same)
        requests = io.requests + sum(sums[other].requests for other in same)
        held_ns = min(io.idle_ns, limit.least_ns(moved, requests))
        if len(same) == 1:
            key = same[0]
    of = sums.setdefault(key, _Sums())
    of.add(io)
    of.queued_ns += held_ns
    of.max_ns = max(of.max_ns, held_ns // io.requests)
