"""Describes which processes and containers have so many records in the Linux kernel that they get no more,
and whether all memory for histograms is in use. Then some calls are not counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from stalltop.model.tenant import Tenant
from stalltop.model.window import OVER_QUOTA, UNCOUNTED, Missing
from stalltop.probes.layout import Pool
from stalltop.probes.maps.raw import Memory, RawQuota

_REMEDY: Final = "start the tracer with more --memory"
MOST_TOLD: Final = 8
"""Maximum number of processes and containers that are named."""


class _Records(NamedTuple):
    noun: str
    loss: str
    """The counter of ``model.window.LOSSES`` that rises if such a record is refused."""
    remedy: str = ""


_RECORDS: Final[Mapping[Pool, _Records]] = MappingProxyType(
    {
        Pool.SLOTS: _Records("histogram slots", "no_slot", _REMEDY),
        Pool.THREADS: _Records("thread records", "no_thread"),
        Pool.HEAPS: _Records("records of device memory", "no_allocation"),
        Pool.PIECES: _Records("allocations of device memory", "no_allocation"),
        Pool.ACTIVITIES: _Records("activity records", "no_activity"),
        Pool.MEMBERS: _Records("rank records", "no_communicator"),
        Pool.OCTAVES: _Records("octaves of histograms", "no_slot", _REMEDY),
        Pool.CHARGES: _Records("records of who took time from whom", "no_charge"),
        Pool.KERNELS: _Records("records for CUDA kernels", "no_kernel"),
    }
)


def over_quota(
    quotas: Iterable[RawQuota],
    loss: Mapping[str, int],
    *,
    named: Callable[[int], str],
    tenant_of: Callable[[int], Tenant],
) -> tuple[Missing, ...]:
    """Returns what is missing because of ``quotas``, if the losses of the window, ``loss``, rose as well.

    ``named`` gives the name of a process, with its tenant.
    """
    found = []
    for quota in quotas:
        records = _RECORDS[quota.pool]
        if not loss.get(records.loss):
            continue  # The process was only refused a slot of a thread's own: it counts in the shared one.
        who, where = named(quota.tgid), "the container of " if quota.cgroup_id else ""
        has = f"has {quota.used:,} of {quota.size:,} {records.noun}, and was refused {quota.refused:,} times"
        if records.loss in UNCOUNTED:
            what, why = f"{where}{who}", f"{OVER_QUOTA}it {has}"
            found.append(Missing(what, why, records.remedy, quota.tgid, tenant_of(quota.tgid).id))
        else:
            found.append(Missing(f"some {records.noun}", f"{OVER_QUOTA}{where}{who} {has}", records.remedy))
    return tuple(found[:MOST_TOLD])


def out_of_memory(memory: Memory, loss: Mapping[str, int]) -> tuple[Missing, ...]:
    """Returns what is missing because all memory for histograms is in use; nothing if the losses of the
    window, ``loss``, did not rise."""
    lost = loss.get("no_slot", 0)
    if not lost or not memory.all_in_use:
        return ()
    reason = (
        f"all {memory.most >> 20:,} MiB in the Linux kernel are in use: {lost:,} calls are not counted, of "
        "operations without a histogram and of durations that an operation never had before"
    )
    return (Missing("some calls", reason, _REMEDY),)
