"""Describes threads that are stopped: by a signal, a debugger or the freezer of cgroups."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.description import Description, HostCause
from stalltop.diagnosis.host.losses import Loss
from stalltop.diagnosis.host.wording import blamed, main_process, named, ranked
from stalltop.model.chain import Fix

SURE: Final = 0.95
"""Confidence: the scheduler says that the threads were stopped, and who let them go on."""


def by_signal(facts: Facts, loss: Loss) -> Description:
    """Describes threads that a signal or a debugger stopped."""
    culprits = ranked(loss.culprits, loss.ns, loss.first)
    who = main_process(loss.culprits, culprits) if culprits else None
    by = named(facts, who) if who is not None and who.pid else "a signal"
    fixes = [Fix(f"let it run: kill -CONT {loss.victim.pid}", f"kill -CONT {loss.victim.pid}")]
    if who is not None and who.pid:
        fixes.insert(0, Fix(f"see why {who.process} stops it", f"ps -fp {who.pid}", look=True))
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
