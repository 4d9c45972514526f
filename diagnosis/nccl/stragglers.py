"""Finds stragglers: ranks that enter collectives of NCCL late. `hangs` finds ranks that do not enter at
all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts, Row
from stalltop.diagnosis.links import Who, link_of
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import NOTICEABLE, SECOND_NS, DeviceCalls, Usage
from stalltop.diagnosis.wording import commands
from stalltop.diagnosis.wording.connections import connection, named, servers_of
from stalltop.diagnosis.wording.figures import duration
from stalltop.diagnosis.wording.fixes import EQUAL_WORK, keep_off
from stalltop.diagnosis.wording.looks import at_line
from stalltop.model.chain import Fix, Link
from stalltop.model.evidence import HOST_GAP, Rank
from stalltop.model.families import Family
from stalltop.model.telling import Telling
from stalltop.model.text.words import numbered, program_of
from stalltop.model.window import SPLITS

CAUSES: Final = (
    Cause(
        "nccl_straggler",
        "Straggler",
        "all ranks of a collective wait for the last one",
        Telling("arrives late at collectives", "waits for a straggler"),
    ),
)

JOINED: Final = 8
"""Least number of collectives in which the entry times of the ranks were compared. With fewer, the lateness
of a rank may be chance."""
JOINED_AT_LEAST: Final = 3
"""Least number of compared collectives if the same rank was last in all of them and the loss is ``LARGE``."""
LARGE: Final = 0.2
"""A loss of at least this part of the window is large: jitter does not cause it. Steps of equal work differ
by a few per cent."""
APART: Final = 3.0
"""A straggler is later than the median of the other ranks by at least this factor. Jitter makes all ranks
late in turn."""
_FEW: Final = 20
"""Below this number of collectives a text has the number, not a percentage."""
EXPLAINED: Final = 0.3
"""A difference between the ranks is named as the reason only if it explains at least this part of the
lateness."""


def nccl_straggler(facts: Facts, usages: Mapping[int, Usage]) -> Iterator[Suspicion]:
    """Yields ranks that enter collectives later than the other ranks of this host, which wait for them."""
    for ranks in communicators(facts).values():
        late = max(ranks, key=lambda rank: rank.late_ns)
        others = [rank for rank in ranks if rank is not late]
        if not others or late.joined < JOINED_AT_LEAST or late.pid not in usages:
            continue
        usual_ns = median(rank.late_ns for rank in others)
        if late.late_ns < APART * usual_ns:
            continue
        waiting = [usages[rank.pid] for rank in others if rank.pid in usages]
        if not waiting:
            continue
        lost = _lost_ns(late, usual_ns, waiting)
        every_time = late.last == late.joined
        least = NOTICEABLE if late.joined >= JOINED else LARGE if every_time else 2.0
        if lost >= least * facts.seconds * SECOND_NS:
            yield _straggler(facts, late, others, usages, waiting, lost)


def communicators(facts: Facts) -> dict[str, list[Rank]]:
    """Returns the ranks of this host by communicator."""
    found: defaultdict[str, list[Rank]] = defaultdict(list)
    for rank in facts.ranks:
        found[rank.communicator].append(rank)
    return found


def _lost_ns(late: Rank, usual_ns: float, waiting: Sequence[Usage]) -> float:
    """Returns how many ns of the window the other ranks wait for ``late``.

    If a rank is late, all collectives until the next synchronization are late by the same time, so this time
    counts once per synchronization. The loss is not more than the mean of the measured waits of the other
    ranks.
    """
    syncs = fmean(usage.synced.calls for usage in waiting)
    times = min(late.joined, syncs) if syncs else late.joined
    lost = max(late.late_ns - usual_ns, 0) / late.joined * times
    return min(lost, fmean(_waits_ns(usage) for usage in waiting))


def _waits_ns(usage: Usage) -> float:
    calls = (
        usage.of(Family.COLLECTIVE, Family.GROUP, Family.POINT, Family.WAIT).total_ns + usage.synced.total_ns
    )
    return calls + (usage.gap.total_ns - usage.gap.running_ns if usage.gap else 0)


def _straggler(
    facts: Facts,
    late: Rank,
    others: Sequence[Rank],
    usages: Mapping[int, Usage],
    waiting: Sequence[Usage],
    lost: float,
) -> Suspicion:
    worst = max(waiting, key=_waits_ns)
    hit = _waits_in(worst)
    mean_ns = late.late_ns / late.joined
    culprit = link_of(
        late,
        "culprit",
        f"rank {late.rank} arrives {duration(mean_ns)} late on average, "
        f"last in {_part(late.last, late.joined)}",
        share=1.0,
        ns_per_s=facts.per_second(lost),
        depth=2,
    )
    part, reasons = _reasons(facts, usages[late.pid], waiting, lost)
    unknown = []
    if late.ranks > late.local_ranks:
        unknown.append(
            f"{late.ranks - late.local_ranks} of {late.ranks} ranks are on other hosts and not seen"
        )
    if not reasons:
        unknown.append(f"why rank {late.rank} is late: nothing on this host holds it up more than the others")
    told = worst.suspect(
        "nccl_straggler",
        f"{facts.name(worst.tenant)}: {len(others)} of {late.local_ranks} local ranks wait for rank "
        f"{late.rank}: {program_of(late.process, late.pid, facts.name(late.tenant))}",
        lost,
        confidence=(0.6 + 0.3 * late.last / late.joined) + (0.05 if reasons else 0.0),
        links=(
            # The ranks wait in calls and between calls. So this step has the whole loss, not only the waits
            # in the calls ``hit``.
            replace(
                worst.step("waits for the collective to end", hit, lost),
                share=1.0,
                ns_per_s=facts.per_second(lost),
            ),
            culprit,
            *reasons,
        ),
        fixes=_straggler_fixes(facts, late, part, reasons),
        hit=hit,
        about=late.communicator,
        unknown=unknown,
    )
    # The chain has the rows of all ranks that wait, so that a user finds it from each of these rows.
    rows = (row.key for usage in (worst, *waiting) for row in _waits_in(usage).rows)
    return replace(told, title=f"Straggler: rank {late.rank}", rows=tuple(dict.fromkeys(rows)))


def _part(last: int, joined: int) -> str:
    """Returns in how many of ``joined`` collectives a rank was the last one, ``last``, as text."""
    if last == joined:
        return f"each of {numbered(joined, 'collective')}" if joined < _FEW else "each collective"
    if joined < _FEW:
        return f"{last} of {numbered(joined, 'collective')}"
    return f"{100 * last / joined:.0f} % of the collectives"


def _waits_in(usage: Usage) -> DeviceCalls:
    """Returns the calls in which a rank waits for the other ranks."""
    return usage.synced if usage.synced.calls else usage.of(Family.COLLECTIVE, Family.GROUP)


_IN_WORDS: Final = {
    "running": "it computes longer between its calls than the other ranks",
    "runqueue": "it waits longer for a CPU than the other ranks",
    "disk": "it waits longer for a disk than the other ranks",
    "memory": "it waits longer for memory than the other ranks",
    "lock": "it waits longer for a lock than the other ranks",
    "network": "it waits longer for the network than the other ranks",
    "process": "it waits longer for another process than the other ranks",
    "sleep": "it sleeps longer than the other ranks",
    "other": "it waits longer than the other ranks, for an unknown reason",
}


def _reasons(facts: Facts, late: Usage, waiting: Sequence[Usage], lost: float) -> tuple[str, list[Link]]:
    """Returns on which part of the split the late rank spends more time than the others, and links that say
    so and who causes that. Returns '' and no links if this explains too little of its lateness."""
    own = _spent(late)
    usual = [_spent(usage) for usage in waiting]
    more = {part: own[part] - fmean(spent[part] for spent in usual) for part in _IN_WORDS}
    part, excess = max(more.items(), key=lambda item: item[1])
    if excess < EXPLAINED * lost:
        return "", []
    links = [
        link_of(
            late,
            "reason",
            _in_words(part, late, waiting),
            share=min(1.0, excess / lost),
            ns_per_s=facts.per_second(min(excess, lost)),
            depth=3,
        )
    ]
    servers = servers_of(facts, late.pid) if part == "network" else ()
    if len(servers) == 1:
        said = f"it waits longer for {named(servers[0])} than the other ranks for the network"
        links[0] = replace(links[0], text=said)
    # If there are several servers, it is not known which one it waits for.
    share, ns_per_s = (links[0].share, links[0].ns_per_s) if len(servers) == 1 else (None, None)
    for server in servers:
        text = f"it is connected to {connection(facts, server)}"
        links.append(link_of(late, "reason", text, share=share, ns_per_s=ns_per_s, depth=4))
    taken: defaultdict[tuple[str, int, str], int] = defaultdict(int)
    for charge in facts.charges_of(late.pid):
        if charge.kind == part:
            taken[charge.culprit_tenant, charge.culprit_pid, charge.culprit_process] += charge.ns
    for (tenant, pid, process), ns in sorted(taken.items(), key=lambda item: -item[1])[:2]:
        if ns < EXPLAINED * excess:
            continue
        links.append(
            Link(
                "reason",
                f"{'the CPU is held by' if part == 'runqueue' else 'it is woken by'} "
                f"{program_of(process, pid, facts.name(tenant))}",
                share=min(1.0, ns / lost),
                ns_per_s=facts.per_second(min(ns, lost)),
                tenant=tenant,
                pid=pid,
                process=process,
                depth=4,
            )
        )
    return part, links


def _in_words(part: str, late: Usage, waiting: Sequence[Usage]) -> str:
    """Says in words what the late rank spends more time on than the others. If it computes longer inside a
    call, the text names the call."""
    if part != "running":
        return _IN_WORDS[part]
    usual: defaultdict[tuple[str, str], float] = defaultdict(float)
    for row in (row for usage in waiting for row in _working(usage)):
        usual[row.key.layer, row.key.operation] += row.split_ns.get(part, 0) / len(waiting)
    most = max(
        _working(late), key=lambda row: row.split_ns.get(part, 0) - usual[row.key.layer, row.key.operation]
    )
    if most.key.operation == HOST_GAP:
        return _IN_WORDS[part]
    return f"it computes longer in {most.key.operation} than the other ranks (p99 {duration(most.p99_ns)})"


def _working(usage: Usage) -> list[Row]:
    """Returns the rows of a process, except the rows of its waits for the device and for other ranks."""
    waits = {row.key for row in usage.synced.rows}
    waits |= {row.key for row in usage.of(Family.COLLECTIVE, Family.GROUP, Family.POINT).rows}
    return [row for row in usage.all.rows if row.key not in waits] + list(usage.gap.rows if usage.gap else ())


def _spent(usage: Usage) -> dict[str, float]:
    """Returns the time of a process by part of the split, ns, except its waits for the device and for other
    ranks."""
    rows = _working(usage)
    return {part: float(sum(row.split_ns.get(part, 0) for row in rows)) for part in SPLITS}


def _look(facts: Facts, late: Rank, part: str) -> Fix:
    """Returns what shows why ``late`` spends more time in ``part`` of the split than the other ranks."""
    if part == "runqueue":
        return Fix("see which processes run", "top -H", look=True)
    if part == "network":
        servers = servers_of(facts, late.pid)
        which = f"dst {servers[0].address}" if len(servers) == 1 else "state established"
        command = commands.in_network_of(late.pid, f"ss -tinp {which}")
        return Fix(
            "retrans or a long rtt: the network is slow; neither of them: the server is",
            command,
            look=True,
            short="long rtt or retrans: the network, else the server",
        )
    return at_line(facts, Who(late.tenant, late.pid, late.process), "sleeps" if part == "sleep" else "waits")


def _straggler_fixes(facts: Facts, late: Rank, part: str, reasons: Sequence[Link]) -> list[Fix]:
    """Returns what helps if ``late`` spends more time in ``part`` of the split than the other ranks, for the
    ``reasons``."""
    fixes = []
    culprit = reasons[-1] if len(reasons) > 1 else None
    if culprit is not None and culprit.pid and culprit.pid != late.pid and "CPU" in culprit.text:
        fixes.append(keep_off(facts, late.pid, Who(culprit.tenant, culprit.pid, culprit.process)))
    equal = f"give rank {late.rank} the same work as the others: {EQUAL_WORK}"
    own = Fix(
        f"see the problems of rank {late.rank} itself (pid {late.pid}): what delays this rank delays all "
        "ranks",
        short=_IN_WORDS[part].replace("it ", f"rank {late.rank} ", 1)
        if part
        else f"see the problems of rank {late.rank} itself",
    )
    if part == "running":
        # A rank that computes waits for nothing, so it has no problem of its own.
        look = Fix(
            f"see what rank {late.rank} computes",
            f"py-spy top --pid {late.pid}",
            look=True,
            short=f"shows what rank {late.rank} computes",
        )
        return [*fixes, Fix(equal, short=f"give rank {late.rank} as much work as the others"), look, own]
    if part == "network":
        ahead = f"let rank {late.rank} read its data ahead of its steps"
        how = "more workers of its DataLoader, a larger prefetch_factor, or a copy of the data on this host"
        return [*fixes, _look(facts, late, part), Fix(f"{ahead}: {how}", short=ahead)]
    if part:
        return [*fixes, own, _look(facts, late, part)]
    clocks = Fix(
        f"{equal}, and a device with the same clocks",
        "nvidia-smi --query-gpu=index,clocks.sm,clocks.max.sm,temperature.gpu --format=csv",
        look=True,
    )
    return [*fixes, own, clocks]
