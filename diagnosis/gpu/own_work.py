"""Finds programs that are limited by what they compute between calls. This is not a fault, but worth
knowing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.gpu.launches import SHORT_LAUNCH_NS
from stalltop.diagnosis.links import link_of
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import SECOND_NS, Usage
from stalltop.model.chain import Fix
from stalltop.model.evidence import HOST_GAP
from stalltop.model.telling import Telling

CAUSES: Final = (
    Cause(
        "host_bound",
        "CPU-bound between GPU calls",
        "the device waits while the program computes between its calls",
        Telling("computes between its calls", "is bound by its own computing", parts=("running",)),
        fault=False,
    ),
)

BOUND_SHARE: Final = 0.5
"""A program is limited by its own computing if it computes between its calls for at least this part of its
time."""
WAITING_PART: Final = 0.5
"""If the utilization of the device is not known, a program that waits for the device for more than this part
of the time for which it computes is not said to be limited by its computing."""
BUSY_DEVICE_PERCENT: Final = 80.0
"""A device with at least this utilization, percent, does not wait for the program."""


def host_bound(facts: Facts) -> Iterator[Suspicion]:
    """Yields processes whose calling threads compute between calls for most of their time, while the device
    has little to do."""
    for pid in facts.callers:
        computing_ns = sum(gap.split_ns.get("running", 0) for gap in facts.gaps_of(pid))
        # This cheap check excludes most programs.
        if computing_ns < BOUND_SHARE * facts.seconds * SECOND_NS:
            continue
        if calls := facts.calls_of(pid):
            yield from _bound(Usage(facts, pid, calls))


def _bound(usage: Usage) -> Iterator[Suspicion]:
    facts, launches = usage.facts, usage.launched
    computing_ns = usage.gap.running_ns if usage.gap else 0
    busy_ns = max(usage.wall_ns - _turns_ns(facts, usage.pid), facts.seconds * SECOND_NS)
    if not usage.kernels or computing_ns < BOUND_SHARE * busy_ns:
        return
    if launches.rows and launches.rows[0].p50_ns > SHORT_LAUNCH_NS:
        return  # Launches that take this long wait for room in the device's queue.
    percent = usage.utilization_percent
    if percent is None and usage.synced.total_ns > WAITING_PART * computing_ns:
        return  # The device may have worked while the program computed.
    if percent is not None and percent >= BUSY_DEVICE_PERCENT:
        return
    gaps = facts.gaps_of(usage.pid)
    gap = next(iter(gaps), None)
    name = facts.name(usage.tenant)
    share = min(computing_ns / busy_ns, 1.0)
    examined = any(stack.pid == usage.pid and stack.python for stack in facts.window.stacks)
    unknown = [] if examined else ["what it computes: no line of its code is known"]
    if percent is None:
        unknown.append("whether the device has nothing to do meanwhile: its utilization is not known")
    yield Suspicion(
        cause="host_bound",
        tenant=usage.tenant,
        summary=f"{usage.who} computes between its calls, {100 * share:.0f}% of its time, and the device "
        "waits for it",
        lost_ns_per_s=usage.per_second(computing_ns),
        confidence=share,
        links=(
            link_of(
                usage,
                "effect",
                f"{name} spends time between its calls",
                share=1.0,
                ns_per_s=usage.per_second(computing_ns),
                depth=0,
            ),
            usage.own(
                f"{usage.process} computes in the threads that call, {100 * share:.0f}% of their time",
                share=1.0,
                ns=computing_ns,
                depth=1,
            ),
        ),
        fixes=(
            Fix(
                "see what it computes (perf top -p for code that is not Python)",
                f"py-spy top --pid {usage.pid}",
                look=True,
            ),
            Fix(
                "prepare data in other processes and ahead of time: DataLoader num_workers above 0, "
                "prefetch_factor, pin_memory; tokenize and decode beforehand"
            ),
            Fix("let the device do more for each call: larger batches, torch.compile, CUDA graphs"),
        ),
        effect=gap.key if gap is not None else None,
        rows=tuple(one.key for one in gaps),
        pid=usage.pid,
        process=usage.process,
        about=usage.process,
        unknown=tuple(unknown),
        p99_ns=gap.p99_ns if gap is not None else None,
        normal_p99_ns=gap.normal_p99_ns if gap is not None else None,
        calls=sum(one.calls for one in gaps),
        share=min(computing_ns / usage.wall_ns, 1.0),
    )


def _turns_ns(facts: Facts, pid: int) -> int:
    """Returns how many ns threads of a process waited, between their calls, for other threads of the same
    process. Such threads take turns."""
    return sum(
        charge.ns
        for charge in facts.charges_of(pid)
        if charge.operation == HOST_GAP and charge.kind == "lock" and charge.culprit_pid == pid
    )
