"""Finds the children that a caller polls: the caller sleeps briefly, checks whether they are done, and sleeps
again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stalltop.diagnosis.attribution.threads import Edge
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import Who

LONGEST_NAP_NS: Final = 20_000_000
"""Largest mean length of a caller's sleeps that counts as polling, ns: joblib polls every 10 ms, others more
often."""
BUSY_CHILD: Final = 0.5
"""A child counts as computing if it has a CPU for at least this part of the time. The part is below 1 because
processes of a busy host share CPUs."""
SURE: Final = 0.8
"""The value of ``Wait.sure`` if the child computes all the time. It is below 1 because nothing shows directly
that the caller waits for this child."""


def children(facts: Facts, pid: int, sleeps: Iterable[Edge]) -> dict[Who, float]:
    """Returns the children that a process polls, each with the part of the time in which it computes, 0 to 1.
    ``sleeps`` are the sleeps of the threads that make calls. Returns an empty dict if the sleeps are too long
    for polling."""
    slept = [(sleep.ns, sleep.times) for sleep in sleeps]
    times = sum(times for _, times in slept)
    if not times or sum(ns for ns, _ in slept) > LONGEST_NAP_NS * times:
        return {}
    shares = {
        Who(child.tenant, child.pid, child.process): min(facts.per_second(child.cpu_ns) / 1e9, 1.0)
        for child in facts.children_of(pid)
    }
    return {who: share for who, share in shares.items() if share >= BUSY_CHILD}
