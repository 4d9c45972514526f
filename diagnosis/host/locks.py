"""Describes waits for locks between threads and processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stalltop.diagnosis.attribution.following import PASSES_ON
from stalltop.diagnosis.attribution.losses import Loss
from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.description import Description, HostCause
from stalltop.diagnosis.host.steps import WAITS, blamed
from stalltop.diagnosis.links import Who, link_of
from stalltop.diagnosis.wording.culprits import main_process, named, ranked
from stalltop.diagnosis.wording.looks import at_line
from stalltop.model.chain import Fix, Link
from stalltop.model.evidence import HOST_WORK
from stalltop.model.telling import Telling
from stalltop.model.text.words import program
from stalltop.model.thread_evidence import HAND_OVER

SURE_OF_INTERPRETER: Final = 0.9
"""Confidence for waits for the interpreter lock: the process runs Python, and its threads make timed waits,
one after the other, as long as Python's switch interval."""
MOST_HOLDERS: Final = 3
"""Maximum number of threads that are named as holders of the interpreter lock."""
SURE: Final = 0.8
"""Confidence for other locks. A mutex is recognized by the value of its futex word. Of any other lock it is
known only that both threads have lately waited at the same futex."""


def contention(facts: Facts, loss: Loss) -> Description:
    """Describes a caller that waits for a lock."""
    culprits = ranked(loss.culprits, loss.ns, loss.first)
    holder = main_process(loss.culprits, culprits) if culprits else loss.victim
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
            at_line(facts, holder, "holds the lock"),
            Fix(f"let {program(holder.process, holder.pid)} hold the lock for a shorter time"),
            *((Fix("give each thread that calls the GPU a stream and locks of its own"),) if own else ()),
        ),
        confidence=SURE,
        unknown=("which lock: only who released it is known",),
    )


def holders(facts: Facts, loss: Loss) -> Mapping[Who, float]:
    """Returns how many ns of the loss each holder of the lock took. Leaves out processes that mostly wait for
    locks themselves, unless all of them do."""
    waiting = {who for who in loss.culprits if _stands_in_line(facts, who)}
    kept = {who: ns for who, ns in loss.culprits.items() if who not in waiting}
    if not kept:
        return loss.culprits
    scale = sum(loss.culprits.values()) / sum(kept.values())
    return {who: ns * scale for who, ns in kept.items()}


def _stands_in_line(facts: Facts, who: Who) -> bool:
    work = facts.work_of(who.pid)
    return work is not None and work.share("lock") >= PASSES_ON


def _reason(facts: Facts, holder: Who, depth: int) -> tuple[Link, ...]:
    """Returns a link that says in which part of the split the holder spends most of its time; an empty tuple
    if that is not known."""
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
            f"{holder.process} {WAITS[part]} for {work.share(part):.0%} of its time",
            share=work.share(part),
            depth=depth,
        ),
    )


def interpreter(facts: Facts, loss: Loss) -> Description:
    """Describes a caller, or a worker, that waits for Python's global interpreter lock."""
    who = loss.last
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for Python's interpreter lock (GIL), which another "
        f"thread of {who.process} holds",
        links=tuple(
            link_of(who, "culprit", text, share=share, depth=len(loss.path) + 2)
            for text, share in _holders_of_interpreter(facts, who.pid)
        ),
        fixes=(
            Fix(
                "see which Python thread holds the GIL (marked active+gil), and at which line",
                f"py-spy dump --pid {who.pid}",
                look=True,
            ),
            Fix(
                "move that thread's work into another process (multiprocessing), or into code that "
                "releases the GIL"
            ),
        ),
        confidence=SURE_OF_INTERPRETER,
    )


def _holders_of_interpreter(facts: Facts, pid: int) -> list[tuple[str, float]]:
    """Returns the threads of a process that most often handed over the interpreter lock. Each has a text, and
    its share of these hand-overs."""
    gave: dict[int, int] = {}
    for wait in facts.window.evidence.threads.waits:
        calls = wait.operation != HOST_WORK
        if calls and wait.kind == HAND_OVER and wait.thread.pid == wait.waker.pid == pid:
            gave[wait.waker.tid] = gave.get(wait.waker.tid, 0) + wait.times
    names = {
        work.thread.tid: work.name for work in facts.window.evidence.threads.works if work.thread.pid == pid
    }
    total = sum(gave.values())
    ranked = sorted(gave.items(), key=lambda item: -item[1])[:MOST_HOLDERS]
    return [
        (
            f"thread {tid} ({'main thread' if tid == pid else names.get(tid) or 'unnamed'}) holds it",
            times / total,
        )
        for tid, times in ranked
    ]


CAUSES: Final = (
    HostCause(
        Cause(
            "lock_contention",
            "Lock contention",
            "a lock is held by another thread or process",
            Telling("holds a lock that it needs", "waits for a lock", parts=("lock",)),
        ),
        contention,
        culprits=holders,
    ),
    HostCause(
        Cause(
            "gil",
            "Python GIL contention",
            "another Python thread of the process computes while the calling one waits to run Python code",
            Telling("holds the GIL in another thread", "waits for the GIL", parts=("lock",)),
        ),
        interpreter,
        certain=True,
    ),
)
