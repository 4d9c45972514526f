"""Several finds of one chain, such as of the processes of one tenant, put together as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from diagnosis.suspicion import Suspicion
from model.chain import Fix, Link

MOST_TOLD: Final = 3
"""Finds whose steps are told; those of smaller ones only count where they blame the same."""
MOST_FIXES: Final = 6

_Key = tuple[str, str, int, str, int]


def together(members: Sequence[Suspicion]) -> Suspicion:
    """``members`` (at least one) of one cause, tenant and ``about`` as one, told by the largest loss.

    Each loss goes its own way to its own culprit, as a part of the sum; who is to blame for several is told
    once, with what it took of all.
    """
    ordered = sorted(members, key=lambda member: -member.lost_ns_per_s)
    largest = ordered[0]
    if len(ordered) == 1:
        return largest
    lost = sum(member.lost_ns_per_s for member in ordered)
    return replace(
        largest,
        lost_ns_per_s=lost,
        confidence=sum(member.confidence * member.lost_ns_per_s for member in ordered) / lost
        if lost
        else largest.confidence,
        links=_links(ordered, lost) if lost else largest.links,
        fixes=_fixes(ordered),
        rows=tuple(dict.fromkeys(row for member in ordered for row in member.rows)),
        unknown=tuple(dict.fromkeys(line for member in ordered for line in member.unknown)),
        calls=sum(member.calls for member in ordered),
        # Each loses by itself: it is as bad as for the one that is worst off.
        share=max((member.share for member in ordered if member.share is not None), default=None),
    )


def _links(ordered: Sequence[Suspicion], lost: float) -> tuple[Link, ...]:
    found: dict[_Key, Link] = {}
    for number, member in enumerate(ordered):
        for link in member.links:
            key = link.role, link.tenant, link.pid, link.device, link.depth
            if link.role == "effect":
                key = "effect", "", 0, "", link.depth
            part = (
                link if link.share is None else replace(link, share=link.share * member.lost_ns_per_s / lost)
            )
            known = found.get(key)
            if number == 0:
                # Steps of the first one stay as they are, also where two speak of the same.
                found[key if known is None else (*key[:-1], -len(found))] = part
            elif known is not None:
                found[key] = _added(known, part)
            elif number < MOST_TOLD and link.role != "factor":
                found[key] = part
    return tuple(_worst_culprits_first(found.values()))


def _added(one: Link, other: Link) -> Link:
    share, ns_per_s = one.share, one.ns_per_s
    if share is not None and other.share is not None:
        share = min(share + other.share, 1.0)
    if ns_per_s is not None and other.ns_per_s is not None:
        ns_per_s += other.ns_per_s
    return replace(one, share=share, ns_per_s=ns_per_s)


def _worst_culprits_first(links: Iterable[Link]) -> list[Link]:
    """``links`` with culprits that stand side by side in the order of what they took of all."""
    ordered: list[Link] = []
    for (role, _), beside in groupby(links, key=lambda link: (link.role, link.depth)):
        run = list(beside)
        if role == "culprit":
            run.sort(key=lambda link: -(link.ns_per_s or 0.0))
        ordered += run
    return ordered


def _fixes(ordered: Sequence[Suspicion]) -> tuple[Fix, ...]:
    """What helps the first one, then what helps the others besides."""
    return tuple(dict.fromkeys(fix for member in ordered for fix in member.fixes))[:MOST_FIXES]
