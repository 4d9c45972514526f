"""Defines what the kernel side reports in addition to counts. Processes and cgroups have numeric ids here."""

from __future__ import annotations

from typing import Final, NamedTuple

from stalltop.probes.layout import Evicting, Pool

OTHERS: Final = -1
"""Stands in place of a culprit's PID in a charge that is the sum of small charges."""


class Memory(NamedTuple):
    """Memory of the maps and programs in the Linux kernel."""

    bytes: int
    most: int
    """The most that may be used, bytes."""
    all_in_use: bool
    """Whether no slot or no octave of a histogram is free, and there is no memory for more."""


class RawEvictions(NamedTuple):
    """Elements that one LRU map lost since the previous read, because it was full."""

    map: Evicting
    size: int
    """Number of elements that the map holds."""
    evicted: int


class RawCharge(NamedTuple):
    """Off-CPU time of one operation that one culprit caused, since the previous read. The culprit may be
    another thread of the same process."""

    tgid: int
    cgroup_id: int
    operation: int
    """Operation of the outermost call, or a host gap or host work. The bits from ``layout.DEVICE_SHIFT`` on
    hold the device."""
    part: int
    """The part of the split, as an index of ``model.window.SPLITS``."""
    culprit_tgid: int
    """PID of the culprit; 0 for the Linux kernel itself (an interrupt), ``OTHERS`` for several culprits that
    are summed."""
    culprit_cgroup_id: int
    """Cgroup id of the culprit; 0 if ``OTHERS`` stands for culprits in several cgroups."""
    ns: int
    times: int


class RawWait(NamedTuple):
    """Waits of one thread that were ended by one other thread, since the previous read."""

    tgid: int
    tid: int
    cgroup_id: int
    operation: int
    """As in `RawCharge`."""
    part: int
    """The part of the split, as an index of ``model.window.SPLITS``."""
    how: int
    """``layout.How``."""
    waker_tgid: int
    """PID of the process that ended the waits. 0 if an interrupt ended them, such as that of a timer (for
    sleeps) or of a packet from another host."""
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
    """Time of each part (``model.window.SPLITS``); the parts add up to the time since the previous read."""
    startup_ns: int
    """Time from the start of the process until the thread was first followed, ns. It is given in the first
    read of the thread, if the process started after tracing began; otherwise it is 0."""
    held: int = 0
    """``How.STOPPED`` while a signal has stopped the thread, ``How.TRACED`` while a debugger has stopped it,
    ``How.FROZEN`` while its cgroup is frozen; otherwise 0."""
    held_ns: int = 0
    """How long the thread has been in this state (``held``) since the previous read, ns."""


class RawPlaced(NamedTuple):
    """How many samples found a thread of one process on one CPU, or waiting for that CPU. Two threads in one
    sample count twice."""

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
    """Time of each part (``model.window.SPLITS``); the parts add up to ``duration_ns``. None: not
    measured."""
    arguments: tuple[int, ...]
    """The first arguments of the call, each as the whole register."""
    born_ns: int
    """For an outermost launch, when its program was first seen, as in ``probes.maps.launches.RawKernel``."""
    device: int = 0
    """As in ``probes.maps.slots.SlotKey``."""


class RawHeld(NamedTuple):
    """Device memory of one program that a process runs or has run. ``cgroup_id`` is the cgroup in which the
    program last allocated or freed memory. Counts are since the previous read; ``held`` and ``held_bytes``
    are as of now."""

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
    """Number of the device in the BPF programs, as in ``probes.maps.slots.SlotKey``."""
    ticks: int
    """Set of ticks: bit n stands for the nth tick since the previous read (``probes.maps.activity``)."""


class RawActivities(NamedTuple):
    """When each process was active on its devices, since the previous read."""

    first_tick: int
    """First tick of this read; ``end_tick`` is the first tick that is left to the next read. Ticks are
    counted from time 0 of CLOCK_MONOTONIC."""
    end_tick: int
    active: list[RawActivity]
    late_ns: int = 0
    """Part of the time since the previous read for which activity is unknown, because a sample was taken, or
    samples were read, too late, ns."""


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
    """Number of collectives that the rank entered since the previous read. The following fields, up to
    ``last``, are also since then."""
    joined: int
    late_ns: int
    last: int
    behind: int
    since_entry_ns: int
    entered: int
    """Number of collectives that the rank has entered since the communicator was made."""
    entries: str = ""
    """When it entered the chosen ones of ``collectives`` (``model.hosts.collectives``)."""
    nccl_hashes: str = ""
    """``model.evidence.Rank.nccl_hashes``."""


class RawQuota(NamedTuple):
    """A process, or a cgroup, that was refused records since the previous read."""

    tgid: int
    """The process, or a process of the cgroup."""
    cgroup_id: int
    """The cgroup whose processes together have too many; 0 if the process alone has too many."""
    pool: Pool
    used: int
    """Number of records that it has."""
    size: int
    """Number of records that there are."""
    refused: int
    """How often it asked for a record and got none."""
