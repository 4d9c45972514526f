"""The one value that flows through the house: what happened on a host in a stretch of time.

A Window is immutable. Live, frozen, saved and merged windows are the same type, so the same screen and
the same outputs serve all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from stalltop.model.calls import Calls
from stalltop.model.chain import Chain
from stalltop.model.cuda_kernels import KernelCount
from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.device import Devices, System
from stalltop.model.evidence import Evidence
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant

U64 = NDArray[np.uint64]

SPLITS = ("running", "runqueue", "disk", "memory", "lock", "gpu", "network", "process", "sleep", "other")
"""Where a call's time can go, in the order of ``Rows.split_ns``'s columns."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The counts of a window, by column: element i of every array belongs to ``keys[i]``.

    Each key occurs once. All integer arrays have shape (n,) and dtype uint64.
    """

    keys: tuple[RowKey, ...]
    calls: U64
    errors: U64
    bytes: U64
    total_ns: U64
    max_ns: U64
    histograms: Histograms
    split_ns: U64 | None = None
    """Shape (n, len(SPLITS)) where the splits were measured, else None."""

    def __len__(self) -> int:
        return len(self.keys)

    @staticmethod
    def empty() -> Rows:
        """No rows at all."""
        none = np.zeros(0, np.uint64)
        return Rows((), none, none, none, none, none, Histograms.empty())

    def take(self, rows: NDArray[np.integer]) -> Rows:
        """The rows with these indices, in that order."""
        return Rows(
            keys=tuple(self.keys[row] for row in rows),
            calls=self.calls[rows],
            errors=self.errors[rows],
            bytes=self.bytes[rows],
            total_ns=self.total_ns[rows],
            max_ns=self.max_ns[rows],
            histograms=self.histograms.take(rows),
            split_ns=None if self.split_ns is None else self.split_ns[rows],
        )


MOST_ENDED = 100
"""Calls of ended threads that a window names, the longest ones. ``loss["abandoned"]`` counts them all."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that had not returned when the window ended, or never will: its thread ended inside of it."""

    tenant: str
    pid: int
    tid: int
    process: str
    layer: str
    operation: str
    age_ns: int
    nested: bool = False
    ended: bool = False
    """Its thread ended (killed, exited, left by exec) within the window, ``age_ns`` after the call began."""
    device: str = ""
    """Label of the device that it runs on; empty where that is not known."""

    @property
    def row(self) -> tuple[str, int, str, str, str, bool, str]:
        """The row that it will be counted in: its ``RowKey`` without the host."""
        return self.tenant, self.pid, self.process, self.layer, self.operation, self.nested, self.device


@dataclass(frozen=True, slots=True)
class Library:
    """One probed file, however many processes and mount namespaces show it."""

    path: str
    layer: str
    functions: int
    """Functions probed in it (each with an entry and a return probe)."""
    processes: int
    """Processes that have it mapped now."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that should be traced or known and is not."""

    what: str
    """The file (its path), process or tenant; or, in words, what is not known."""
    reason: str
    remedy: str = ""
    pid: int = 0
    tenant: str = ""

    @property
    def untraced(self) -> bool:
        """Whether it is a file or a process whose calls are not counted; else it is not known beside."""
        return bool(self.pid or self.tenant) or "/" in self.what


@dataclass(frozen=True, slots=True)
class Coverage:
    """What is traced, what is not and why, and what tracing costs."""

    attached: int = 0
    """Probes in place (entry and return count separately)."""
    functions: int = 0
    libraries: tuple[Library, ...] = ()
    missing: tuple[Missing, ...] = ()
    processes: int = 0
    """Processes whose calls are counted."""
    probe_ns: float = 0.0
    """Time that one counted call spends in its probes, ns, measured at start on this host."""
    cost_percent: float = 0.0
    """Share of one CPU that all probes took in this window: counted calls x ``probe_ns`` / seconds."""
    way: str = ""
    """``multi``, ``perf`` or empty where nothing is traced."""
    tracing: str = ""
    """Empty while tracing works; else one line that says why not."""
    scheduled: tuple[str, ...] = ()
    """Ids of tenants of which a scheduler told all that they were given: of nobody else can be said that a
    device was not given to it."""
    schedulable: tuple[str, ...] = ()
    """UUIDs of the devices that a scheduler gives to tenants; others are anybody's."""


LOSSES: Mapping[str, str] = MappingProxyType(
    {
        "no_slot": "calls not counted: all histogram slots are in use",
        "no_thread": "calls not counted: all thread records are in use",
        "too_deep": "calls not counted: nested deeper than the thread record holds",
        "no_entry": "returns without an entry (the call began before its probe)",
        "abandoned": "calls left without returning (longjmp, exit or exec inside them)",
        "clamped": "calls longer than 137 s, counted as 137 s",
        "unread_bytes": "calls whose size could not be read",
        "no_charge": "waits whose culprit was not kept: all sums by culprit are in use",
        "no_slice": "waits for a CPU that changed hands so often that only the end of them has culprits",
        "no_follower": "wake-ups whose giver was not followed: as many threads are followed as may be",
        "no_allocation": "pieces of device memory not followed: their table is full",
        "no_communicator": "ranks of NCCL communicators not followed: all their records are in use",
        "no_kernel": "launches whose kernel is not told: all counts by kernel are in use",
        "no_activity": "calls that do not say when they were active on a device: all records are in use",
        "no_overlap": "times that a tenant's overlaps are not told: too many tenants were active on a device",
        "no_ring": "calls not kept one by one, only counted in their rows: the ring for them was full",
        "missed": "probe hits the kernel itself skipped",
    }
)
"""Every counter of ``Window.loss`` with its meaning."""

UNCOUNTED = ("no_slot", "no_thread", "too_deep", "missed")
"""The losses that mean that a call is in no row: what the header calls missed."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """One host (or several, merged) from ``start`` for ``seconds``."""

    start: float
    """Unix time in seconds."""
    seconds: float
    host: str
    rows: Rows
    tenants: Mapping[str, Tenant] = field(default_factory=dict)
    open_calls: tuple[OpenCall, ...] = ()
    devices: Devices = field(default_factory=Devices)
    system: System | None = None
    loss: Mapping[str, int] = field(default_factory=dict)
    coverage: Coverage = field(default_factory=Coverage)
    simulated: bool = False
    evidence: Evidence = field(default_factory=Evidence)
    chains: tuple[Chain, ...] = ()
    """What is wrong, open ones first: as it was known when the window ended."""
    kernels: tuple[KernelCount, ...] = ()
    """Outermost launches by kernel, each kernel of a row once; those in none are of unknown kernels."""
    calls: Calls = field(default_factory=Calls)
    """Some calls one by one: the slowest, and a few taken at random."""
    normals: Mapping[RowKey, tuple[int, int]] = field(default_factory=dict)
    """p50 and p99 (ns) that are normal for rows, as far as that was learned when the window ended. Of windows
    put together the last one's; windows that are put away have none."""
    allocations: tuple[Allocation, ...] = ()
    """What a scheduler gave to whom at the end of the window; of windows put together the last one's."""

    @property
    def end(self) -> float:
        """Unix time in seconds at which the window ends."""
        return self.start + self.seconds

    @property
    def lost(self) -> int:
        """Calls known to be in no row."""
        return sum(self.loss.get(name, 0) for name in UNCOUNTED)
