"""Reports time that callers lose on the host. `diagnosis.attribution` follows the waits to their root causes;
the modules listed here describe these causes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from stalltop.diagnosis.attribution.attribution import Attribution
from stalltop.diagnosis.attribution.losses import Loss
from stalltop.diagnosis.blame import remembered
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.host import (
    cpu,
    disk,
    faults,
    interrupts,
    loader,
    locks,
    network,
    ranks,
    service,
    stopped,
    unexplained,
)
from stalltop.diagnosis.host.description import Description, HostCause
from stalltop.diagnosis.host.steps import effect, mechanisms, row_of, worst
from stalltop.diagnosis.links import Who
from stalltop.diagnosis.suspicion import Suspicion

LEAST_SHARE: Final = 0.1
"""A loss is reported at once if it takes at least this part of the process's time. A smaller loss is reported
only if it lasts."""
LEAST_SHARE_OF_LASTING: Final = 0.06
"""A lasting loss is reported if it takes at least this part of the process's time.

Tenants of a busy, healthy host wait for other tenants for a few percent of their time, and now and then for
more. The part is below ``LEAST_SHARE``, so that a loss that varies around ``LEAST_SHARE`` stays reported.
"""
LEAST_SHARE_OF_CERTAIN: Final = 0.02
"""A loss through a cause that is ``certain`` is reported at once if it takes at least this part of the
process's time."""
LEAST_SHARE_OF_SLOW: Final = 0.02
"""A loss is reported at once if it takes at least this part of the process's time and the row that loses most
is slower than usual (``SLOW``). Rare, long waits hurt latency although they take little time."""
SLOW: Final = 3.0
"""A row is slower than usual if its p99 is at least this many times the p99 of its baseline."""
SLOW_CALLS: Final = 100
"""Least number of calls of a row whose p99 is compared with its baseline. With fewer calls, the p99 is just
the longest call."""

_MODULES: Final = (
    cpu,
    interrupts,
    loader,
    service,
    ranks,
    disk,
    faults,
    locks,
    stopped,
    network,
    unexplained,
)
HOST_CAUSES: Final[Mapping[str, HostCause]] = {
    each.cause.id: each for module in _MODULES for each in module.CAUSES
}
"""Root causes by id."""
CAUSES: Final = tuple(each.cause for each in HOST_CAUSES.values())


def waits(facts: Facts) -> Iterator[Suspicion]:
    """Yields a suspicion for each process that makes calls and for each root cause through which it lost
    time."""
    for loss in Attribution(facts).losses():
        plain = _is_plain(facts, loss)
        last_resort = HOST_CAUSES[loss.cause].cause.last_resort
        if not plain and (last_resort or _share(facts, loss) < LEAST_SHARE_OF_LASTING):
            continue
        taken = _remember(facts, loss)
        if (told := HOST_CAUSES[loss.cause].describe(facts, loss)) is not None:
            yield replace(_suspicion(facts, loss, told, taken), small=not plain)


def _remember(facts: Facts, loss: Loss) -> Mapping[Who, float]:
    """Divides ``loss`` among its culprits in proportion to what they took over time. Returns what each of
    them took over time."""
    now = dict(HOST_CAUSES[loss.cause].culprits(facts, loss))
    before = facts.blame(loss.cause, loss.victim.tenant)
    loss.first = before.first
    rates = {who: facts.per_second(amount) for who, amount in now.items() if amount > 0}
    taken = remembered(before.taken.get(loss.victim.pid, {}), rates, facts.pids)
    loss.culprits.clear()
    if rates:
        scale = sum(now.values()) / sum(taken.values())
        loss.culprits.update({who: scale * amount for who, amount in taken.items()})
    return taken


def _share(facts: Facts, loss: Loss) -> float:
    """Returns the part of the victim's time that is lost, 0 to 1."""
    return min(loss.ns / facts.wall_ns(loss.victim.pid), 1.0)


def _is_plain(facts: Facts, loss: Loss) -> bool:
    """Returns whether a loss is large enough to be reported at once. Smaller losses are reported only if they
    last."""
    host_cause = HOST_CAUSES[loss.cause]
    share = _share(facts, loss)
    if share >= (LEAST_SHARE_OF_CERTAIN if host_cause.certain else LEAST_SHARE):
        return True
    row = row_of(facts, worst(loss)) if not host_cause.cause.last_resort else None
    if row is None or row.normal_p99_ns is None or row.calls < SLOW_CALLS:
        return False
    return share >= LEAST_SHARE_OF_SLOW and row.p99_ns >= SLOW * row.normal_p99_ns


def _suspicion(facts: Facts, loss: Loss, told: Description, taken: Mapping[Who, float]) -> Suspicion:
    key = worst(loss)
    row = row_of(facts, key)
    unknown = list(told.unknown)
    if row is None or row.normal_p99_ns is None:
        unknown.append("whether this is usual here: no baseline was learned yet")
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
        title=told.title,
        unknown=tuple(unknown),
        p99_ns=row.p99_ns if row is not None else None,
        normal_p99_ns=row.normal_p99_ns if row is not None else None,
        calls=row.calls if row is not None else 0,
        share=_share(facts, loss),
        taken={loss.victim.pid: taken},
    )
