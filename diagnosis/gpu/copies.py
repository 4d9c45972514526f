"""Finds copies that cost the host more than necessary: copies from pageable memory, and many small copies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.gpu.device_faults import link_rate
from stalltop.diagnosis.links import link_of
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import Usage, added
from stalltop.diagnosis.wording.figures import duration, figure, size
from stalltop.model.chain import Fix
from stalltop.model.telling import Telling

CAUSES: Final = (
    Cause(
        "pageable_copies",
        "Copies from pageable memory",
        "the driver copies by way of a staging buffer",
        Telling("copies from pageable memory", "copies from pageable memory"),
    ),
    Cause(
        "small_copies",
        "Many small copies",
        "the cost of starting copies exceeds that of moving bytes",
        Telling("makes many small copies", "makes many small copies"),
    ),
)

STAGED_BYTES: Final = 64 << 10
"""The driver sends copies from pageable memory up to this size, bytes, inside the command itself, without a
staging buffer (CUDA's driver API, "API synchronization behavior")."""
PAGEABLE_BYTES_PER_S: Final = (0.5e9, 10e9)
"""Lowest and highest rate at which a CPU core moves bytes into a staging buffer, bytes/s. A slower copy
mostly waits for the device. A faster copy is as fast as one from pinned memory on many hosts."""
PINNED_BYTES_PER_S: Final = 12e9
"""Least rate of a copy from pinned memory over PCIe 3.0 x16, bytes/s. This is the slowest link of data-centre
cards still in use. The lost time of a synchronous copy from pageable memory is the time that it takes beyond
a copy at this rate, or at the rate that ``PINNED_OF_LINK`` gives if that is lower."""
PINNED_OF_LINK: Final = 0.7
"""A copy from pinned memory reaches at least this part of the link's rate. A copy from pageable memory that
is as fast, because the link is slow, is not reported. Packets of 128 or 256 bytes of data, each with about
24 bytes of header, framing and checksum, leave 84 to 91 % of the rate for data."""
STARTED_NS: Final = 10_000
"""Time to start a copy from pinned memory, ns. An asynchronous copy returns after about this time."""
SHORTEST_COPY: Final = 0.5
"""A thread counts as moving the bytes itself if it is on the CPU for at least this part of the copies'
time."""


def pageable_copies(usage: Usage) -> Iterator[Suspicion]:
    """Yields processes whose copies, to or from the device, go through a staging buffer. A thread moves the
    bytes into or out of this buffer."""
    rows = []
    lost = 0.0
    pinned_per_s = _pinned_bytes_per_s(usage)
    for asynchronous in (True, False):
        for row in usage.copies("HtoD", "DtoH", asynchronous=asynchronous).rows:
            calls = added(usage.facts, (row,))
            if calls.mean_bytes <= STAGED_BYTES or calls.running_ns < SHORTEST_COPY * calls.total_ns:
                continue
            least, most = PAGEABLE_BYTES_PER_S
            if not asynchronous:
                most = min(most, pinned_per_s)
            if not least <= calls.bytes / max(calls.running_ns, 1) * 1e9 <= most:
                continue
            pinned_ns = calls.calls * STARTED_NS
            if not asynchronous:
                pinned_ns += round(calls.bytes / min(PINNED_BYTES_PER_S, pinned_per_s) * 1e9)
            rows.append(row)
            lost += max(calls.total_ns - pinned_ns, 0)
    if not usage.noticeable(lost):
        return
    hit = added(usage.facts, rows)
    rate = figure(hit.bytes / max(hit.total_ns, 1))
    sure = "Async" in hit.rows[0].key.operation
    yield usage.suspect(
        "pageable_copies",
        f"{usage.who} copies from or to memory that is not pinned",
        lost,
        confidence=0.9 if sure else 0.7,
        links=(
            usage.step(
                f"copies of {size(hit.mean_bytes)} at {rate} GB/s, on the CPU for most of the time", hit, lost
            ),
            usage.own(
                f"{usage.process} gives the driver pageable memory for {size(usage.per_second(hit.bytes))} "
                "a second",
                share=1.0,
                ns=lost,
            ),
        ),
        fixes=(
            Fix(
                f"in {usage.process}: DataLoader(pin_memory=True) and tensor.to(device, non_blocking=True)",
                short="pin memory: DataLoader(pin_memory=True)",
            ),
            Fix("in CUDA code: cudaHostAlloc or cudaHostRegister for the buffers, then cudaMemcpyAsync"),
        ),
        hit=hit,
        unknown=()
        if sure
        else ("how much of this time the thread was spinning, to wait for earlier work of the device",),
    )


def _pinned_bytes_per_s(usage: Usage) -> float:
    """Returns the lowest rate, bytes/s, of a copy from pinned memory over the slowest link of the process's
    devices. Returns infinity if the links are not known."""
    devices = (
        device
        for device in usage.facts.window.devices.devices
        if any(process.pid == usage.pid for process in device.processes)
    )
    rates = [link_rate(device.pcie_generation, device.pcie_width) for device in devices]
    known = [rate * 1e9 for rate in rates if rate]
    return PINNED_OF_LINK * min(known) if known else math.inf


SMALL_BYTES: Final = 64 << 10
"""Largest size of a small copy, bytes. At 12 GB/s such a copy takes 5 us, about as long as starting it."""
SMALL_PER_S: Final = 1_000
"""Least number of small copies per second that is reported. A program that copies this often loops over
pieces, and does not just copy the inputs of requests."""
SMALL_MEAN_NS: Final = 100_000
"""Largest mean time of a small copy, ns. A small copy that takes longer waits for the device, which is
another cause."""


def small_copies(usage: Usage) -> Iterator[Suspicion]:
    """Yields processes that make many copies of few bytes each, so that starting them takes most of the
    time."""
    small = added(
        usage.facts,
        (
            row
            for row in usage.copies().rows
            if 0 < row.bytes <= SMALL_BYTES * row.calls and row.total_ns <= SMALL_MEAN_NS * row.calls
        ),
    )
    if usage.per_second(small.calls) < SMALL_PER_S:
        return
    lost = max(small.total_ns - small.bytes / PINNED_BYTES_PER_S * 1e9, 0)
    if not usage.noticeable(lost):
        return
    yield usage.suspect(
        "small_copies",
        f"{usage.who} copies in small pieces",
        lost,
        confidence=0.9,
        links=(
            usage.step(
                f"{figure(usage.per_second(small.calls))} copies a second: {size(small.mean_bytes)} and "
                f"{duration(small.mean_ns)} each",
                small,
                lost,
            ),
            usage.own(f"{usage.process} copies piece by piece", share=1.0, ns=lost),
            link_of(
                usage,
                "factor",
                f"{size(usage.per_second(small.bytes))} a second in all: one copy of that takes "
                f"{duration(usage.per_second(small.bytes) / PINNED_BYTES_PER_S * 1e9)}",
                depth=2,
            ),
        ),
        fixes=(
            Fix(
                f"collect the pieces in one pinned buffer of {usage.process} and copy that once a step",
                short="collect the pieces in one pinned buffer, copy once",
            ),
            Fix(
                "copy strided data with cudaMemcpy2DAsync, many buffers with cudaMemcpyBatchAsync (CUDA 12.8)"
            ),
        ),
        hit=small,
    )


PROCESS_RULES: Final = (pageable_copies, small_copies)
