"""Lists every cause that is distinguished, with its name and one line about it. See docs/causes.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stalltop.model.chain import Severity


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause."""

    id: str
    title: str
    """Title of a few words, as the screen shows it."""
    about: str
    """One line that says what happens."""
    fault: bool = True
    """False if it is worth knowing but not a fault."""
    least: Severity = "low"
    """Least severity, whatever time it takes."""
    last_resort: bool = False
    """Whether it may not be a fault at all. It is reported only if nothing else is wrong with the tenant, and
    its severity is always low."""
    at_once: bool = False
    """Whether a single window is enough to open a problem: the cause does not come and go by chance."""
    stays_seconds: float = 5.0
    """Time for which its problem stays open after it was last seen: longer for what happens in a moment."""


_LIST: Final = (
    Cause("cpu_contention", "CPU taken by another tenant", "threads wait for a CPU that others hold"),
    Cause(
        "own_threads",
        "too many threads of its own",
        "threads wait for a CPU that the tenant's own threads hold",
    ),
    Cause("cfs_throttling", "CPU quota used up", "the CPU quota of its cgroup stops all its threads"),
    Cause("cpu_pinning", "pinned to too few CPUs", "threads wait for their CPUs while others are idle"),
    Cause("loader_disk", "data loading waits for a disk", "the GPU waits for workers that wait for a disk"),
    Cause(
        "loader_cpu", "data loading is short of CPU", "the GPU waits for workers that compute all the time"
    ),
    Cause("loader_lock", "data loading waits for a lock", "the GPU waits for workers that wait for a lock"),
    Cause(
        "loader_sleep",
        "data loading sleeps",
        "the GPU waits for workers that sleep by themselves, as for a rate limit",
    ),
    Cause(
        "workers_restarted",
        "data loading workers are started again and again",
        "the GPU waits while worker processes end and new ones start",
    ),
    Cause(
        "remote_service",
        "a service answers slowly",
        "the program or its workers wait for a server, of this host or of another one",
    ),
    Cause("slow_disk", "slow block device", "threads wait for a device that is slow, or loaded by others"),
    Cause(
        "reclaim", "memory is reclaimed", "threads have to free memory, or read pages back, before they go on"
    ),
    Cause(
        "major_faults", "pages are read back from disk", "memory was swapped out or dropped and is read again"
    ),
    Cause(
        "oom_kill",
        "killed for lack of memory",
        "the kernel killed a process of the tenant",
        least="critical",
        at_once=True,
        stays_seconds=60.0,
    ),
    Cause("lock_contention", "threads wait for a lock", "a lock is held by another thread or process"),
    Cause(
        "gil",
        "Python's interpreter lock is held",
        "another Python thread of the process computes while the calling one waits to run Python code",
    ),
    Cause(
        "stopped",
        "stopped by a signal or a freezer",
        "SIGSTOP, a debugger or the cgroup freezer stops threads of the tenant",
    ),
    Cause(
        "tcp_retransmits",
        "TCP segments sent again",
        "the network loses segments of this process's connections",
    ),
    Cause(
        "unexplained_wait",
        "waits for nobody known",
        "threads wait longer than usual, and who ends these waits is not known",
        last_resort=True,
    ),
    Cause(
        "host_bound",
        "bound by its own computing",
        "the device waits while the program computes between its calls",
        fault=False,
    ),
    Cause(
        "allocation_storm", "device memory allocated in the loop", "allocating and freeing stalls the device"
    ),
    Cause(
        "memory_leak",
        "device memory leaks",
        "more device memory is allocated than freed, without end",
        least="medium",
    ),
    Cause(
        "memory_churn", "address ranges mapped over and over", "an allocator maps and unmaps device memory"
    ),
    Cause("gpu_memory_full", "device memory nearly full", "the next allocation may fail", least="medium"),
    Cause("pageable_copies", "copies from pageable memory", "the driver copies by way of a staging buffer"),
    Cause("small_copies", "many small copies", "the cost of starting copies exceeds that of moving bytes"),
    Cause(
        "sync_storm",
        "waits for the device after every step",
        "host and device take turns instead of overlapping",
    ),
    Cause(
        "launch_bound",
        "bound by launching kernels",
        "kernels are so short that launching them takes all the time",
    ),
    Cause("cold_start", "modules are being loaded", "first calls load and compile device code"),
    Cause(
        "graph_recapture",
        "CUDA graphs captured again and again",
        "capturing costs what the graph should save",
    ),
    Cause("graph_unlaunched", "CUDA graphs never launched", "graphs are captured and never used"),
    Cause("nccl_straggler", "one rank comes late", "all ranks of a collective wait for the last one"),
    Cause(
        "nccl_hang",
        "a collective hangs",
        "ranks wait for one that has not entered",
        least="high",
        at_once=True,
    ),
    Cause("hung_call", "a call does not return", "a call has been open for long", least="high", at_once=True),
    Cause(
        "gpu_power", "clocks held down by the power cap", "the device reached its power limit", least="low"
    ),
    Cause(
        "gpu_thermal", "clocks held down by heat", "the device reached its temperature limit", least="medium"
    ),
    Cause(
        "gpu_hardware_slowdown",
        "clocks held down by the hardware",
        "power brake or hardware protection",
        least="medium",
    ),
    Cause("gpu_clocks", "clocks lowered", "the device runs below its clocks although it has work"),
    Cause(
        "gpu_ecc",
        "memory errors",
        "the device reported errors of its memory",
        least="medium",
        at_once=True,
        stays_seconds=60.0,
    ),
    Cause(
        "gpu_xid",
        "XID error",
        "the driver reported a critical error of the device",
        least="high",
        at_once=True,
        stays_seconds=60.0,
    ),
    Cause("gpu_lost", "device lost", "the device no longer answers", least="critical", at_once=True),
    Cause(
        "pcie_link",
        "PCIe link below its best",
        "the link has fewer lanes or a lower generation than it could",
        least="medium",
    ),
    # So many replays in one window are far above those of a sound link: one window is enough.
    Cause(
        "pcie_replays",
        "PCIe replays",
        "the link sends packets again: a bad contact or signal",
        at_once=True,
    ),
    Cause("gpu_neighbours", "device shared with others", "other tenants launch on the same device"),
    Cause(
        "gpu_not_given",
        "uses a GPU it was not given",
        "a tenant works on a device that Kubernetes gave to others, or to nobody",
    ),
    Cause("gpu_bound", "bound by the device", "calls wait for the device's own work", fault=False),
    Cause("tracer", "stalltop itself", "tracing takes a noticeable part of the time"),
)

CAUSES: Final = {cause.id: cause for cause in _LIST}
"""Causes by id."""
