"""Describes waits for locks between threads and processes."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.attribution import Loss, Who
from stalltop.diagnosis.host.description import Description
from stalltop.diagnosis.host.wording import blamed, named, ranked
from stalltop.diagnosis.links import link_of
from stalltop.model.chain import Fix, Link

PASSES_ON: Final = 0.5
"""Part of a process's time spent waiting for locks, from which on it only passed the lock on and did not hold
it for long."""
SURE: Final = 0.8
"""Confidence: the process that wakes a waiter either had the lock, or made what it waited for; the Linux
kernel cannot distinguish these."""


def contention(facts: Facts, loss: Loss) -> Description:
    """Describes a caller that waits for a lock."""
    culprits = ranked(holders(facts, loss), loss.ns)
    holder = culprits[0][0] if culprits else loss.victim
    own = holder.pid == loss.victim.pid
    by = f"another thread of {holder.process}" if own else named(facts, holder)
    reason = _reason(facts, holder, len(loss.path) + 3)
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for a lock that {by} holds",
        links=(
            *blamed(facts, loss, "holds the lock, and wakes the waiter", culprits, len(loss.path) + 2),
            *reason,
        ),
        fixes=(
            Fix(f"let {holder.process} (pid {holder.pid}) hold the lock for less: work outside of it"),
            Fix("call the GPU from one thread, or give each thread a stream and locks of its own"),
        ),
        confidence=SURE,
        unknown=("which lock: only who released it is known",),
    )


def holders(facts: Facts, loss: Loss) -> dict[Who, float]:
    """Returns who holds the lock, ns of the loss, without processes that wait for it as the victim does."""
    waiting = {who for who in loss.culprits if _stands_in_line(facts, who)}
    kept = {who: ns for who, ns in loss.culprits.items() if who not in waiting}
    if not kept:
        return dict(loss.culprits)
    scale = sum(loss.culprits.values()) / sum(kept.values())
    return {who: ns * scale for who, ns in kept.items()}


def _stands_in_line(facts: Facts, who: Who) -> bool:
    work = facts.work_of(who.pid)
    return work is not None and work.share("lock") >= PASSES_ON


def _reason(facts: Facts, holder: Who, depth: int) -> tuple[Link, ...]:
    """Returns what the holder does meanwhile, if it is followed."""
    work = facts.work_of(holder.pid)
    if work is None or not work.total_ns:
        return ()
    part = max(work.split_ns, key=lambda name: work.split_ns[name], default="")
    if not part or not work.split_ns[part]:
        return ()
    return (
        link_of(
            holder,
            "reason",
            f"{holder.process} spends {work.share(part):.0%} of its time in {part}",
            share=work.share(part),
            depth=depth,
        ),
    )
