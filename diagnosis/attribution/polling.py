"""Finds the children that a caller polls: the caller sleeps briefly, looks whether they are done, and sleeps
again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stalltop.diagnosis.attribution.threads import Edge
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import Who

LONGEST_NAP_NS: Final = 20_000_000
"""Mean length of sleeps up to which a caller polls: joblib's interval is 10 ms, others are shorter."""
BUSY_CHILD: Final = 0.5
"""Part of the time that a child has to have a CPU to count as computing: on a busy host it has to share
CPUs."""
SURE: Final = 0.8
"""The value of ``Wait.sure`` for sleeps beside a child that computes all the time: nothing shows directly
that the caller waits for this child."""


def children(facts: Facts, pid: int, sleeps: Iterable[Edge]) -> dict[Who, float]:
    """Returns the children that a process polls, with the part of their time that they compute, 0 to 1;
    ``sleeps`` are those of its calling threads. Returns an empty dict if the sleeps are long."""
    slept = [(sleep.ns, sleep.times) for sleep in sleeps]
    times = sum(times for _, times in slept)
    if not times or sum(ns for ns, _ in slept) > LONGEST_NAP_NS * times:
        return {}
    shares = {
        Who(child.tenant, child.pid, child.process): min(facts.per_second(child.cpu_ns) / 1e9, 1.0)
        for child in facts.children_of(pid)
    }
    return {who: share for who, share in shares.items() if share >= BUSY_CHILD}
