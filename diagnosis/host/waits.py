"""Reports time that callers lose on the host: follows waits to their roots, and describes these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from stalltop.diagnosis.causes import CAUSES
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host import cpu, disk, faults, loader, locks, network, service, stopped, unexplained
from stalltop.diagnosis.host.attribution import Attribution
from stalltop.diagnosis.host.description import Description
from stalltop.diagnosis.host.losses import Loss
from stalltop.diagnosis.host.wording import effect, mechanisms, row_of, worst
from stalltop.diagnosis.suspicion import Suspicion

LEAST_SHARE: Final = 0.1
"""Least part of its time that a process loses before that is reported: tenants of a busy, healthy host wait
for each other for some hundredths of their time."""
LEAST_SHARE_OF_CERTAIN: Final = 0.02
"""The same for causes in ``_CERTAIN``."""
_CERTAIN: Final = (
    "cfs_throttling",
    "cpu_pinning",
    "reclaim",
    "major_faults",
    "tcp_retransmits",
    "tracer",
    "stopped",
)
"""Causes with evidence of their own besides the lost time: limits reached, faults, retransmits."""
LEAST_SHARE_OF_SLOW: Final = 0.02
"""The same if the row that loses most is slower by ``SLOW``: rare, long waits hurt latency."""
SLOW: Final = 3.0
"""Ratio of the present p99 to its baseline."""
SLOW_CALLS: Final = 100
"""Number of calls from which on a p99 is more than the longest one of them."""

DESCRIBED: Final[Mapping[str, Callable[[Facts, Loss], Description | None]]] = {
    "cpu_contention": cpu.contention,
    "own_threads": cpu.own_threads,
    "cfs_throttling": cpu.throttling,
    "cpu_pinning": cpu.pinning,
    "tracer": cpu.tracer,
    "loader_cpu": loader.short_of_cpu,
    "loader_disk": loader.short_of_disk,
    "loader_lock": loader.short_of_lock,
    "loader_sleep": loader.asleep,
    "workers_restarted": loader.workers_restarted,
    "remote_service": service.slow,
    "slow_disk": disk.slow,
    "reclaim": faults.reclaim,
    "major_faults": faults.read_back,
    "lock_contention": locks.contention,
    "gil": locks.interpreter,
    "stopped": stopped.by_signal,
    "tcp_retransmits": network.retransmits,
    "unexplained_wait": unexplained.unexplained,
}
"""Functions that describe each root cause; they return None if it is not a cause after all."""


def waits(facts: Facts) -> Iterator[Suspicion]:
    """Yields what every process that makes calls lost on the host, by root cause."""
    for loss in Attribution(facts).losses():
        if _noticeable(facts, loss) and (told := DESCRIBED[loss.cause](facts, loss)) is not None:
            yield _suspicion(facts, loss, told)


def _noticeable(facts: Facts, loss: Loss) -> bool:
    share = loss.ns / facts.wall_ns(loss.victim.pid)
    if share >= (LEAST_SHARE_OF_CERTAIN if loss.cause in _CERTAIN else LEAST_SHARE):
        return True
    row = row_of(facts, worst(loss)) if not CAUSES[loss.cause].last_resort else None
    if row is None or row.normal_p99_ns is None or row.calls < SLOW_CALLS:
        return False
    return share >= LEAST_SHARE_OF_SLOW and row.p99_ns >= SLOW * row.normal_p99_ns


def _suspicion(facts: Facts, loss: Loss, told: Description) -> Suspicion:
    key = worst(loss)
    row = row_of(facts, key)
    unknown = list(told.unknown)
    if row is None or row.normal_p99_ns is None:
        unknown.append("normal not learned yet: judged by this window alone")
    return Suspicion(
        cause=loss.cause,
        tenant=loss.victim.tenant,
        summary=told.summary,
        lost_ns_per_s=facts.per_second(loss.ns),
        confidence=told.confidence,
        links=(effect(facts, loss), *mechanisms(facts, loss), *told.links),
        fixes=told.fixes,
        effect=key,
        rows=tuple(sorted(loss.effects, key=lambda key: -loss.effects[key])),
        pid=loss.victim.pid,
        process=loss.victim.process,
        about=told.about,
        unknown=tuple(unknown),
        p99_ns=row.p99_ns if row is not None else None,
        normal_p99_ns=row.normal_p99_ns if row is not None else None,
        calls=row.calls if row is not None else 0,
        share=min(loss.ns / facts.wall_ns(loss.victim.pid), 1.0),
    )
