"""Finds ranks of NCCL that wait for a rank that does not enter the collective at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import link_of
from stalltop.diagnosis.nccl.stragglers import communicators
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import SECOND_NS
from stalltop.diagnosis.wording.figures import duration
from stalltop.model.chain import Fix, Link
from stalltop.model.evidence import Rank
from stalltop.model.row_key import RowKey
from stalltop.model.telling import Telling
from stalltop.model.text.words import numbered, program_of
from stalltop.model.window import OpenCall

CAUSES: Final = (
    Cause(
        "nccl_hang",
        "Hung collective",
        "ranks wait for one that has not entered",
        Telling("has not entered a collective", "waits in a collective that does not end", state="hangs"),
        least="high",
        at_once=True,
    ),
)

HUNG_NS: Final = 10_000_000_000
"""Least length of a wait for other ranks that counts as a hang, ns."""
TIMES_LONGEST: Final = 5
"""A hang also has to last this many times as long as the longest earlier wait for a rank. In a healthy job,
too, ranks wait while one rank writes a checkpoint or validates."""
STARTING_NS: Final = 60_000_000_000
"""Least length of a hang while a communicator is being made, ns. The ranks of a job start at different
times."""
CRITICAL_NS: Final = 60_000_000_000
"""A hang that has lasted this long is critical, ns: the whole job stands still."""
OPEN_NS: Final = 5_000_000_000
"""If the missing rank has been in a call for at least this long, ns, this call may be the reason."""
MOST_RANKS: Final = 4
"""Maximum number of ranks that a chain names one by one."""


def nccl_hang(facts: Facts) -> Iterator[Suspicion]:
    """Yields collectives in which ranks wait for a rank that has not entered. Also yields calls that wait for
    other ranks for too long although no rank of this host is known to be behind."""
    explained: set[int] = set()
    for communicator, ranks in communicators(facts).items():
        missing = [rank for rank in ranks if rank.behind > 0]
        ahead = [rank for rank in ranks if rank.behind == 0]
        if missing and ahead:
            explained |= {rank.pid for rank in ranks}
            waited_ns = min(rank.since_entry_ns for rank in ahead)
            if waited_ns >= max(HUNG_NS, TIMES_LONGEST * _longest_lag_ns(facts, ahead, waited_ns)):
                yield _hang(facts, communicator, ahead, missing, waited_ns)
    waiting: defaultdict[tuple[str, str], list[OpenCall]] = defaultdict(list)
    by_pid = {rank.pid: rank for rank in facts.ranks}
    for call in facts.window.open_calls:
        if call.pid in explained or not waits_for_ranks(facts, call):
            continue
        if call.age_ns >= _hangs_from_ns(facts, call):
            rank = by_pid.get(call.pid)
            waiting[call.tenant, rank.communicator if rank else call.operation].append(call)
    for (_, about), calls in waiting.items():
        yield _open(facts, about, calls, by_pid.get(calls[0].pid))


def _longest_lag_ns(facts: Facts, ahead: Sequence[Rank], waited_ns: int) -> float:
    """Returns the longest wait, ns, of a rank of ``ahead`` for a late rank before the present wait."""
    began = facts.window.end - waited_ns / SECOND_NS
    lags = (facts.trend("rank_lag_ns", rank.tenant, rank.pid) for rank in ahead)
    return max((lag for points in lags for time, lag in points if time < began), default=0.0)


def _hangs_from_ns(facts: Facts, call: OpenCall) -> float:
    """Returns the least age at which an open call that waits for ranks counts as a hang, ns."""
    least_ns = STARTING_NS if call.operation.startswith("ncclCommInit") else HUNG_NS
    return max(least_ns, TIMES_LONGEST * (facts.longest_ns(call) or 0))


def waits_for_ranks(facts: Facts, call: OpenCall) -> bool:
    """Returns whether an open call waits for other ranks: it is a call of NCCL, or it waits for the device
    and its process is a rank."""
    if call.ended or call.nested:
        return False
    known = any(rank.pid == call.pid for rank in facts.ranks)
    return call.layer == "nccl" or (known and "Synchronize" in call.operation)


def _severity(waited_ns: float) -> float:
    """Returns the value of ``Suspicion.share``, which decides the severity. It is 1, because the waiting
    ranks lose all their time. Before ``CRITICAL_NS`` it is 0, because the wait may still end by itself."""
    return 1.0 if waited_ns >= CRITICAL_NS else 0.0


_DEBUG: Final = Fix(
    "let the job log more, and give up by itself: NCCL_DEBUG=INFO, TORCH_NCCL_ASYNC_ERROR_HANDLING=1, "
    "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 with TORCH_NCCL_DUMP_ON_TIMEOUT=1"
)


def _counted(ranks: int) -> str:
    return f"{numbered(ranks, 'rank')} {'waits' if ranks == 1 else 'wait'}"


def _hang(
    facts: Facts, communicator: str, ahead: Sequence[Rank], missing: Sequence[Rank], waited_ns: int
) -> Suspicion:
    first, worst = ahead[0], max(missing, key=lambda rank: rank.behind)
    links = _hang_links(facts, ahead, missing, waited_ns)
    # The chain has the rows of all ranks that wait, so that a user finds it from each of these rows.
    rows = tuple(row for rank in ahead if (row := _row(facts, rank)) is not None)
    return Suspicion(
        cause="nccl_hang",
        tenant=first.tenant,
        summary=f"{facts.name(first.tenant)}: {_counted(len(ahead))} for rank {worst.rank} "
        f"({worst.process}, pid {worst.pid} of {facts.name(worst.tenant)}), which has not entered yet",
        lost_ns_per_s=float(SECOND_NS),
        confidence=0.9,
        links=links,
        fixes=(
            Fix(
                f"see where rank {worst.rank} stands",
                f"py-spy dump --pid {worst.pid}; cat /proc/{worst.pid}/task/*/wchan",
                look=True,
            ),
            _DEBUG,
            Fix(
                "all ranks have to make the same collectives in the same order: look at branches on the rank"
            ),
        ),
        effect=_row(facts, first),
        rows=rows,
        pid=first.pid,
        process=first.process,
        about=communicator,
        unknown=()
        if any(link.role == "reason" for link in links)
        else (
            f"what rank {worst.rank} does instead; if it is a checkpoint or a validation, it ends by itself",
        ),
        share=_severity(waited_ns),
    )


def _hang_links(
    facts: Facts, ahead: Sequence[Rank], missing: Sequence[Rank], waited_ns: int
) -> tuple[Link, ...]:
    """Returns links that say which ranks wait, which ranks are missing, and in which calls the missing ranks
    have been for long."""
    first = ahead[0]
    links = [
        link_of(
            first,
            "effect",
            f"{_counted(len(ahead))} in a collective",
            share=1.0,
            ns_per_s=float(SECOND_NS),
            depth=0,
        ),
        link_of(
            first,
            "mechanism",
            f"entered {duration(waited_ns)} ago; not all ranks have",
            share=1.0,
        ),
    ]
    for rank in missing[:MOST_RANKS]:
        behind = numbered(rank.behind, "collective")
        links.append(
            link_of(
                rank,
                "culprit",
                f"rank {rank.rank} is {behind} behind; it entered its last one "
                f"{duration(rank.since_entry_ns)} ago",
                share=1.0 / len(missing),
                depth=2,
            )
        )
        links += [
            link_of(
                call,
                "reason",
                f"its thread {call.tid} has been in {call.operation} for {duration(call.age_ns)}",
                depth=3,
            )
            for call in facts.window.open_calls
            if call.pid == rank.pid and not call.nested and not call.ended and call.age_ns >= OPEN_NS
        ][:1]
    return tuple(links)


def _open(facts: Facts, about: str, calls: Sequence[OpenCall], rank: Rank | None) -> Suspicion:
    oldest = max(calls, key=lambda call: call.age_ns)
    elsewhere = rank.ranks - rank.local_ranks if rank is not None else 0
    links = [
        link_of(
            oldest,
            "effect",
            f"{oldest.operation} of {oldest.process} does not return",
            share=1.0,
            ns_per_s=float(SECOND_NS),
            depth=0,
        ),
        *(
            link_of(
                call,
                "mechanism",
                f"open for {duration(call.age_ns)} in thread {call.tid}",
                share=1.0,
            )
            for call in calls[:MOST_RANKS]
        ),
    ]
    if rank is None:
        unknown = "which rank is missing: the communicator was made before tracing began, or is being made"
        fix = Fix(
            f"see whether all processes of the job of pid {oldest.pid} run, on all its hosts",
            short="see whether all processes of its job run",
        )
    elif elsewhere:
        unknown = f"{elsewhere} of {rank.ranks} ranks are on other hosts: one of them may be missing"
        fix = Fix(
            f"see what the {numbered(elsewhere, 'rank')} on other hosts do: "
            f"pid {oldest.pid} is rank {rank.rank}",
            short="see what the ranks on other hosts do",
        )
    else:
        unknown = (
            "all local ranks have entered: a device or a link between devices does not finish the collective"
        )
        fix = Fix(
            "look for errors of devices and links", "dmesg -T | grep -i -E 'NVRM|Xid' | tail", look=True
        )
    key = RowKey(facts.window.host, *oldest.row)
    return Suspicion(
        cause="nccl_hang",
        tenant=oldest.tenant,
        summary=f"{program_of(oldest.process, oldest.pid, facts.name(oldest.tenant))} waits in "
        f"{oldest.operation} for other ranks",
        lost_ns_per_s=float(SECOND_NS),
        confidence=0.6,
        links=tuple(links),
        fixes=(fix, _DEBUG),
        effect=key,
        rows=tuple(row.key for row in facts.rows_of(oldest.pid) if row.key == key),
        pid=oldest.pid,
        process=oldest.process,
        about=about,
        unknown=(unknown,),
        share=_severity(oldest.age_ns),
    )


def _row(facts: Facts, rank: Rank) -> RowKey | None:
    """Returns the key of the row of a waiting rank: that of its open call or, without an open call, that in
    which its calls took most time."""
    for call in facts.window.open_calls:
        if call.pid == rank.pid and not call.nested and not call.ended:
            return RowKey(facts.window.host, *call.row)
    rows = facts.calls_of(rank.pid)
    return max(rows, key=lambda row: row.total_ns).key if rows else None
