"""Describes waits for servers: processes of this host that answer requests, or peers of other hosts."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host import commands
from stalltop.diagnosis.host.description import Description, HostCause
from stalltop.diagnosis.host.losses import Loss
from stalltop.diagnosis.host.wording import WAITS, blamed, named, ranked
from stalltop.diagnosis.links import link_of
from stalltop.model.chain import Fix

SURE: Final = 0.9
"""Confidence that the server is the reason, before ``Loss.sure``: its threads are seen to end the waits."""
SURE_ELSEWHERE: Final = 0.6
"""The same of a server of another host: only the connections of the process are known."""

_ASK_LESS: Final = Fix(
    "ask for less and ahead: cache answers, put several requests into one, ask before they are needed"
)


def slow(facts: Facts, loss: Loss) -> Description:
    """Describes a program, or workers of it, that wait for a server."""
    return _here(facts, loss) if loss.culprits else _elsewhere(facts, loss)


def _here(facts: Facts, loss: Loss) -> Description:
    culprits = ranked(loss.culprits, loss.ns)
    server = max(loss.culprits, key=lambda who: loss.culprits[who])
    doing = WAITS[loss.last_part]
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for answers of {named(facts, server)}, "
        f"which {doing}",
        links=tuple(blamed(facts, loss, f"answers; meanwhile it {doing}", culprits, len(loss.path) + 2)),
        fixes=(
            Fix(
                f"make {server.process} answer sooner: let it work on several requests at once, give it more "
                "CPUs or more instances"
            ),
            _ASK_LESS,
            Fix(
                f"see what {server.process} does (perf top -p for what is no Python)",
                f"py-spy top --pid {server.pid}",
                look=True,
            ),
        ),
        confidence=SURE * loss.sure,
    )


def _elsewhere(facts: Facts, loss: Loss) -> Description:
    who = loss.last
    servers = {each.pid: each.servers for each in facts.window.evidence.threads.servers}
    where = " or ".join(servers.get(who.pid, ())) or "another host"
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for answers of {where}",
        links=(
            link_of(who, "factor", f"{who.process} has connections to {where}", depth=len(loss.path) + 2),
        ),
        fixes=(
            Fix(
                "see round-trip times and what is not yet acknowledged on these connections",
                commands.in_network_of(who.pid, "ss -tinp state established"),
                look=True,
            ),
            _ASK_LESS,
        ),
        confidence=SURE_ELSEWHERE * loss.sure,
        unknown=("what the server does meanwhile: it is not on this host",),
    )


CAUSES: Final = (
    HostCause(
        Cause(
            "remote_service",
            "a service answers slowly",
            "the program or its workers wait for a server, of this host or of another one",
        ),
        slow,
    ),
)
