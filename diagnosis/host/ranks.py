"""Describes waits of a rank for another rank of its job, if the ranks exchange data through the CPU (gloo,
MPI)."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.attribution.losses import Loss
from stalltop.diagnosis.attribution.rank_waits import CAUSE
from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.description import Description, HostCause
from stalltop.diagnosis.host.steps import WAITS, blamed
from stalltop.diagnosis.wording.culprits import named, ranked
from stalltop.diagnosis.wording.fixes import EQUAL_WORK
from stalltop.diagnosis.wording.looks import at_line
from stalltop.model.chain import Fix
from stalltop.model.telling import Telling
from stalltop.model.text.words import program

SURE: Final = 0.9
"""Confidence that the rank waits for the other rank, whose threads are seen to end the waits. It is
multiplied by ``Loss.sure``."""


def late(facts: Facts, loss: Loss) -> Description:
    """Describes a rank that waits for another one."""
    culprits = ranked(loss.culprits, loss.ns)
    other = max(loss.culprits, key=lambda who: loss.culprits[who])
    part = max(loss.last_parts, key=lambda name: loss.last_parts[name])
    doing = WAITS.get(part, "works")
    own = Fix(
        f"see the problems of {program(other.process, other.pid)} itself: what delays this rank "
        "delays all ranks"
    )
    equal = Fix(f"give all ranks the same work: {EQUAL_WORK}")
    waits = Fix(
        f"see at which line {named(facts, other)} {doing}, and what its worker processes do",
        f"py-spy dump --subprocesses --pid {other.pid}",
        look=True,
    )
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for {named(facts, other)}, another rank of its job, "
        f"which {doing}",
        links=tuple(blamed(facts, loss, f"arrives late; meanwhile it {doing}", culprits, len(loss.path) + 2)),
        # A rank that computes has more to do than the others. If it waits, that is a problem of its own.
        fixes=(at_line(facts, other, doing), equal) if part == "running" else (waits, own, equal),
        confidence=SURE * loss.sure,
    )


CAUSES: Final = (
    HostCause(
        Cause(
            CAUSE,
            "Waits for a slower rank",
            "the program exchanges data with another rank of its job, and waits for it",
            Telling(
                "is the straggler among the ranks of the job",
                "waits for another rank of its job",
                parts=("network", "process", "lock"),
            ),
        ),
        late,
    ),
)
