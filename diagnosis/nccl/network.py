"""Finds collectives over TCP connections that lose segments.

The rank itself waits for the device. Threads of NCCL send the data, and poll their sockets without sleeping.
So no time of the rank counts as waiting for the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from stalltop.diagnosis.evidence.sockets import loses_segments
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import DeviceCalls, Usage, added
from stalltop.diagnosis.wording.figures import duration, figure
from stalltop.diagnosis.wording.fixes import SEGMENTS_UNKNOWN, segment_fixes
from stalltop.model.families import WAITING_PARTS, Family

LONGER: Final = 1.5
"""Waits are reported only if they are longer than usual by at least this factor. Steps of usual sizes differ
by less."""
PROBABLE: Final = 0.5
"""Confidence: retransmits and longer collectives are both measured. That the retransmits make the collectives
longer is inferred."""
_COLLECTIVES: Final = (Family.COLLECTIVE, Family.GROUP, Family.POINT)


def retransmits(facts: Facts, usage: Usage) -> Iterator[Suspicion]:
    """Yields processes that wait longer than usual for their collectives, while their connections lose
    segments."""
    if not loses_segments(facts, usage.pid):
        return
    ranks = [rank for rank in facts.ranks if rank.pid == usage.pid]
    collectives = usage.of(*_COLLECTIVES)
    if not ranks and not collectives.calls:
        return
    waits = added(facts, (*collectives.rows, *usage.synced.rows))
    lost, usual = _beyond_usual_ns(facts, waits)
    if not usage.noticeable(lost) or lost < (LONGER - 1) * usual:
        return
    process = facts.process(usage.pid)
    assert process is not None
    again = usage.per_second(process.retransmits_v4 + process.retransmits_v6)
    here = ranks and all(rank.ranks == rank.local_ranks for rank in ranks)
    told = usage.suspect(
        "tcp_retransmits",
        f"{usage.who} waits longer for collectives while its connections lose segments",
        lost,
        confidence=PROBABLE / 2 if here else PROBABLE,
        links=(
            usage.step(f"waits of {duration(waits.mean_ns)} for the device and for other ranks", waits, lost),
            replace(
                usage.own(f"{figure(again)} TCP segments per second are retransmitted"), device="network"
            ),
        ),
        fixes=segment_fixes(usage.pid),
        hit=waits,
        unknown=(
            *SEGMENTS_UNKNOWN,
            *(("whether collectives use TCP: all ranks are on this host",) if here else ()),
        ),
    )
    # The rule ``waits`` may also report the tenant's waits for the network. That suspicion has no ``about``
    # either, so the two become one chain.
    yield replace(told, about="")


def _beyond_usual_ns(facts: Facts, waits: DeviceCalls) -> tuple[float, float]:
    """Returns for how many ns calls waited beyond the usual, and for how many ns they usually wait. Calls
    whose usual wait is not known are left out: only the baseline of this job shows how long its collectives
    take on a healthy network."""
    lost = usual = 0.0
    for row in waits.rows:
        if row.usual_ns is not None:
            lost += sum(row.beyond_usual(part) for part in WAITING_PARTS) * facts.within(row)
            usual += sum(row.usual_ns.get(part, 0.0) for part in WAITING_PARTS) * row.calls
    return lost, usual
