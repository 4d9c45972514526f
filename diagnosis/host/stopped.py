"""Describes threads that are stopped: by a signal, a debugger or the freezer of cgroups."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.description import Description, HostCause
from stalltop.diagnosis.host.losses import Loss
from stalltop.diagnosis.host.wording import blamed, named, ranked
from stalltop.model.chain import Fix

SURE: Final = 0.95
"""Confidence: the scheduler says that the threads were stopped, and who let them go on."""


def by_signal(facts: Facts, loss: Loss) -> Description:
    """Describes threads that a signal or a debugger stopped."""
    culprits = [(who, ns) for who, ns in ranked(loss.culprits, loss.ns) if who.pid]
    by = named(facts, culprits[0][0]) if culprits else "a signal"
    fixes = [Fix(f"let it run: kill -CONT {loss.victim.pid}", f"kill -CONT {loss.victim.pid}")]
    if culprits:
        fixes.insert(
            0, Fix(f"see why {culprits[0][0].process} stops it", f"ps -fp {culprits[0][0].pid}", look=True)
        )
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} is stopped and continued by {by}",
        links=tuple(blamed(facts, loss, "lets it go on", culprits, 2)),
        fixes=tuple(fixes),
        confidence=SURE,
        unknown=("who stopped it: only who let it go on is known",),
    )


CAUSES: Final = (
    HostCause(
        Cause(
            "stopped",
            "stopped by a signal or a freezer",
            "SIGSTOP, a debugger or the cgroup freezer stops threads of the tenant",
        ),
        by_signal,
        certain=True,
    ),
)
