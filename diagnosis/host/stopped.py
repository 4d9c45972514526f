"""Describes threads that are stopped: by a signal, a debugger or the freezer of cgroups."""

from __future__ import annotations

from typing import Final

from stalltop.diagnosis.attribution.losses import Loss
from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host.description import Description, HostCause
from stalltop.diagnosis.host.steps import blamed
from stalltop.diagnosis.links import Who
from stalltop.diagnosis.wording import commands
from stalltop.diagnosis.wording.culprits import named, ranked
from stalltop.model.chain import Fix
from stalltop.model.telling import Telling
from stalltop.model.thread_evidence import FROZEN, STOPPED, TRACED, Stop

SURE: Final = 0.95
"""Confidence: the scheduler reports that the threads were stopped, and who stopped them or let them
continue."""
_WORDS: Final = {
    STOPPED: ("is stopped", "stops it"),
    TRACED: ("is stopped by a debugger", "traces it"),
    FROZEN: ("is frozen", "freezes it"),
}
"""For each way of being stopped: what happens to the program, and what the culprit does."""
_TERMINAL: Final = ("SIGTSTP", "SIGTTIN", "SIGTTOU")
"""Signals that the terminal of a program sends: on Ctrl-Z, or if a background program reads from it or writes
to it."""


def stopped(facts: Facts, loss: Loss) -> Description:
    """Describes a program that was stopped for a while, or whose worker was."""
    kind, who = loss.last_part, loss.last
    stop = _known(facts, who, kind)
    sent = _sent(stop)
    culprits = [(each, ns) for each, ns in ranked(loss.culprits, loss.ns, loss.first) if each.pid]
    by = culprits[0][0] if culprits else None
    doer = named(facts, by) if by else sent
    did, verb = _WORDS[kind]
    unknown: tuple[str, ...] = ()
    if stop is None or not (stop.by.pid or sent):
        unknown = ("who stopped it" + (": it is only known who let it continue" if by else ""),)
        verb = "lets it continue"
        did += f", and {doer} {verb}" if doer else ""
    else:
        did += (", " if kind == TRACED else " by ") + doer
        verb += f" by {sent}" if sent else ""
    victim = facts.name(loss.victim.tenant)
    if loss.path:
        victim += f" waits for {named(facts, who)}, which"
    return Description(
        summary=f"{victim} {did}",
        links=tuple(blamed(facts, loss, verb, culprits, len(loss.path) + 2)),
        fixes=tuple(_fixes(facts, kind, who, by, sent)),
        confidence=SURE * loss.sure,
        unknown=unknown,
    )


def _known(facts: Facts, who: Who, kind: str) -> Stop | None:
    stops = facts.window.evidence.threads.stops
    return next((stop for stop in stops if (stop.pid, stop.kind) == (who.pid, kind)), None)


def _sent(stop: Stop | None) -> str:
    """Returns the signal of ``stop`` as text; '' if it is not known. A signal that no process sent counts as
    one of the terminal."""
    if stop is None or not stop.signal:
        return ""
    return f"{stop.signal} of its terminal" if not stop.by.pid else stop.signal


def _fixes(facts: Facts, kind: str, who: Who, by: Who | None, sent: str) -> list[Fix]:
    fixes = []
    ended = by is not None and by.process == f"pid {by.pid}"  # it ended before its name was read
    if ended and kind == TRACED:
        text = "see which debuggers attach to it again and again, and who starts them"
        fixes.append(Fix(text, "ps -eo pid,ppid,lstart,args | grep -E 'gdb|py-spy|strace|perf'", look=True))
    elif by is not None:
        fixes.append(Fix(f"see what {by.process} is and who started it", f"ps -fp {by.pid}", look=True))
    if kind == STOPPED:
        if by is not None:
            fixes.append(Fix(f"end {by.process}, if it stops it again and again", commands.end(by.pid)))
        fixes.append(Fix(f"let it run: kill -CONT {who.pid}", commands.let_run(who.pid)))
        if any(sent.startswith(name) for name in _TERMINAL):
            fixes.append(Fix("start it without a terminal: as a service, or by setsid or nohup"))
    elif kind == TRACED:
        if by is not None and not ended:
            fixes.append(Fix(f"end {by.process}: the program then continues", commands.end(by.pid)))
        fixes.append(
            Fix("examine it without stopping it: py-spy --nonblocking, perf, or eBPF instead of ptrace")
        )
    else:
        thaw = commands.thaw(facts, who.tenant)
        fixes.append(Fix(f"let {facts.name(who.tenant)} continue" + (f": {thaw}" if thaw else ""), thaw))
    return fixes


CAUSES: Final = (
    HostCause(
        Cause(
            "stopped",
            "Stopped by a signal or freezer",
            "a signal, a debugger or the cgroup freezer stops threads of the tenant, or its workers",
            Telling(
                "stopped it",
                "is stopped by a signal, a debugger or a freezer",
                state="stands still",
                parts=("other", "lock", "process", "network"),
            ),
            at_once=True,
        ),
        stopped,
        certain=True,
    ),
)
