"""Merges several suspicions that belong to one chain, such as those of the processes of one tenant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby
from typing import Final

from stalltop.diagnosis.blame import STAYS_FIRST, culprit_of, first_culprit, rest
from stalltop.diagnosis.links import Who
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.model.chain import OTHERS, Fix, Link

MOST_TOLD: Final = 3
"""Maximum number of suspicions whose steps a chain lists, and of culprits that it names for each.

A further suspicion is merged with a listed one if both have the same steps and a culprit in common, or no
culprit at all. If not, only its loss counts: it is part of the chain's total. Further culprits of a suspicion
are listed together, in one link.
"""
MOST_FIXES: Final = 6

_Key = tuple[str, str, int, str, int]
_Way = list[Link]
"""A path: the links of one suspicion without its effect and its factors, from the first step down to the
root."""


def together(members: Sequence[Suspicion], first: Who | None = None) -> Suspicion:
    """Merges ``members``, at least one suspicion, all of one cause, tenant and ``about``.

    The main culprit is the one to which the members lose most. ``first`` is the culprit that the chain has
    named first so far; another culprit replaces it only if it clearly took more. The summary is that of the
    member that loses most among those that name the main culprit first.

    Each loss has its own path to its own culprit, with its part of the whole loss. Losses with the same path
    to the same culprit are listed once, with the ids of the processes that lose. So the shares of all paths
    add up to the whole loss, unless there are more than ``MOST_TOLD`` paths.
    """
    if len(members) == 1:
        return members[0]
    ordered = _ordered(members, first)
    leading = ordered[0]
    lost = sum(member.lost_ns_per_s for member in ordered)
    return replace(
        leading,
        lost_ns_per_s=lost,
        confidence=sum(member.confidence * member.lost_ns_per_s for member in ordered) / lost
        if lost
        else leading.confidence,
        links=_links(ordered, lost) if lost else leading.links,
        fixes=_fixes(ordered),
        rows=tuple(dict.fromkeys(row for member in ordered for row in member.rows)),
        unknown=tuple(dict.fromkeys(line for member in ordered for line in member.unknown)),
        calls=sum(member.calls for member in ordered),
        # The processes lose time independently of each other. So the share is that of the process that loses
        # most.
        small=all(member.small for member in ordered),
        share=max((member.share for member in ordered if member.share is not None), default=None),
        taken={pid: taken for member in ordered for pid, taken in member.taken.items()},
    )


def _ordered(members: Sequence[Suspicion], first: Who | None) -> list[Suspicion]:
    """Sorts ``members``: first those that name the main culprit first, then the others, each by their
    loss."""
    lost_to: defaultdict[Who | None, float] = defaultdict(float)
    for member in members:
        who = first_culprit(member.links)
        lost_to[who] += member.lost_ns_per_s * (STAYS_FIRST if who == first else 1.0)
    worst = max(lost_to, key=lambda who: lost_to[who])
    return sorted(members, key=lambda member: (first_culprit(member.links) != worst, -member.lost_ns_per_s))


def _links(ordered: Sequence[Suspicion], lost: float) -> tuple[Link, ...]:
    effects: list[Link] = []
    factors: list[Link] = []
    ways: list[_Way] = []
    losers: list[list[int]] = []
    """For each of ``ways``: the ids of the processes that lose time on this path."""
    taken: list[set[Who]] = []
    """For each of ``ways``: all its culprits, also those that no link names."""
    for number, member in enumerate(ordered):
        parts = [_part(link, member.lost_ns_per_s / lost) for link in member.links]
        own = [link for link in parts if link.role == "effect"]
        effects = [one.plus(other) for one, other in zip(effects, own, strict=False)] if number else own
        factors = factors or [link for link in parts if link.role == "factor" and not number]
        way = [link for link in parts if link.role not in ("effect", "factor")]
        culprits = {who for by in member.taken.values() for who in by}
        same = next((at for at, other in enumerate(ways) if _same(other, way)), None)
        if same is not None:
            ways[same] = _joined(ways[same], way)
            losers[same].append(_pid(way))
            taken[same] |= culprits
        elif number < MOST_TOLD:
            ways.append(way)
            losers.append([_pid(way)])
            taken.append(culprits)
    told = [
        _few_culprits(_named(way, pids), known) for way, pids, known in zip(ways, losers, taken, strict=True)
    ]
    return (*effects, *(link for way in told for link in way), *factors)


def _part(link: Link, part: float) -> Link:
    return link if link.share is None else replace(link, share=link.share * part)


def _pid(way: _Way) -> int:
    return way[0].pid if way else 0


def _same(one: _Way, other: _Way) -> bool:
    """Returns whether two paths have the same steps and, in addition, have a culprit in common or no culprit
    at all."""
    steps, others = ([link for link in way if link.role != "culprit"] for way in (one, other))
    if len(steps) != len(others) or not all(map(_alike, steps, others)):
        return False
    blamed, blames = ({_key(link) for link in way if link.role == "culprit"} for way in (one, other))
    return bool(blamed & blames) or not (blamed or blames)


def _alike(one: Link, other: Link) -> bool:
    """Returns whether two links show the same step. Either the figures in their texts may differ, or the
    process that loses time may differ, but not both."""
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
    """Merges two paths with the same steps. Keeps the culprits that are on only one of the paths."""
    joined = list(one)
    for link in other:
        at = next((at for at, known in enumerate(joined) if _alike(known, link)), None)
        if at is None:
            joined.append(link)
        else:
            joined[at] = joined[at].plus(link)
    return joined


def _named(way: _Way, pids: Sequence[int]) -> _Way:
    """Returns ``way`` with the process ids ``pids`` in the text of its first step. Returns ``way`` itself if
    there is only one id."""
    pids = sorted({pid for pid in pids if pid})
    if len(pids) < 2:
        return way
    some = ", ".join(str(pid) for pid in pids[:MOST_TOLD])
    more = f" and {len(pids) - MOST_TOLD} more" if len(pids) > MOST_TOLD else ""
    process = way[0].process
    before, named, after = way[0].text.partition(process) if process else (way[0].text, "", "")
    return [replace(way[0], text=f"{before}{named} (pids {some}{more}){after}"), *way[1:]]


def _few_culprits(links: Iterable[Link], taken: Collection[Who]) -> list[Link]:
    """Returns ``links`` with the culprits of each level sorted by what they took.

    The first culprit stays first, because the summary names it. ``taken`` has all culprits. Culprits
    beyond ``MOST_TOLD`` share one link, which says how many they are. If ``taken`` is empty, their number is
    not known, and all culprits keep links of their own.
    """
    ordered: list[Link] = []
    for (role, _), beside in groupby(links, key=lambda link: (link.role, link.depth)):
        run = list(beside)
        if role == "culprit":
            named = [link for link in run if not link.of_others]
            named[1:] = sorted(named[1:], key=lambda link: -(link.ns_per_s or 0.0))
            most = MOST_TOLD if taken else len(named)
            left = [*named[most:], *(link for link in run if link not in named)]
            run = named[:most]
            if left:
                one = reduce(Link.plus, left)
                text = rest(taken, {culprit_of(link) for link in run})
                run.append(replace(one, text=text, tenant="", pid=0, process=OTHERS))
        ordered += run
    return ordered


def _fixes(ordered: Sequence[Suspicion]) -> tuple[Fix, ...]:
    """Returns the fixes of all members, those of the first member first. A fix that occurs twice is listed
    once."""
    return tuple(dict.fromkeys(fix for member in ordered for fix in member.fixes))[:MOST_FIXES]
