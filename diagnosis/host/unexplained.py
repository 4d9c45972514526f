"""Describes waits whose reason is not known."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.attribution.losses import Loss
from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.description import Description, HostCause
from stalltop.diagnosis.host.steps import WAITS
from stalltop.diagnosis.wording import commands
from stalltop.model.chain import Fix
from stalltop.model.telling import Telling

UNSURE: Final = 0.25
"""Confidence of this cause: it is measured that the program waits longer than usual, but not why."""
_WHO: Final = {
    "network": "who sends so late: stalltop sees neither other hosts nor RDMA",
    "process": "who ends these waits so late: a thread that is not followed, or that itself waits",
    "lock": "who ends these waits so late: a thread that is not followed",
    "memory": "why it waits for memory: no reclaim and few major faults were counted",
    "other": "what the Linux kernel does meanwhile: the wait is of no known kind",
}
"""Says what is not known. The key is the part of the split in which the time was lost."""


def unexplained(facts: Facts, loss: Loss) -> Description:
    """Describes a program that usually works all the time, and now waits although no cause was measured."""
    who = loss.victim
    part = max(loss.parts, key=lambda name: loss.parts[name])
    fixes = [
        Fix(f"see where {who.process} stands (py-spy for Python)", f"py-spy dump -p {who.pid}", look=True)
    ]
    if part == "network":
        text = "see its connections, and which of them have nothing to read (Recv-Q)"
        fixes.insert(0, Fix(text, commands.in_network_of(who.pid, "ss -tinp state established"), look=True))
    return Description(
        summary=f"{facts.name(who.tenant)} {WAITS[part]} longer than it usually does",
        links=(),
        fixes=tuple(fixes),
        confidence=UNSURE,
        unknown=(_WHO[part], "whether the program has nothing to do: a wait for work looks the same"),
    )


CAUSES: Final = (
    HostCause(
        Cause(
            "unexplained_wait",
            "Unattributed waits",
            "threads wait longer than usual, and who ends these waits is not known",
            Telling("keeps it waiting longer than usual", "waits longer than usual, for an unknown reason"),
            last_resort=True,
        ),
        unexplained,
    ),
)
