"""Reads block I/O by device: for which device a process waits, and which processes keep the device busy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from stalltop.diagnosis.facts import Facts
from stalltop.model.evidence import BlockIo
from stalltop.model.window import Window

OTHERS_LOAD: Final = 0.3
"""Other tenants are to blame for waits for a device only if they take at least this part of its busy time."""
OTHERS_BUSY: Final = 0.3
"""Other tenants are to blame for waits for a device only if they keep it busy for at least this part of the
window. A device that is mostly idle delays nobody."""

User = tuple[str, int, str]
"""(tenant id, process id, process name); the process id is 0 for writeback of the tenant's pages."""


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """A device for which a process waits."""

    name: str
    own: bool
    """Whether the process itself has requests at the device. False if only other processes of its tenant
    have."""
    requests: int
    queued_ns: int
    service_ns: int

    @property
    def request_ns(self) -> float:
        """Returns the mean time of a request, ns."""
        return (self.queued_ns + self.service_ns) / (self.requests or 1)


def device_of(facts: Facts, tenant: str, pid: int) -> BlockDevice | None:
    """Returns the device at which the requests of a process spent most time. If the process has no requests,
    looks at the requests of its whole tenant. Returns None if there are none either."""
    own = _by_device(facts.io_of(pid))
    found = own or _by_device(io for io in facts.window.evidence.block_io if io.tenant == tenant)
    if not found:
        return None
    name = max(found, key=lambda name: sum(io.queued_ns + io.service_ns for io in found[name]))
    return BlockDevice(
        name,
        own=bool(own),
        requests=sum(io.requests for io in found[name]),
        queued_ns=sum(io.queued_ns for io in found[name]),
        service_ns=sum(io.service_ns for io in found[name]),
    )


def users(facts: Facts, device: str) -> dict[User, float]:
    """Returns, for each user of a device, how long the device worked on the user's requests in the window,
    ns. This may be more than the window, because the times of simultaneous requests are added up."""
    found: dict[User, float] = {}
    for io in facts.window.evidence.block_io:
        if io.device == device:
            user = io.tenant, io.pid, io.process
            found[user] = found.get(user, 0.0) + io.service_ns
    return found


def others(facts: Facts, device: str, tenant: str) -> dict[User, float]:
    """Returns those ``users`` of a device that do not belong to ``tenant``. Returns an empty dict if together
    they load the device too little to delay ``tenant``."""
    using = users(facts, device)
    found = {user: ns for user, ns in using.items() if user[0] != tenant}
    least = max(OTHERS_LOAD * sum(using.values()), OTHERS_BUSY * facts.seconds * 1e9)
    return found if sum(found.values()) >= least else {}


def loaded_by_others(facts: Facts, tenant: str, pid: int) -> bool:
    """Returns whether other tenants than ``tenant`` load the device for which its process ``pid`` waits."""
    device = device_of(facts, tenant, pid)
    return device is not None and bool(others(facts, device.name, tenant))


def bytes_per_second(facts: Facts, device: str, tenant: str) -> tuple[float, bool]:
    """Returns the larger one of a tenant's read rate and write rate at a device, in bytes per second, and
    whether it is the write rate."""
    moved = {False: 0, True: 0}
    for io in _of(facts.window, device, tenant):
        moved[io.write] += io.bytes
    write = moved[True] > moved[False]
    seconds = facts.seconds_since(lambda part: any(io.bytes for io in _of(part, device, tenant)))
    return moved[write] / seconds, write


def _of(window: Window, device: str, tenant: str) -> Iterator[BlockIo]:
    """Yields the requests of ``tenant`` to ``device``."""
    return (io for io in window.evidence.block_io if io.device == device and io.tenant == tenant)


def _by_device(records: Iterable[BlockIo]) -> dict[str, list[BlockIo]]:
    found: dict[str, list[BlockIo]] = {}
    for io in records:
        found.setdefault(io.device, []).append(io)
    return found
