"""Describes waits for the network, as far as the host sees them."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.attribution.losses import Loss
from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.description import Description, HostCause
from stalltop.diagnosis.links import link_of
from stalltop.diagnosis.wording.fixes import SEGMENTS_UNKNOWN, segment_fixes
from stalltop.model.telling import Telling
from stalltop.model.text.words import program

PROBABLE: Final = 0.75
"""Confidence: retransmits and waits for the network are both measured. That the threads wait for the lost
segments is inferred."""


def retransmits(facts: Facts, loss: Loss) -> Description:
    """Describes connections that lose segments."""
    who = loss.last
    process = facts.process(who.pid)
    v4, v6 = (process.retransmits_v4, process.retransmits_v6) if process is not None else (0, 0)
    family = "IPv4" if v4 >= v6 else "IPv6"
    rate = facts.per_second(v4 + v6)
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for connections that lose segments",
        links=(
            link_of(
                who,
                "culprit",
                f"{rate:,.0f} segments per second are retransmitted ({family}) "
                f"by {program(who.process, who.pid)}",
                share=1.0,
                ns_per_s=facts.per_second(loss.ns),
                device="network",
                depth=len(loss.path) + 2,
            ),
        ),
        fixes=segment_fixes(who.pid),
        confidence=PROBABLE,
        unknown=SEGMENTS_UNKNOWN,
    )


CAUSES: Final = (
    HostCause(
        Cause(
            "tcp_retransmits",
            "TCP retransmissions",
            "the network loses segments of this process's connections",
            Telling(
                "sends lost TCP segments again", "waits for TCP segments that were lost", parts=("network",)
            ),
        ),
        retransmits,
        certain=True,
    ),
)
