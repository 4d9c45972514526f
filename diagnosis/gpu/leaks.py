"""Finds device memory that is allocated and never freed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.gpu.memory import device_of, free_bytes
from stalltop.diagnosis.links import link_of
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import Usage
from stalltop.diagnosis.wording.figures import duration, figure, size
from stalltop.model.chain import Fix, Link
from stalltop.model.families import Family
from stalltop.model.telling import Telling
from stalltop.model.text.words import numbered, program

CAUSES: Final = (
    Cause(
        "memory_leak",
        "Device memory leak",
        "more device memory is allocated than freed, without end",
        Telling("allocates more than it frees", "holds ever more GPU memory", state="leaks GPU memory"),
        least="medium",
    ),
)

LEAK_LOOKS: Final = ((20.0, 0.8), (120.0, 0.0), (600.0, 0.0))
"""Trends that are examined: (length in s, least part of the points that are higher than the point before).
Caches grow in the first minutes too, but in steps that become rare. Memory that grows from nearly every point
to the next is therefore reported after the shortest length."""
LEAK_SURE_SECONDS: Final = 300.0
"""Growth over this many seconds is a leak whatever the program does: no program takes so long to start."""
LEAK_POINTS: Final = 6
"""Least number of points of a trend that can be judged."""
LEAK_PARTS: Final = 4
"""A trend is cut into this many parts of equal length. Memory counts as growing only if it grows from each
part to the next."""
LEAK_STEADY: Final = 0.5
"""Least growth from the last but one part to the last, relative to the mean growth from part to part. A cache
that fills up grows more and more slowly."""
LEAK_BYTES: Final = 16 << 20
"""Least growth that is reported, bytes. Libraries allocate smaller amounts while they run."""
WORKING_PER_S: Final = 2.0
"""Least number of launches (of CUDA kernels or graphs) per second that shows that a program is in its
loop."""
LOADING: Final = 0.5
"""A program is loading a model if copies from the host fill at least this part of the memory that it
allocates, and if it frees hardly anything."""
MOSTLY_KEPT: Final = 0.1
"""A program that makes at most this many frees per allocation frees hardly anything."""
_TIME: Final = itemgetter(0)
_BYTES: Final = itemgetter(1)
"""Time and bytes of a point of a trend."""


def memory_leak(usage: Usage) -> Iterator[Suspicion]:
    """Yields a suspicion if the device memory of a process grows steadily, and if the process is in its
    training or serving loop (it launches work and does not load a model) or the growth lasts for
    ``LEAK_SURE_SECONDS``."""
    facts = usage.facts
    trend, grown, seconds = _grown(facts, usage)
    together = not grown
    if together:
        trend, grown, seconds = _grown_together(facts, usage)
    if not grown:
        return
    working = usage.per_second(usage.of(Family.LAUNCH, Family.GRAPH_LAUNCH).calls)
    if seconds < LEAK_SURE_SECONDS and (working < WORKING_PER_S or _loads(usage)):
        return
    rate = grown / seconds
    process = facts.process(usage.pid)
    held = trend[-1][1]
    allocations = usage.of(Family.ALLOC, Family.POOL_ALLOC, Family.MAP)
    device = device_of(facts, usage.pid)
    free = free_bytes(device)
    links = [
        link_of(
            usage,
            "mechanism",
            ("the processes of the tenant together: " if together else "")
            + f"held device memory grew by {size(grown)} in {figure(seconds)} s, to {size(held)}"
            + (
                f" in {numbered(process.held, 'allocation')}"
                if process is not None and process.held and not together
                else ""
            ),
        ),
        usage.own(
            f"{usage.process} keeps most of the {size(rate)} a second"
            if together
            else f"{usage.process} keeps {size(rate)} a second of what it allocates",
            share=None if together else 1.0,
        ),
    ]
    if device is not None and free is not None:
        links.append(
            Link(
                "factor",
                f"GPU {device.index} has {size(free)} left: full in {duration(free / rate * 1e9)} at this "
                "rate",
                device=f"GPU {device.index}",
                depth=2,
            )
        )
    yield usage.suspect(
        "memory_leak",
        f"{usage.who} holds ever more device memory",
        0.0,
        confidence=min(0.95, 0.7 + 0.25 * seconds / LEAK_SURE_SECONDS),
        links=links,
        fixes=(
            Fix(
                f"find what {usage.process} keeps: in PyTorch torch.cuda.memory._record_memory_history() "
                "and _dump_snapshot(); losses summed up as tensors (use .item() or .detach()), growing "
                "lists and caches",
                short="find what it keeps: torch.cuda.memory._dump_snapshot()",
            ),
            Fix("in CUDA code: compute-sanitizer --tool memcheck --leak-check full"),
            Fix(f"until then, restart {program(usage.process, usage.pid)} before the device is full"),
        ),
        hit=allocations,
        unknown=(
            () if free is not None else ("how much memory the device has left: NVML does not report it",)
        ),
    )


def _grown(facts: Facts, usage: Usage) -> tuple[Sequence[tuple[float, float]], float, float]:
    """Returns (trend, bytes, seconds) of the growth of the memory that the process holds; 0 bytes if it does
    not grow.

    The memory is the sum of the traced allocations. If this sum does not grow, the driver's figure for the
    process is used. That figure is coarser, but includes memory that was allocated before tracing began.
    """
    for what in ("held_bytes", "device_memory_bytes"):
        trend = facts.trend(what, usage.tenant, usage.pid)
        grown, seconds = _growth(trend)
        if grown:
            return trend, grown, seconds
    return (), 0.0, 0.0


def _grown_together(facts: Facts, usage: Usage) -> tuple[Sequence[tuple[float, float]], float, float]:
    """Returns (trend, bytes, seconds) of the growth of the memory that all processes of the tenant hold
    together. Each process alone may grow too little to be reported.

    Returns 0 bytes if there is no growth. Also returns 0 bytes if another process of the tenant grew more, so
    that the growth is reported only once.
    """
    trend = facts.trend("held_bytes", usage.tenant)
    grown, seconds = _growth(trend)
    if not grown or usage.pid != max(_tenants_growth(facts, usage.tenant), key=itemgetter(1))[0]:
        return (), 0.0, 0.0
    return trend, grown, seconds


def _tenants_growth(facts: Facts, tenant: str) -> list[tuple[int, float]]:
    found = []
    for pid in facts.callers:
        trend = facts.trend("held_bytes", tenant, pid)
        if trend:
            found.append((pid, trend[-1][1] - trend[0][1]))
    return found or [(0, 0.0)]


def _loads(usage: Usage) -> bool:
    """Returns whether the process seems to be loading a model (see ``LOADING``)."""
    process = usage.facts.process(usage.pid)
    if process is None or process.frees > MOSTLY_KEPT * process.allocations:
        return False
    return usage.copies("HtoD", "").bytes >= LOADING * process.allocated_bytes


def _growth(trend: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Returns (bytes, seconds) of steady growth over the longest of ``LEAK_LOOKS`` that shows it; zeros if
    none does."""
    found = (0.0, 0.0)
    values = [value for _, value in trend]
    # Most memory does not grow at all, and trends have hundreds of points.
    if not values or max(values) - min(values) < LEAK_BYTES:
        return found
    points = list(trend)
    for seconds, rising in LEAK_LOOKS:
        if points[-1][0] - points[0][0] < seconds:
            break
        look = points[bisect_left(points, points[-1][0] - seconds, key=_TIME) :]
        grown = _steady_growth(look, rising)
        if grown[0] >= LEAK_BYTES:
            found = grown
    return found


def _steady_growth(look: Sequence[tuple[float, float]], rising: float) -> tuple[float, float]:
    """Returns (bytes, seconds) by which the memory in ``look`` grew, if it grew from each of ``LEAK_PARTS``
    parts to the next, and in the last step about as fast as before (``LEAK_STEADY``); zeros otherwise. At
    least the part ``rising`` of the points must be higher than the point before."""
    if len(look) < LEAK_POINTS:
        return 0.0, 0.0
    first, seconds = look[0][0], look[-1][0] - look[0][0]
    # The lowest point of each part counts. A loop that allocates and frees goes up and down, but never below
    # the memory that it keeps.
    lows: list[tuple[float, float]] = []
    for part in range(LEAK_PARTS):
        begin, end = (first + seconds * edge / LEAK_PARTS for edge in (part, part + 1))
        points = look[bisect_left(look, begin, key=_TIME) : bisect_right(look, end, key=_TIME)]
        if not points:
            return 0.0, 0.0
        low = min(points, key=_BYTES)
        if lows and low[1] <= lows[-1][1]:
            return 0.0, 0.0
        lows.append(low)
    rises = sum(after[1] > before[1] for before, after in pairwise(look)) if rising else 0
    steps = [after[1] - before[1] for before, after in pairwise(lows)]
    grown = lows[-1][1] - lows[0][1]
    if rises < rising * (len(look) - 1) or steps[-1] < LEAK_STEADY * grown / len(steps):
        return 0.0, 0.0
    return grown, lows[-1][0] - lows[0][0]
