"""Finds problems of device memory: it is allocated in the loop, mapped over and over, or nearly full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import who_of
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import DeviceCalls, Usage
from stalltop.diagnosis.wording.figures import duration, figure, size
from stalltop.diagnosis.wording.looks import at_line
from stalltop.model.chain import Fix, Link
from stalltop.model.devices.device import Device
from stalltop.model.families import Family
from stalltop.model.telling import Telling
from stalltop.model.text.words import numbered

CAUSES: Final = (
    Cause(
        "allocation_storm",
        "Allocates GPU memory in loop",
        "allocating and freeing stalls the device",
        Telling("allocates and frees GPU memory all the time", "allocates and frees GPU memory all the time"),
    ),
    Cause(
        "memory_churn",
        "Device memory mapping churn",
        "an allocator maps and unmaps device memory",
        Telling("maps and unmaps GPU memory all the time", "maps and unmaps GPU memory all the time"),
    ),
    Cause(
        "gpu_memory_full",
        "Device memory nearly full",
        "the next allocation may fail",
        Telling(
            "holds most of the memory of {device}",
            "finds the memory of {device} nearly full",
            state="may run out of GPU memory",
        ),
        least="medium",
    ),
)

LEAST_PER_S: Final = 4
"""Least number of allocations per second in a loop, and least number of frees."""
EVEN: Final = 0.5
"""In a loop, there are about as many frees as allocations: the smaller number is at least this part of the
larger one. A program that starts only allocates, a program that ends only frees."""
SLOW_POOL_NS: Final = 50_000
"""A stream-ordered allocation takes a few microseconds if its pool holds enough memory. If allocations take
at least this long on average, ns, the driver has to get memory from the device first."""

_DIRECT: Final = (Family.ALLOC, Family.HOST_ALLOC, Family.FREE, Family.HOST_FREE)
_PINNED: Final = "keep pinned buffers and use them again: pinning takes time for each page"
_POOLED: Final = (Family.POOL_ALLOC, Family.POOL_FREE, Family.POOL)


def allocation_storm(usage: Usage) -> Iterator[Suspicion]:
    """Yields processes that allocate and free memory in their loop. Every free waits for the device, and
    every allocation goes to the driver."""
    allocated = usage.of(Family.ALLOC, Family.HOST_ALLOC, Family.POOL_ALLOC)
    freed = usage.of(Family.FREE, Family.HOST_FREE, Family.POOL_FREE)
    if not _alternate(usage, allocated, freed):
        return
    hit = usage.of(*_DIRECT, *_POOLED)
    if not usage.noticeable(hit.total_ns):
        return
    pooled, direct = usage.of(*_POOLED), usage.of(*_DIRECT)
    rate = figure(usage.per_second(allocated.calls))
    growing = pooled.total_ns > direct.total_ns and usage.of(Family.POOL_ALLOC).mean_ns >= SLOW_POOL_NS
    links = [
        usage.step(f"allocations, {duration(allocated.mean_ns)} each", allocated, hit.total_ns),
        usage.step(f"frees, {duration(freed.mean_ns)} each", freed, hit.total_ns),
        usage.own(
            f"{usage.process} allocates {rate} times a second in its loop",
            share=1.0,
            ns=hit.total_ns,
        ),
    ]
    look = at_line(usage.facts, who_of(usage), "allocates")
    if growing:
        links.append(
            Link(
                "reason",
                "the pool returns its memory to the driver at every synchronisation, and gets it again",
                depth=3,
            )
        )
        fixes = [
            Fix(
                f"let the pool of {usage.process} keep its memory: cudaMemPoolSetAttribute with "
                "cudaMemPoolAttrReleaseThreshold set to what a step needs",
                short="raise the pool's cudaMemPoolAttrReleaseThreshold",
            ),
            look,
        ]
    else:
        fixes = [
            Fix(
                f"allocate once before the loop of {usage.process} and use the memory again, or allocate "
                "from a caching allocator",
                short="allocate once, before the loop",
            ),
            look,
            Fix("replace cudaMalloc and cudaFree in the loop by cudaMallocAsync and cudaFreeAsync"),
            Fix(
                "in PyTorch: no torch.cuda.empty_cache() in the loop, and PYTORCH_NO_CUDA_MEMORY_CACHING "
                "unset",
                f"tr '\\0' '\\n' < /proc/{usage.pid}/environ | grep PYTORCH",
                look=True,
            ),
        ]
    pinned = usage.of(Family.HOST_ALLOC, Family.HOST_FREE)
    if pinned.total_ns > hit.total_ns / 2:
        fixes.insert(0, Fix(_PINNED, short="keep pinned buffers and use them again"))
    yield usage.suspect(
        "allocation_storm",
        f"{usage.who} allocates and frees memory in its loop",
        hit.total_ns,
        confidence=0.9,
        links=links,
        fixes=fixes,
        hit=hit,
    )


def memory_churn(usage: Usage) -> Iterator[Suspicion]:
    """Yields processes that map and unmap address ranges in their loop."""
    mapped, unmapped = usage.of(Family.MAP), usage.of(Family.UNMAP)
    if not _alternate(usage, mapped, unmapped):
        return
    hit = usage.of(Family.MAP, Family.UNMAP)
    if not usage.noticeable(hit.total_ns):
        return
    yield usage.suspect(
        "memory_churn",
        f"{usage.who} maps and unmaps device memory in its loop",
        hit.total_ns,
        confidence=0.85,
        links=(
            usage.step(f"mapping, {duration(mapped.mean_ns)} a call", mapped, hit.total_ns),
            usage.step(f"unmapping, {duration(unmapped.mean_ns)} a call", unmapped, hit.total_ns),
            usage.own(
                f"{usage.process} makes {figure(usage.per_second(hit.calls))} such calls a second",
                share=1.0,
                ns=hit.total_ns,
            ),
        ),
        fixes=(
            Fix(
                f"keep what {usage.process} has mapped: with PyTorch's expandable_segments:True leave room "
                "on the device, so that its allocator need not give segments back; no "
                "torch.cuda.empty_cache() in the loop",
                short="leave GPU memory free; no empty_cache() in the loop",
            ),
            at_line(usage.facts, who_of(usage), "maps memory"),
            Fix("limit the sizes of batches or sequences, so that new blocks fit into freed ones"),
        ),
        hit=hit,
    )


def _alternate(usage: Usage, taken: DeviceCalls, given: DeviceCalls) -> bool:
    fewer, more = sorted((taken.calls, given.calls))
    return usage.per_second(fewer) >= LEAST_PER_S and fewer >= EVEN * more


NEARLY_FULL: Final = 0.97
"""If at least this part of a device's memory is in use, allocators have to free memory before they can
allocate."""
SLOW_ALLOC_NS: Final = 10_000_000
"""An allocation that takes at least this long, ns, had to wait for frees. Otherwise the driver takes 0.1 to 1
ms."""


def gpu_memory_full(facts: Facts, device: Device, users: Sequence[Usage]) -> Iterator[Suspicion]:
    """Yields processes whose allocations fail or take long because the device is nearly full."""
    used, total = device.memory_used_bytes, device.memory_total_bytes
    if not used or not total or used < NEARLY_FULL * total:
        return
    for usage in users:
        allocated = usage.of(Family.ALLOC, Family.POOL_ALLOC, Family.MAP)
        slow = usage.noticeable(allocated.total_ns) and allocated.rows[0].max_ns >= SLOW_ALLOC_NS
        if not allocated.errors and not slow:
            continue
        yield _full(facts, device, usage, allocated, used, total)


def _full(
    facts: Facts, device: Device, usage: Usage, allocated: DeviceCalls, used: int, total: int
) -> Suspicion:
    gpu = f"GPU {device.index}"
    lost = usage.of(Family.ALLOC, Family.POOL_ALLOC, Family.MAP, Family.FREE, Family.POOL_FREE, Family.UNMAP)
    failed = (
        f"{allocated.errors:,} of {numbered(allocated.calls, 'allocation')} failed"
        if allocated.errors
        else ""
    )
    links = [
        usage.step(failed or f"allocations, {duration(allocated.mean_ns)} each", lost, lost.total_ns),
        Link(
            "mechanism",
            f"{gpu} has {size(total - used)} of {size(total)} left",
            device=gpu,
        ),
    ]
    holders = sorted(
        (process for process in device.processes if process.memory_bytes),
        key=lambda process: process.memory_bytes or 0,
        reverse=True,
    )
    for holder in holders[:3]:
        held = holder.memory_bytes or 0
        links.append(
            Link(
                "culprit",
                f"pid {holder.pid} of {facts.name(holder.tenant)} holds {size(held)}",
                share=min(1.0, held / used),
                tenant=holder.tenant,
                pid=holder.pid,
                device=gpu,
                depth=2,
            )
        )
    if not holders:
        links.append(usage.own(f"{usage.process} allocates on a full device"))
    return usage.suspect(
        "gpu_memory_full",
        f"{usage.who}: {failed or 'allocations take long'}, {gpu} is nearly full",
        lost.total_ns,
        confidence=0.95 if allocated.errors else 0.8,
        links=links,
        fixes=(
            Fix(
                f"see who holds the memory of {gpu}",
                f"nvidia-smi -i {device.index} --query-compute-apps=pid,process_name,used_memory "
                "--format=csv",
                look=True,
            ),
            Fix(
                "smaller batches, or fewer tenants on this device; servers that take a part of the device "
                "at start have a setting for it (vLLM --gpu-memory-utilization, "
                "XLA_PYTHON_CLIENT_MEM_FRACTION)"
            ),
            Fix(
                "against fragments in PyTorch's cache: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
                f"for {usage.process}"
            ),
        ),
        hit=allocated,
        about=gpu,
        unknown=() if holders else ("which process holds how much memory: the driver does not report it",),
    )


def device_of(facts: Facts, pid: int) -> Device | None:
    """Returns the device on which ``pid`` has a context; None if that is not known, or if there are
    several."""
    found = [
        device
        for device in facts.window.devices.devices
        if any(process.pid == pid for process in device.processes)
    ]
    return found[0] if len(found) == 1 else None


def free_bytes(device: Device | None) -> int | None:
    """Returns the free bytes of a device; None if that is not known."""
    if device is None or device.memory_total_bytes is None or device.memory_used_bytes is None:
        return None
    return max(device.memory_total_bytes - device.memory_used_bytes, 0)


PROCESS_RULES: Final = (allocation_storm, memory_churn)
