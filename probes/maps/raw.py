"""Defines what the kernel side reports besides counts, with numeric ids of processes and cgroups."""

from __future__ import annotations

from typing import Final, NamedTuple

OTHERS: Final = -1
"""Stands in place of a culprit's PID in a charge that is the sum of small charges."""


class RawCharge(NamedTuple):
    """Off-CPU time of one operation that another process caused, since the previous read."""

    tgid: int
    cgroup_id: int
    operation: int
    """Operation of the outermost call, a host gap or host work; the bits above it hold the device:
    ``layout.DEVICE_SHIFT``."""
    part: int
    """Column of ``model.window.SPLITS``."""
    culprit_tgid: int
    """PID of the culprit; 0 for the Linux kernel itself (an interrupt), ``OTHERS`` for several culprits that
    are summed."""
    culprit_cgroup_id: int
    """Cgroup id of the culprit; 0 if the culprits that ``OTHERS`` stands for are in several cgroups."""
    ns: int
    times: int


class RawWait(NamedTuple):
    """Waits of one thread that one other thread ended, since the previous read."""

    tgid: int
    tid: int
    cgroup_id: int
    operation: int
    """As in `RawCharge`."""
    part: int
    """Column of ``model.window.SPLITS``."""
    how: int
    """``layout.How``."""
    waker_tgid: int
    """PID of the process that ended the waits; 0 if an interrupt did, such as that of a timer (for sleeps) or
    of a packet from another host."""
    waker_tid: int
    waker_cgroup_id: int
    ns: int
    times: int


class RawWork(NamedTuple):
    """What one thread with a record did since the previous read."""

    tgid: int
    tid: int
    cgroup_id: int
    link: int
    """0 if the thread makes calls; 1 if it wakes such a thread; n if it wakes a thread with link n - 1."""
    split_ns: tuple[int, ...]
    """By ``model.window.SPLITS``; the parts add up to the time since the previous read."""
    startup_ns: int
    """Time from the start of its process until the thread was first followed. Given in the first read of the
    thread, if the process started after tracing began; else 0."""
    held: int = 0
    """``How.STOPPED``, ``How.TRACED`` or ``How.FROZEN`` while the thread is in such a state; else 0."""
    held_ns: int = 0
    """Time since the previous read for which the thread has been stopped, traced or frozen."""


class RawPlaced(NamedTuple):
    """How often threads of a process had a CPU, or waited for it, when samples were taken."""

    tgid: int
    cpu: int
    times: int


class RawCapturedCall(NamedTuple):
    """One captured call."""

    tgid: int
    tid: int
    cgroup_id: int
    operation: int
    nested: bool
    function: int
    """``Function.id``."""
    start_ns: int
    """CLOCK_MONOTONIC, ns."""
    duration_ns: int
    bytes: int
    returned: int
    slow: bool
    """Whether it was captured because it was slow; if not, it was captured at random."""
    split_ns: tuple[int, ...] | None
    """Parts by ``model.window.SPLITS``, which add up to ``duration_ns``. None: not measured."""
    arguments: tuple[int, ...]
    """The first arguments, as whole registers."""
    born_ns: int
    """For an outermost launch, when its program was first seen, as in ``probes.maps.launches.RawKernel``."""
    device: int = 0
    """As in ``probes.maps.slots.SlotKey``."""


class RawHeld(NamedTuple):
    """Device memory of one process in one cgroup. Counts are since the previous read; ``held`` and
    ``held_bytes`` are now."""

    tgid: int
    cgroup_id: int
    allocations: int
    frees: int
    allocated_bytes: int
    freed_bytes: int
    held: int
    held_bytes: int


class RawActivity(NamedTuple):
    """When a process was active on one of its devices, since the previous read."""

    tgid: int
    cgroup_id: int
    device: int
    """Device number from the BPF programs: 0 if it is not known, else the ordinal in its program + 1."""
    ticks: int
    """Set of ticks; bit n stands for the nth tick since the previous read: see ``probes.maps.activity``."""


class RawActivities(NamedTuple):
    """When all processes were active, since the previous read."""

    first_tick: int
    """First tick of the time since the previous read; ``end_tick`` is the first tick after that time. Ticks
    are counted from time 0 of CLOCK_MONOTONIC."""
    end_tick: int
    active: list[RawActivity]
    late_ns: int = 0
    """Part of the time since the previous read of which nothing is known, because a sample was taken too
    late, ns."""


class RawRank(NamedTuple):
    """One process's rank in one NCCL communicator, compared with the other ranks on this host."""

    communicator: int
    """Hash of the communicator's unique id."""
    tgid: int
    cgroup_id: int
    rank: int
    ranks: int
    local_ranks: int
    collectives: int
    """Number of collectives entered since the previous read. The fields up to ``last`` count since then,
    too."""
    joined: int
    late_ns: int
    last: int
    behind: int
    since_entry_ns: int
    entered: int
    """Number of collectives entered since the communicator was made."""
