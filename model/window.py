"""Windows: everything that was measured on a host in a stretch of time.

A Window is immutable. Live, frozen, saved and merged windows have the same type, so the same screen and the
same outputs serve all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.model.calls import CapturedCalls
from stalltop.model.chain import Chain
from stalltop.model.cuda_kernels import KernelCount
from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.device import Devices, System
from stalltop.model.evidence import Evidence
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.hosts.tracer import Tracer
from stalltop.model.row_key import RowKey
from stalltop.model.stacks.stack import StackCount
from stalltop.model.tenant import Tenant

U64 = NDArray[np.uint64]

PartName = Literal[
    "running", "runqueue", "disk", "memory", "lock", "gpu", "network", "process", "sleep", "other"
]


class SplitPart(NamedTuple):
    """How a part of a split (where a call's time goes) is shown and described."""

    letter: str
    """Letter that identifies the part where there are no colours."""
    short: str
    """Short name for narrow columns."""
    meaning: str
    """Explanation of the part on the help page of the screen."""
    thread: str
    """What the calling thread did, in detail; for docs/json.md."""


PARTS: Final[Mapping[PartName, SplitPart]] = MappingProxyType(
    {
        "running": SplitPart(
            "R",
            "run",
            "on the CPU; busy waiting for the GPU counts as this",
            "it was on a CPU; this includes spinning for the device",
        ),
        "runqueue": SplitPart(
            "q",
            "queue",
            "ready, but others had the CPU",
            "it was ready to run and waited for a CPU, after it was preempted or woken",
        ),
        "disk": SplitPart(
            "d", "disk", "waiting for reads and writes", "it waited for a file or a block device"
        ),
        "memory": SplitPart(
            "m", "mem", "page faults and reclaim", "it waited in a page fault or a change of its memory map"
        ),
        "lock": SplitPart(
            "l", "lock", "waiting for another thread (futex)", "it waited for a futex or a file lock"
        ),
        "gpu": SplitPart(
            "g",
            "gpu",
            "waiting for the device",
            "it waited in `ioctl`, or polled inside a call of the runtime or the driver",
        ),
        "network": SplitPart(
            "n",
            "net",
            "waiting for sockets",
            "it waited for a socket, or in `poll`, `select` or `epoll_wait` outside calls of the runtime and"
            " the driver",
        ),
        "process": SplitPart(
            "p",
            "proc",
            "waiting for another process (pipe, wait)",
            "it waited for a child or another process, or read from or wrote to a pipe, a terminal, or a"
            " socket by `read` or `write`",
        ),
        "sleep": SplitPart(
            "s", "sleep", "sleeping, as the program asked to", "it slept for a time that it chose"
        ),
        "other": SplitPart(
            "o",
            "other",
            "off the CPU for any other reason",
            "it waited for something else, was stopped, or was traced by a debugger",
        ),
    }
)
SPLITS: Final = tuple(PARTS)
"""Parts of a split, in the order of the columns of ``Rows.split_ns``."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Counts of a window in columns: element i of every array belongs to ``keys[i]``.

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
    """Time in ns by part of the split, shape (n, len(SPLITS)), columns in the order of ``SPLITS``; None if
    splits were not measured."""

    def __len__(self) -> int:
        return len(self.keys)

    @staticmethod
    def empty() -> Rows:
        """Returns zero rows."""
        none = np.zeros(0, np.uint64)
        return Rows((), none, none, none, none, none, Histograms.empty())

    def take(self, rows: NDArray[np.integer]) -> Rows:
        """Returns the rows whose indices are ``rows``, in that order."""
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
"""Maximum number of calls with ``OpenCall.ended`` that a window lists: the longest ones are kept.
``loss["abandoned"]`` counts all calls whose threads ended inside them."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A call that had not returned when the window ended, or that can never return because its thread ended
    inside the call."""

    tenant: str
    pid: int
    tid: int
    process: str
    layer: str
    operation: str
    age_ns: int
    nested: bool = False
    ended: bool = False
    """True if the thread that made the call ended (killed, exited, exec) within the window, ``age_ns`` after
    the call began."""
    device: str = ""
    """Label of the device that the call runs on; '' if unknown."""

    @property
    def row(self) -> tuple[str, int, str, str, str, bool, str]:
        """Key of the row that will count the call: its ``RowKey`` without the host."""
        return self.tenant, self.pid, self.process, self.layer, self.operation, self.nested, self.device


@dataclass(frozen=True, slots=True)
class Reduction:
    """A function whose calls are not counted all of the time, or not all timed, so that probes stay within
    their budget."""

    symbol: str
    share: float
    """Part of the time for which calls are counted, 0 to 1. Figures are not scaled up."""
    nested: bool = False
    """Whether its calls are made inside calls of other functions, which are counted."""
    timed_in: int = 1
    """One call in this many is timed, on average. The others are counted as if they took as long."""

    @property
    def text(self) -> str:
        """The state of its probes in few words."""
        if self.timed_in > 1:
            return f"timed 1 in {self.timed_in}"
        return f"sampled {100.0 * self.share:.0f} %" if self.share else "off, budget"


@dataclass(frozen=True, slots=True)
class Library:
    """One traced library file. Copies seen through several processes or mount namespaces count once."""

    path: str
    layer: str
    functions: int
    """Number of functions of the library that have probes (an entry and a return probe each)."""
    processes: int
    """Number of processes that have the library mapped at the end of the window."""
    reduced: tuple[Reduction, ...] = ()
    """Functions that are not traced all of the time, or of which not all calls are timed."""


OVER_QUOTA: Final = "over quota: "
"""How the reason begins if a process or container takes too much."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A gap in the coverage: calls that should be traced and are not, other information that is missing, or
    probes that cost too much."""

    what: str
    """Path of the file, name of the process or tenant, or a description of the missing information."""
    reason: str
    remedy: str = ""
    pid: int = 0
    tenant: str = ""
    cost: bool = False
    """True if nothing is missing, but probes cost more than their budget."""

    @property
    def untraced(self) -> bool:
        """True if calls of a file, process or tenant are not counted; False if other information is
        missing."""
        return not self.cost and (bool(self.pid or self.tenant) or "/" in self.what)

    @property
    def over_quota(self) -> bool:
        """True if calls of a process or container are not counted because it takes too much memory in the
        Linux kernel."""
        return self.untraced and self.reason.startswith(OVER_QUOTA)


@dataclass(frozen=True, slots=True)
class Coverage:
    """What is traced, what is not and why, and what tracing costs."""

    attached: int = 0
    """Number of attached probes (entry and return probes count separately)."""
    functions: int = 0
    libraries: tuple[Library, ...] = ()
    missing: tuple[Missing, ...] = ()
    processes: int = 0
    """Number of processes whose calls are counted."""
    probe_ns: float = 0.0
    """Time in ns that the probes add to one call, measured on this host when stalltop starts."""
    cost_percent: float = 0.0
    """Share of one CPU that all probes took in this window: counted calls x ``probe_ns`` / seconds, more for
    calls after pauses, less for functions with ``Reduction.timed_in``."""
    way: str = ""
    """How probes are attached: ``multi`` (uprobe_multi links) or ``perf`` (perf events); '' if nothing is
    traced."""
    tracing: str = ""
    """'' while tracing works; else one line that says why it does not."""
    scheduled: tuple[str, ...] = ()
    """Ids of the tenants whose allocated devices a scheduler reported completely. These tenants have no other
    allocated devices. All other tenants may have some that are not known."""
    schedulable: tuple[str, ...] = ()
    """UUIDs of the devices that a scheduler allocates; any tenant may use the other devices."""
    tracer: Tracer | None = None
    """The process that traced the window, if another process showed or recorded it."""


LOSSES: Mapping[str, str] = MappingProxyType(
    {
        "no_slot": "calls not counted: no histogram slot left for their process",
        "no_thread": "calls not counted: no thread record left for their process",
        "too_deep": "calls not counted: nested deeper than the thread record holds",
        "no_entry": "returns without an entry (the call began before its probe was attached)",
        "abandoned": "calls left without returning (longjmp, exit or exec inside them)",
        "clamped": "calls longer than 137 s, counted as 137 s",
        "unread_bytes": "calls whose size could not be read",
        "no_charge": "waits whose culprit was not stored: all sums by culprit are in use",
        "no_slice": "waits for a CPU that switched tasks so often that only the end of the wait has culprits",
        "uncharged_ns": "ns of waits for a CPU that no process is charged with",
        "no_follower": "wake-ups by threads that were not followed: too many threads are followed already",
        "no_allocation": "allocations of device memory not tracked: no record left for their process",
        "no_communicator": "ranks of NCCL communicators not tracked: no record left for their process",
        "no_kernel": "launches not counted by CUDA kernel: no record left for their process",
        "no_activity": "calls missing from the activity on their device: no record left for their process",
        "no_overlap": "tenants whose overlaps are missing: too many tenants were active on a device",
        "evicted": "entries of full tables forgotten: CUDA kernels may lack names, calls their devices",
        "no_ring": "calls not captured, only counted in their rows: the ring for captured calls was full",
        "no_stack": "stacks of captured calls not read: the ring for stacks was full",
        "unprobed": "processes that could make calls before their libraries were probed",
        "missed": "hits of probes that the Linux kernel skipped",
    }
)
"""Every counter of ``Window.loss`` with its meaning."""

UNCOUNTED = ("no_slot", "no_thread", "too_deep", "missed")
"""Losses of whole calls, which no row counts. The header of the screen shows their sum as missed."""
ORDINARY = ("abandoned", "no_entry", "no_slice", "uncharged_ns", "unprobed")
"""Losses that are usual, such as calls that began before they were traced. Only the page of all
warnings on the screen and the text reports of a window list them."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """All measurements of one host (or of several, merged) for ``seconds`` from ``start`` on."""

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
    """Problems as they were known at the end of the window, open ones first."""
    kernels: tuple[KernelCount, ...] = ()
    """Outermost launches by row and CUDA kernel. Launches that a row counts and ``kernels`` does not are
    launches of unknown CUDA kernels."""
    calls: CapturedCalls = field(default_factory=CapturedCalls)
    """Captured calls: the slowest, and a random sample."""
    normals: Mapping[RowKey, tuple[int, int]] = field(default_factory=dict)
    """Baseline p50 and p99 (ns) of rows, as learned by the end of the window. A merged window has the
    baselines of its last window; a window of the history (``model.merge.packing``) has none."""
    stacks: tuple[StackCount, ...] = ()
    """Stacks of captured calls, and of calls that had not returned for long; those with the most time
    first."""
    allocations: tuple[Allocation, ...] = ()
    """Devices that a scheduler had allocated at the end of the window; a merged window has the allocations
    of its last window."""

    @property
    def end(self) -> float:
        """Unix time in seconds at which the window ends."""
        return self.start + self.seconds

    @property
    def partial(self) -> int:
        """Number of events that were counted, but not with all their figures. Losses that also occur on
        healthy hosts (``ORDINARY``) are left out."""
        left_out = (*UNCOUNTED, *ORDINARY)
        return sum(number for name, number in self.loss.items() if name not in left_out)

    @property
    def lost(self) -> int:
        """Number of calls that were lost: known to have happened, but counted in no row."""
        return sum(self.loss.get(name, 0) for name in UNCOUNTED)
