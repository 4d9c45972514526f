"""Merges several findings of one chain, such as those of the processes of one tenant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from stalltop.diagnosis.suspicion import Suspicion
from stalltop.model.chain import Fix, Link

MOST_TOLD: Final = 3
"""Maximum number of findings whose steps are listed; smaller ones count only if they have the same steps."""
MOST_FIXES: Final = 6

_Key = tuple[str, str, int, str, int]
_Way = list[Link]
"""Links of one finding from below the effect to its root, without factors."""


def together(members: Sequence[Suspicion]) -> Suspicion:
    """Merges ``members`` (at least one) of one cause, tenant and ``about``; the summary is that of the
    largest loss.

    Each loss has its own path to its own culprit, as a part of the sum. Losses with the same path to the same
    culprit are listed once, with the ids of the processes that lose, so that the parts of a step add up to
    it.
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
        # Processes lose independently, so the share is that of the worst one.
        small=all(member.small for member in ordered),
        share=max((member.share for member in ordered if member.share is not None), default=None),
    )


def _links(ordered: Sequence[Suspicion], lost: float) -> tuple[Link, ...]:
    effects: list[Link] = []
    factors: list[Link] = []
    ways: list[_Way] = []
    losers: list[list[int]] = []
    """Processes that lose by each of ``ways``."""
    for number, member in enumerate(ordered):
        parts = [_part(link, member.lost_ns_per_s / lost) for link in member.links]
        own = [link for link in parts if link.role == "effect"]
        effects = [one.plus(other) for one, other in zip(effects, own, strict=False)] if number else own
        factors = factors or [link for link in parts if link.role == "factor" and not number]
        way = [link for link in parts if link.role not in ("effect", "factor")]
        same = next((at for at, other in enumerate(ways) if _same(other, way)), None)
        if same is not None:
            ways[same] = _joined(ways[same], way)
            losers[same].append(_pid(way))
        elif number < MOST_TOLD:
            ways.append(way)
            losers.append([_pid(way)])
    told = [_worst_culprits_first(_named(way, pids)) for way, pids in zip(ways, losers, strict=True)]
    return (*effects, *(link for way in told for link in way), *factors)


def _part(link: Link, part: float) -> Link:
    return link if link.share is None else replace(link, share=link.share * part)


def _pid(way: _Way) -> int:
    return way[0].pid if way else 0


def _same(one: _Way, other: _Way) -> bool:
    """Returns whether two paths have the same steps, and either share a culprit or have none."""
    steps, others = ([link for link in way if link.role != "culprit"] for way in (one, other))
    if len(steps) != len(others) or not all(map(_alike, steps, others)):
        return False
    blamed, blames = ({_key(link) for link in way if link.role == "culprit"} for way in (one, other))
    return bool(blamed & blames) or not (blamed or blames)


def _alike(one: Link, other: Link) -> bool:
    """Returns whether two steps are the same: either only figures in their texts differ, or only the process
    that loses."""
    said = (one.role, one.tenant, one.device, one.depth, one.text)
    return _key(one) == _key(other) or said == (
        other.role,
        other.tenant,
        other.device,
        other.depth,
        other.text,
    )


def _key(link: Link) -> _Key:
    return link.role, link.tenant, link.pid, link.device, link.depth


def _joined(one: _Way, other: _Way) -> _Way:
    """Merges two paths that are the same; culprits of only one of them stay."""
    joined = list(one)
    for link in other:
        at = next((at for at, known in enumerate(joined) if _alike(known, link)), None)
        if at is None:
            joined.append(link)
        else:
            joined[at] = joined[at].plus(link)
    return joined


def _named(way: _Way, pids: Sequence[int]) -> _Way:
    """Returns ``way``, with the ids of the processes in the step that they all have in common."""
    pids = sorted({pid for pid in pids if pid})
    if len(pids) < 2:
        return way
    some = ", ".join(str(pid) for pid in pids[:MOST_TOLD])
    more = f" and {len(pids) - MOST_TOLD} more" if len(pids) > MOST_TOLD else ""
    process = way[0].process
    before, named, after = way[0].text.partition(process) if process else (way[0].text, "", "")
    return [replace(way[0], text=f"{before}{named} (pids {some}{more}){after}"), *way[1:]]


def _worst_culprits_first(links: Iterable[Link]) -> list[Link]:
    """Returns ``links`` with culprits of one level sorted by what they took, the largest first."""
    ordered: list[Link] = []
    for (role, _), beside in groupby(links, key=lambda link: (link.role, link.depth)):
        run = list(beside)
        if role == "culprit":
            run.sort(key=lambda link: -(link.ns_per_s or 0.0))
        ordered += run
    return ordered


def _fixes(ordered: Sequence[Suspicion]) -> tuple[Fix, ...]:
    """Returns the fixes of the first member, then further ones of the others."""
    return tuple(dict.fromkeys(fix for member in ordered for fix in member.fixes))[:MOST_FIXES]
