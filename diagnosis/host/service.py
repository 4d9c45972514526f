"""Describes waits for servers, which are processes of this host or of other hosts that answer requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from stalltop.diagnosis.attribution.losses import INTERRUPTED, Loss
from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.description import Description, HostCause
from stalltop.diagnosis.host.steps import WAITS, blamed
from stalltop.diagnosis.links import link_of
from stalltop.diagnosis.wording import commands
from stalltop.diagnosis.wording.connections import connection, servers_of
from stalltop.diagnosis.wording.culprits import main_process, named, ranked
from stalltop.diagnosis.wording.looks import at_line
from stalltop.model.chain import Fix
from stalltop.model.telling import Telling

SURE: Final = 0.9
"""Confidence that a program waits for a server of this host, whose threads are seen to end the waits. It is
multiplied by ``Loss.sure``."""
SURE_ELSEWHERE: Final = 0.6
"""Confidence that a program waits for a server of another host: only its connections are known. It is
multiplied by ``Loss.sure``."""

_BUSY: Final = ("running", "runqueue", INTERRUPTED)
"""Parts of the split in which a server needs a CPU."""
_SOONER: Final = {
    True: "let {} do less for each request; more CPUs or instances help if several requests wait at once",
    False: "{} needs no CPU meanwhile: find what it waits for, such as a lock, a timer, a disk or a service",
}
"""How a server answers sooner, by whether it needs a CPU."""
_ASK_LESS: Final = Fix(
    "send fewer requests, and send them earlier: cache answers, put several requests into one, ask before "
    "answers are needed"
)


def slow(facts: Facts, loss: Loss) -> Description:
    """Describes a program that waits for a server, or whose workers do."""
    return _here(facts, loss) if loss.culprits else _elsewhere(facts, loss)


def _here(facts: Facts, loss: Loss) -> Description:
    culprits = ranked(loss.culprits, loss.ns, loss.first)
    server = main_process(loss.culprits, culprits)
    doing = WAITS[loss.last_part]
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for answers of {named(facts, server)}, "
        f"which {doing}",
        links=tuple(blamed(facts, loss, f"answers; meanwhile it {doing}", culprits, len(loss.path) + 2)),
        fixes=(
            at_line(facts, server, doing),
            Fix(_SOONER[loss.last_part in _BUSY].format(server.process)),
            _ASK_LESS,
        ),
        confidence=SURE * loss.sure,
    )


def _elsewhere(facts: Facts, loss: Loss) -> Description:
    who = loss.last
    servers = servers_of(facts, who.pid)
    where = " or ".join(server.address for server in servers) or "another host"
    depth = len(loss.path) + 2
    texts = [f"{who.process} is connected to {connection(facts, server)}" for server in servers]
    links = [link_of(who, "factor", text, depth=depth) for text in texts]
    if len(servers) == 1:  # If there are several servers, it is not known which one it waits for.
        links = [replace(links[0], share=1.0, ns_per_s=facts.per_second(loss.ns))]
    return Description(
        summary=f"{facts.name(loss.victim.tenant)} waits for answers of {where}",
        links=tuple(links),
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
            "Slow service",
            "the program or its workers wait for a server, of this host or of another one",
            Telling(
                "answers slowly",
                "waits for a server that answers slowly",
                parts=("network", "process", "lock"),
            ),
        ),
        slow,
    ),
)
