"""Turns the suspicions of one window into chains. Decides how severe each suspicion is, and which suspicions
are only a part of another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.causes import CAUSES
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.suspicion import Rule, Suspicion
from stalltop.diagnosis.together import together
from stalltop.model.chain import SEVERITIES, SEVERITY_OF_SHARE, Chain, Link, Severity

PART_OF_ANOTHER: Final = 0.3
"""If a loss is smaller than this part of the same tenant's largest loss, it becomes a factor of the largest
one. Of several losses at once, the small ones are mostly consequences of the largest one.

A loss that is ``small`` also becomes a factor if the largest one is not ``small``.
"""

MOST_FACTORS: Final = 4
MOST_ROWS: Final = 40
"""Maximum number of rows that one chain names."""


def suspicions(facts: Facts, rules: Sequence[Rule]) -> dict[str, Suspicion]:
    """Returns the suspicions that ``rules`` find, by the id of their chain. Suspicions of one cause, tenant
    and ``about`` are merged into one."""
    found: dict[str, list[Suspicion]] = {}
    for rule in rules:
        for suspicion in rule(facts):
            found.setdefault(identity_of(suspicion), []).append(_with_share(facts, suspicion))
    return {
        identity: together(members, facts.blame(members[0].cause, members[0].tenant, members[0].about).first)
        for identity, members in found.items()
    }


def identity_of(suspicion: Suspicion) -> str:
    """Returns the id of the chain to which a suspicion belongs."""
    return "/".join(filter(None, (suspicion.cause, suspicion.tenant, suspicion.about)))


def main_ones(found: dict[str, Suspicion]) -> dict[str, Suspicion]:
    """Returns those of ``found`` that are shown as chains. A loss that is only a part of a larger loss of the
    same tenant becomes a factor of that loss.

    A possible fault (``last_resort``) is left out if the tenant has a fault. A cause that is not a fault is
    left out if the tenant has a fault or a possible fault that takes as much time.
    """
    largest: dict[str, str] = {}
    for identity, suspicion in found.items():
        best = largest.get(suspicion.tenant)
        if _weighed(suspicion) and (best is None or suspicion.lost_ns_per_s > found[best].lost_ns_per_s):
            largest[suspicion.tenant] = identity
    told: dict[str, int] = {}
    worst: dict[str, float] = {}
    for suspicion in found.values():
        doubt, tenant = _doubt(suspicion), suspicion.tenant
        told[tenant] = min(doubt, told.get(tenant, doubt))
        if doubt < _NO_FAULT:
            worst[tenant] = max(suspicion.lost_ns_per_s, worst.get(tenant, 0.0))
    kept: dict[str, Suspicion] = {}
    factors: dict[str, list[Suspicion]] = {}
    for identity, suspicion in found.items():
        best = largest.get(suspicion.tenant, identity)
        largest_one = found[best]
        part = suspicion.lost_ns_per_s < PART_OF_ANOTHER * largest_one.lost_ns_per_s
        lasts_only = suspicion.small and not largest_one.small
        if best != identity and (part or lasts_only) and _weighed(suspicion):
            factors.setdefault(best, []).append(suspicion)
        elif _doubt(suspicion) == told[suspicion.tenant] or (
            _doubt(suspicion) == _NO_FAULT and suspicion.lost_ns_per_s > worst[suspicion.tenant]
        ):
            kept[identity] = suspicion
    for identity, parts in factors.items():
        parts.sort(key=lambda suspicion: -suspicion.lost_ns_per_s)
        whole = kept[identity]
        links = tuple(_factor(part, whole) for part in parts[:MOST_FACTORS])
        kept[identity] = replace(whole, links=(*whole.links, *links))
    return kept


def chain_of(identity: str, suspicion: Suspicion, *, since: float, seen: float) -> Chain:
    """Returns an open chain for a suspicion. If its loss is ``small``, the severity is low."""
    cause = CAUSES[suspicion.cause]
    effect = suspicion.effect
    return Chain(
        id=identity,
        cause=cause.id,
        title=suspicion.title or cause.title,
        severity="low" if suspicion.small else severity_of(cause, suspicion.share),
        summary=suspicion.summary,
        tenant=suspicion.tenant,
        pid=suspicion.pid or (effect.pid if effect else 0),
        process=suspicion.process or (effect.process if effect else ""),
        layer=effect.layer if effect else "",
        operation=effect.operation if effect else "",
        lost_ms_per_s=suspicion.lost_ns_per_s / 1e6,
        confidence=min(max(suspicion.confidence, 0.0), 1.0),
        links=suspicion.links,
        fixes=suspicion.fixes,
        unknown=suspicion.unknown,
        p99_ns=suspicion.p99_ns,
        normal_p99_ns=suspicion.normal_p99_ns,
        calls=suspicion.calls,
        rows=suspicion.rows[:MOST_ROWS],
        since=since,
        seen=seen,
    )


def severity_of(cause: Cause, share: float | None) -> Severity:
    """Returns the severity of a loss through ``cause`` that takes ``share`` of the victim's time."""
    if not cause.fault:
        return "info"
    if cause.last_resort:
        return "low"
    by_share = next((name for least, name in SEVERITY_OF_SHARE if (share or 0.0) >= least), cause.least)
    return min(by_share, cause.least, key=SEVERITIES.index)


def _weighed(suspicion: Suspicion) -> bool:
    """Returns whether a suspicion is judged by its lost time alone: it is a fault that costs time, and the
    least severity of its cause is low."""
    cause = CAUSES[suspicion.cause]
    return _doubt(suspicion) == 0 and cause.least == "low" and suspicion.lost_ns_per_s > 0


_NO_FAULT: Final = 2


def _doubt(suspicion: Suspicion) -> int:
    """Returns 0 for a fault, 1 for a possible fault, and `_NO_FAULT` for a cause that is not a fault."""
    cause = CAUSES[suspicion.cause]
    return _NO_FAULT if not cause.fault else int(cause.last_resort)


def _with_share(facts: Facts, suspicion: Suspicion) -> Suspicion:
    pid = suspicion.pid or (suspicion.effect.pid if suspicion.effect else 0)
    if suspicion.share is not None or not pid or suspicion.lost_ns_per_s <= 0:
        return suspicion
    share = suspicion.lost_ns_per_s * facts.seconds / facts.wall_ns(pid)
    return replace(suspicion, share=min(share, 1.0))


def _factor(part: Suspicion, whole: Suspicion) -> Link:
    culprit = next((link for link in part.links if link.role == "culprit"), None)
    # Of stalltop's own cost there is no other problem in which its fix would stand.
    remedy = f": {part.fixes[0].text}" if part.cause == "tracer" and part.fixes else ""
    return Link(
        role="factor",
        text=part.summary + remedy,
        share=part.lost_ns_per_s / whole.lost_ns_per_s if whole.lost_ns_per_s else None,
        ns_per_s=part.lost_ns_per_s,
        tenant=culprit.tenant if culprit else part.tenant,
        pid=culprit.pid if culprit else part.pid,
        process=culprit.process if culprit else part.process,
        device=culprit.device if culprit else "",
        depth=1,
    )
