"""What the kernel side tells besides counts, with the kernel's own numbers of processes and cgroups."""

from __future__ import annotations

from typing import Final, NamedTuple

OTHERS: Final = -1
"""Stands for a culprit where small charges are told together."""


class RawCharge(NamedTuple):
    """Time off the CPU of one operation that another process is the cause of, since the previous read."""

    tgid: int
    cgroup_id: int
    operation: int
    """Of the outermost call, a host gap or host work; above it lies the device: ``layout.DEVICE_SHIFT``."""
    part: int
    """Column of ``model.window.SPLITS``."""
    culprit_tgid: int
    """0: the kernel itself (an interrupt); ``OTHERS``: several that are not told by themselves."""
    culprit_cgroup_id: int
    """0 with ``OTHERS``: they are of several cgroups."""
    ns: int
    times: int


class RawKeptCall(NamedTuple):
    """One call kept by itself."""

    tgid: int
    tid: int
    cgroup_id: int
    operation: int
    nested: bool
    function: int
    """``Function.id``."""
    start_ns: int
    """CLOCK_MONOTONIC."""
    duration_ns: int
    bytes: int
    returned: int
    slow: bool
    """Else it was taken at random."""
    split_ns: tuple[int, ...] | None
    """By ``model.window.SPLITS``: adds up to ``duration_ns``. None: not measured."""
    arguments: tuple[int, ...]
    """The first ones, as whole registers."""
    born_ns: int
    """Of an outermost launch: when its program was first seen, as in ``probes.maps.launches.RawKernel``."""
    device: int = 0
    """As in ``probes.maps.slots.SlotKey``."""


class RawHeld(NamedTuple):
    """Device memory of one process in one cgroup. Counts are since the previous read, what is held is now."""

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
    """As the kernel has it: 0 where it is not known, else the ordinal in its program + 1."""
    ticks: int
    """Bit n stands for the nth tick since then: see ``probes.maps.activity``."""


class RawActivities(NamedTuple):
    """When all of them were, since the previous read."""

    first_tick: int
    """Of this time, and the first after it, counted as CLOCK_MONOTONIC counts."""
    end_tick: int
    active: list[RawActivity]
    late_ns: int = 0
    """Of how much of this time nothing is known: it was looked at too late."""


class RawRank(NamedTuple):
    """One process's place in one NCCL communicator, compared with the other ranks on this host."""

    communicator: int
    """Hash of its unique id."""
    tgid: int
    cgroup_id: int
    rank: int
    ranks: int
    local_ranks: int
    collectives: int
    """Since the previous read, as all up to ``last``."""
    joined: int
    late_ns: int
    last: int
    behind: int
    since_entry_ns: int
    entered: int
    """Since the communicator was made."""
