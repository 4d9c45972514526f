"""Finds programs that make many collectives of few bytes each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.links import link_of
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import Usage, added
from stalltop.diagnosis.wording.figures import duration, figure, size
from stalltop.model.chain import Fix
from stalltop.model.families import Family
from stalltop.model.telling import Telling

CAUSES: Final = (
    Cause(
        "small_collectives",
        "Many small collectives",
        "the cost of starting collectives exceeds that of moving bytes",
        Telling("makes many small collectives", "makes many small collectives"),
    ),
)

SMALL_BYTES: Final = 128 << 10
"""Largest size of a small collective, bytes. At 10 GB/s it takes 13 us, less than NCCL needs to start it."""
SMALL_PER_S: Final = 500
"""Least number of small collectives per second that is reported. A program that only sums up losses and norms
makes a few per step."""
SMALL_MEAN_NS: Final = 200_000
"""Largest mean time of a small collective, ns. If it takes longer, it waits for the device or for other
ranks, which are other causes."""
BUCKET_BYTES: Final = 25 << 20
"""Size of the buckets in which PyTorch's DistributedDataParallel collects gradients, bytes
(``bucket_cap_mb``)."""


def small_collectives(usage: Usage) -> Iterator[Suspicion]:
    """Yields processes that make one collective for each small tensor, and spend most of the time starting
    them."""
    small = added(
        usage.facts,
        (
            row
            for row in usage.of(Family.COLLECTIVE).rows
            if 0 < row.bytes <= SMALL_BYTES * row.calls and row.total_ns <= SMALL_MEAN_NS * row.calls
        ),
    )
    if usage.per_second(small.calls) < SMALL_PER_S or not usage.noticeable(small.total_ns):
        return
    bytes_per_s = usage.per_second(small.bytes)
    yield usage.suspect(
        "small_collectives",
        f"{usage.who} makes a collective for every small tensor",
        small.total_ns,
        confidence=0.9,
        links=(
            usage.step(
                f"{figure(usage.per_second(small.calls))} collectives a second: {size(small.mean_bytes)} and "
                f"{duration(small.mean_ns)} each",
                small,
                small.total_ns,
            ),
            usage.own(f"{usage.process} sends tensor by tensor", share=1.0, ns=small.total_ns),
            link_of(
                usage,
                "factor",
                f"{size(bytes_per_s)} a second in all: in buckets of {size(BUCKET_BYTES)} these are "
                f"{figure(max(bytes_per_s / BUCKET_BYTES, 1))} collectives a second",
                depth=2,
            ),
        ),
        fixes=(
            Fix(
                "collect gradients in buckets: DistributedDataParallel with a larger bucket_cap_mb",
                short="collect gradients: a larger bucket_cap_mb",
            ),
            Fix("send several tensors at once: all_reduce_coalesced, or ncclGroupStart and ncclGroupEnd"),
        ),
        hit=small,
    )


PROCESS_RULES: Final = (small_collectives,)
