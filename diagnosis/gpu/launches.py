"""Finds loops whose launches do not keep the device at work: loops that wait after every launch, loops that
are launch-bound, and first calls that load modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.links import link_of, who_of
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import SECOND_NS, Usage
from stalltop.diagnosis.wording.figures import duration, figure
from stalltop.diagnosis.wording.looks import at_line
from stalltop.model.chain import Fix
from stalltop.model.families import Family
from stalltop.model.telling import Telling
from stalltop.model.text.words import numbered

CAUSES: Final = (
    Cause(
        "sync_storm",
        "Syncs after every launch",
        "host and device take turns instead of overlapping",
        Telling("synchronizes after every launch", "synchronizes with {device} after every launch"),
    ),
    Cause(
        "launch_bound",
        "Launch-bound",
        "kernels are so short that launching them takes all the time",
        Telling("launches very short CUDA kernels", "launches very short CUDA kernels"),
    ),
    Cause(
        "cold_start",
        "Loading GPU modules",
        "first calls load and compile device code",
        Telling("loads GPU code", "waits for GPU code to be loaded"),
    ),
)

SYNCS_PER_S: Final = 100
"""Least number of waits for the device per second that is reported. With fewer waits, their round trips do
not matter."""
SYNCS_PER_LAUNCH: Final = 0.5
"""Least number of waits for the device per launch that is reported. Healthy loops launch ten CUDA kernels or
more between two waits, small requests four or five."""
ROUND_TRIP_NS: Final = 10_000
"""Time for which the device is idle if the host waits after each launch, ns: about 5 us until the host is
awake, and about 5 us until the next launch has reached the device (current cards)."""


def sync_storm(usage: Usage) -> Iterator[Suspicion]:
    """Yields processes that wait for the device after every launch or two, so that the device is idle while
    the host works."""
    waits = usage.synced
    kernels = usage.kernels
    if not kernels or usage.per_second(waits.calls) < SYNCS_PER_S or waits.calls < SYNCS_PER_LAUNCH * kernels:
        return
    host_ns = usage.launched.total_ns + (usage.gap.running_ns if usage.gap else 0)
    # Host and device take turns. If they overlapped, the host's work or the waits, whichever is shorter,
    # would cost no time. At least the round trips would be saved.
    lost = max(min(host_ns, waits.total_ns), min(waits.calls * ROUND_TRIP_NS, waits.total_ns))
    if not usage.noticeable(lost):
        return
    between = figure(usage.launched.calls / waits.calls)
    yield usage.suspect(
        "sync_storm",
        f"{usage.who} synchronizes after every launch or two",
        lost,
        confidence=0.85,
        links=(
            link_of(
                usage,
                "mechanism",
                f"{figure(usage.per_second(waits.calls))} waits per second, {duration(waits.mean_ns)} each, "
                f"{between} {'launch' if between == '1' else 'launches'} between two waits",
                share=1.0,
                ns_per_s=usage.per_second(lost),
            ),
            usage.own(
                f"{usage.process} calls {waits.rows[0].key.operation} in its inner loop", share=1.0, ns=lost
            ),
        ),
        fixes=(
            Fix(
                f"take the waits out of the inner loop of {usage.process}: in PyTorch .item(), .cpu(), "
                "print of a tensor and torch.cuda.synchronize() wait "
                "(torch.cuda.set_sync_debug_mode('warn') names the places)",
                short="take .item(), .cpu(), print out of the inner loop",
            ),
            at_line(usage.facts, who_of(usage), "waits"),
            Fix("order work by streams and events (cudaStreamWaitEvent) instead of waiting on the host"),
            Fix(
                "CUDA_LAUNCH_BLOCKING must not be set", _environment(usage, "CUDA_LAUNCH_BLOCKING"), look=True
            ),
        ),
        hit=waits,
        unknown=() if usage.gap else ("what the host does between calls: that was not measured",),
    )


LAUNCHES_PER_S: Final = 2_000
"""Least number of launches per second in a launch-bound loop. A loop with fewer launches is not limited by
launches."""
SHORT_LAUNCH_NS: Final = 30_000
"""Largest median duration of launches in a launch-bound loop, ns. A launch takes 2 to 10 us. If the device's
queue is full, each launch waits for a CUDA kernel to end, and the loop is GPU-bound instead."""
BUSY_SHARE: Final = 0.7
"""Least part of the threads' time that a launch-bound loop spends in launches and in the work between
launches."""
LAUNCH_SHARE: Final = 0.1
"""Least part of the threads' time that a launch-bound loop spends in launches. If launches take less, the
limit is the program's work between them."""
WAITING_SHARE: Final = 0.15
"""Largest part of the threads' time that a launch-bound loop waits for the device. If the threads wait
longer, the device has enough work."""


def launch_bound(usage: Usage) -> Iterator[Suspicion]:
    """Yields processes whose CUDA kernels are so short that the host cannot launch them fast enough."""
    launches = usage.launched
    if usage.per_second(launches.calls) < LAUNCHES_PER_S or launches.rows[0].p50_ns > SHORT_LAUNCH_NS:
        return
    between = usage.gap.running_ns if usage.gap else 0
    busy = launches.total_ns + between
    if (
        busy < BUSY_SHARE * usage.wall_ns
        or launches.total_ns < LAUNCH_SHARE * usage.wall_ns
        or usage.synced.total_ns > WAITING_SHARE * usage.wall_ns
    ):
        return
    yield usage.suspect(
        "launch_bound",
        f"{usage.who} launches kernels all the time and hardly ever waits for one",
        launches.total_ns,
        confidence=0.85 if usage.gap else 0.7,
        links=(
            usage.step(
                f"{figure(usage.per_second(launches.calls))} launches a second, "
                f"{duration(launches.mean_ns)} each",
                launches,
                launches.total_ns,
            ),
            usage.own(f"{usage.process} launches kernels one by one", share=1.0, ns=launches.total_ns),
            link_of(
                usage,
                "factor",
                "work of the host between the launches",
                ns_per_s=usage.per_second(between),
                depth=2,
            ),
        ),
        fixes=(
            Fix(
                f"capture the step of {usage.process} as a CUDA graph: "
                "torch.compile(mode='reduce-overhead'), torch.cuda.graph, or cudaStreamBeginCapture",
                short="use CUDA graphs: torch.compile(mode='reduce-overhead')",
            ),
            at_line(usage.facts, who_of(usage), "launches"),
            Fix(
                "fuse small kernels: torch.compile, fused optimizers (fused=True, foreach=True), larger "
                "batches"
            ),
        ),
        hit=launches,
        unknown=() if usage.gap else ("what the host does between launches: that was not measured",),
    )


LOADING_SHARE: Final = 0.1
"""Least part of a thread's time spent loading modules that is reported. A user then notices that the program
starts slowly."""
COMPILED_NS: Final = 1_000_000_000
"""If a single load takes at least this long, ns, and the loads mostly compute, the module is also compiled.
Reading and relocating a module takes only milliseconds."""


def cold_start(usage: Usage) -> Iterator[Suspicion]:
    """Yields processes whose first calls wait until device code is loaded, or compiled for this device."""
    loads = usage.everywhere(Family.LOAD)
    if usage.per_second(loads.total_ns) < LOADING_SHARE * SECOND_NS:
        return
    longest = max(row.max_ns for row in loads.rows)
    compiled = longest >= COMPILED_NS and loads.running_ns >= 0.5 * loads.total_ns
    lazily = loads.rows[0].key.nested
    links = [
        usage.step(
            f"{numbered(loads.calls, 'module')} loaded, the longest took {duration(longest)}",
            loads,
            loads.total_ns,
        ),
        usage.own(
            f"{usage.process} {'compiles' if compiled else 'loads'} device code"
            + (" inside its first calls" if lazily else ""),
            share=1.0,
            ns=loads.total_ns,
        ),
    ]
    disk_ns = sum(row.split_ns.get("disk", 0) + row.split_ns.get("memory", 0) for row in loads.rows)
    if disk_ns > loads.total_ns / 4:
        links.append(
            link_of(
                usage,
                "reason",
                "the files of the libraries are read from disk",
                share=min(1.0, disk_ns / loads.total_ns),
                ns_per_s=usage.per_second(disk_ns),
                depth=3,
            )
        )
    yield usage.suspect(
        "cold_start",
        f"{usage.who} waits for device code to be {'compiled' if compiled else 'loaded'}",
        loads.total_ns,
        confidence=0.9,
        links=links,
        fixes=_warm_up_fixes(usage, compiled=compiled),
        hit=loads,
    )


def _warm_up_fixes(usage: Usage, *, compiled: bool) -> list[Fix]:
    fixes = [
        Fix(
            f"warm {usage.process} up before it serves: call each kernel once, or load all at start with "
            "CUDA_MODULE_LOADING=EAGER",
            _environment(usage, "CUDA_MODULE_LOADING"),
            look=True,
        ),
        Fix(
            "if the start itself takes too long: CUDA_MODULE_LOADING=LAZY loads only what is used (default "
            "since 12.2)"
        ),
    ]
    if compiled:
        fixes.insert(
            0,
            Fix(
                "build for this device's architecture (nvcc -gencode, TORCH_CUDA_ARCH_LIST), and keep "
                "compiled code: CUDA_CACHE_PATH on a persistent disk, CUDA_CACHE_MAXSIZE large enough",
                short="build for this GPU's architecture (TORCH_CUDA_ARCH_LIST)",
            ),
        )
    return fixes


def _environment(usage: Usage, name: str) -> str:
    return f"tr '\\0' '\\n' < /proc/{usage.pid}/environ | grep {name}"


PROCESS_RULES: Final = (sync_storm, launch_bound, cold_start)
