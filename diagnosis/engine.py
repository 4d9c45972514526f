"""Follows causes over time: what rules find in the last seconds becomes chains that open, last and close."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from stalltop.diagnosis.blame import Blame, ChainKey, culprit_of
from stalltop.diagnosis.causes import CAUSES
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.normals import Normal, Normals
from stalltop.diagnosis.rules import RULES
from stalltop.diagnosis.series import Series
from stalltop.diagnosis.suspicion import Rule, Suspicion
from stalltop.diagnosis.verdict import chain_of, main_ones, severity_of, suspicions
from stalltop.model.chain import Chain, worst_first
from stalltop.model.merge.merging import merge
from stalltop.model.row_key import RowKey
from stalltop.model.thread_evidence import ThreadEvidence
from stalltop.model.window import Window

LOOK_SECONDS: Final = 3.0
"""Length of the recent past that rules see, s: some steps of a usual training loop, but short enough to react
soon to a fault."""
NEWEST_SECONDS: Final = 0.75
"""Least length of a window that is diagnosed, s: shorter windows are merged until they are this long."""
SIGHTS: Final = 2
"""A chain opens if at least this many of the last ``OF_SIGHTS`` windows show its cause, each by itself. A
disturbance within a single window opens no chain."""
OF_SIGHTS: Final = 3
LASTING_SIGHTS: Final = 5
"""A chain also opens if the merged windows of the last ``LOOK_SECONDS`` show its cause this many times in a
row. A disturbance within one window is part of at most four such merges. A cause that shows only over several
windows, as with steps longer than a window, is found only in this way."""
LONG_WINDOW_SECONDS: Final = 2.5
"""Least length of a single window that opens a chain at once, s."""
LASTING_SECONDS: Final = LOOK_SECONDS + LASTING_SIGHTS - 1
"""Least length of a single window that opens a chain for a ``small`` loss, s. Small losses are reported only
if they last: ``LASTING_SIGHTS`` successive merges of ``LOOK_SECONDS`` span this time if windows take a
second."""
RESUMED_SECONDS: Final = 30.0
"""A chain that opens again within this time keeps the time at which it was first seen."""
MOST_CLOSED: Final = 50
"""Maximum number of closed chains that windows still show."""
MOST_FOLLOWED: Final = 1000
"""Maximum number of suspicions that are followed at a time."""
_ROWS_KEPT: Final = 1024
"""A window also has the baselines of rows without recent calls. These are dropped if they outnumber the rows
with recent calls by more than this."""


@dataclass(slots=True)
class _Followed:
    """One suspicion over time."""

    found: Suspicion
    """The suspicion as it was found last."""
    since: float
    sights: deque[bool] = field(default_factory=lambda: deque(maxlen=OF_SIGHTS))
    """For each of the newest windows: whether the window showed the cause by itself."""
    lasting: int = 0
    last: float = 0.0
    chain: Chain | None = None
    """The chain of this suspicion; None until it opens."""


class Diagnosis:
    """Diagnoses the windows of one host, one after the other. Used from one thread."""

    def __init__(
        self, *, rules: Sequence[Rule] = RULES, own_pid: int = 0, normals: Normals | None = None
    ) -> None:
        self.normals = Normals() if normals is None else normals
        """Baselines of this host: learned all the time, and stored by the owner of this object."""
        self._rules = rules
        self._own_pid = own_pid
        self._series = Series()
        self._parts: list[Window] = []
        """Windows shorter than ``NEWEST_SECONDS`` that wait to be merged."""
        self._recent: deque[Window] = deque()
        self._normals_seen: dict[RowKey, tuple[int, int]] = {}
        """Baselines of the rows of the last windows, including rows without recent calls."""
        self._followed: dict[str, _Followed] = {}
        self._closed: dict[str, Chain] = {}
        """Closed chains by id."""

    def add(self, window: Window) -> Window:
        """Returns ``window``, the newest one, with the chains that are open at its end, those that closed
        before, and the baselines of its rows.

        An id occurs once: if a chain opens anew, its earlier state stays under ``ID@SINCE``. Open chains come
        first, the worst of them first; then closed ones, the last closed first.
        """
        self._parts.append(window)
        if sum(part.seconds for part in self._parts) >= NEWEST_SECONDS:
            newest = _joined(self._parts)
            self._parts.clear()
            self._look(newest)
        evidence = replace(window.evidence, threads=ThreadEvidence())
        return replace(window, evidence=evidence, chains=self._chains(), normals=self._normals_seen)

    def _look(self, newest: Window) -> None:
        if self._recent and newest.host != self._recent[-1].host:
            # Process ids and causes of one host say nothing about those of another.
            self._recent.clear()
            self._followed.clear()
            self._closed.clear()
            self._normals_seen = {}
            self._series = Series()
        self._recent.append(newest)
        while len(self._recent) > 1 and _length(self._recent) - self._recent[0].seconds >= LOOK_SECONDS:
            self._recent.popleft()
        # A window that is much longer than the newest one would outweigh it in the merge.
        while len(self._recent) > 1 and _length(self._recent) > 2 * LOOK_SECONDS:
            self._recent.popleft()
        self._series.add(newest)
        blamed = self._blamed(newest)
        facts = self._facts(newest, blamed)
        self._tell(facts.normal)
        lately = now_seen = suspicions(facts, self._rules)
        # If the newest window shows no cause and none is followed, the merged windows show none either. This
        # holds for most windows, and saves the merge.
        if len(self._recent) > 1 and (now_seen or self._followed):
            lately = suspicions(self._facts(_joined(self._recent), blamed), self._rules)
        self._follow(newest, now_seen, lately)
        self._learn(facts, now_seen, lately)

    def _tell(self, normal: Mapping[RowKey, tuple[int, int]]) -> None:
        """Adds the baselines of the rows of the newest window, in a new dict: earlier windows still use the
        old one."""
        seen = {**self._normals_seen, **normal}
        self._normals_seen = seen if len(seen) <= 2 * len(normal) + _ROWS_KEPT else dict(normal)

    def _blamed(self, newest: Window) -> dict[ChainKey, Blame]:
        """Returns whom each chain has blamed so far, with the sums reduced to their weight at the end of
        ``newest``."""
        found = {}
        for followed in self._followed.values():
            last = followed.found
            first = next((culprit_of(link) for link in last.links if link.role == "culprit"), None)
            blame = Blame(first, last.taken).faded(newest.end - followed.last)
            found[last.cause, last.tenant, last.about] = blame
        return found

    def _facts(self, window: Window, blamed: Mapping[ChainKey, Blame]) -> Facts:
        normal = _normal(self.normals, window)
        return Facts(
            window,
            normal=normal.percentiles,
            usual=normal.usual_ns,
            series=self._series.points,
            own_pid=self._own_pid,
            longest_ns=self._series.longest_ns,
            blamed=blamed,
        )

    def _follow(self, newest: Window, now_seen: dict[str, Suspicion], lately: dict[str, Suspicion]) -> None:
        seen = main_ones({**now_seen, **lately})
        for identity, suspicion in seen.items():
            if identity not in self._followed and len(self._followed) < MOST_FOLLOWED:
                self._followed[identity] = _Followed(suspicion, newest.start)
        for identity, followed in list(self._followed.items()):
            found = seen.get(identity)
            by_itself = now_seen.get(identity) if found is not None else None
            followed.sights.append(by_itself is not None and not by_itself.small)
            followed.lasting = followed.lasting + 1 if found is not None else 0
            if found is not None:
                self._seen(identity, followed, found, newest)
            elif not 0 <= newest.end - followed.last < _stays_seconds(followed):
                self._unseen(identity, followed)

    def _seen(self, identity: str, followed: _Followed, suspicion: Suspicion, newest: Window) -> None:
        followed.last = newest.end
        followed.found = suspicion
        if followed.chain is None and not _is_enough(followed, suspicion, newest):
            return
        before = self._closed.pop(identity, None) if followed.chain is None else None
        if before is not None and newest.end - before.seen < RESUMED_SECONDS:
            followed.since = before.since
        elif before is not None:
            self._keep(replace(before, id=f"{identity}@{before.since:.0f}"))
        if followed.chain is not None and followed.chain.severity != "low":
            # A loss around the threshold keeps its severity, which would otherwise change every second.
            suspicion = replace(suspicion, small=False)
        followed.chain = chain_of(identity, suspicion, since=followed.since, seen=newest.end)

    def _unseen(self, identity: str, followed: _Followed) -> None:
        del self._followed[identity]
        if followed.chain is not None and CAUSES[followed.found.cause].fault:
            self._keep(replace(followed.chain, open=False))

    def _keep(self, chain: Chain) -> None:
        self._closed[chain.id] = chain
        while len(self._closed) > MOST_CLOSED:
            del self._closed[min(self._closed, key=lambda identity: self._closed[identity].seen)]

    def _learn(self, facts: Facts, now_seen: dict[str, Suspicion], lately: dict[str, Suspicion]) -> None:
        """Learns baselines from this window, except from tenants that suffer now.

        Tenants that have only problems of low severity are learned from: a device that is always at its power
        cap, or a link that never had more lanes, is part of their baseline. A tenant with a ``last_resort``
        cause is not learned from: such a cause is defined against the baseline, and would not be seen any
        more once the baseline includes it.
        """
        faulty: set[str] = set()
        for found in (now_seen, lately):
            for suspicion in found.values():
                cause = CAUSES[suspicion.cause]
                if cause.fault and (cause.last_resort or severity_of(cause, suspicion.share) != "low"):
                    faulty |= _suffering(suspicion)
        for followed in self._followed.values():
            chain = followed.chain
            if chain is not None and CAUSES[chain.cause].fault and chain.severity != "low":
                faulty |= _suffering(followed.found)
        self.normals.learn(facts, faulty)

    def _chains(self) -> tuple[Chain, ...]:
        chains = [followed.chain for followed in self._followed.values() if followed.chain is not None]
        return (*sorted(chains, key=worst_first), *self._history())

    def _history(self) -> list[Chain]:
        return sorted(self._closed.values(), key=lambda chain: -chain.seen)


def explain(
    window: Window, *, rules: Sequence[Rule] = RULES, normals: Normals | None = None
) -> tuple[Chain, ...]:
    """Returns the chains that the evidence of one window shows by itself, the worst first.

    Returns none if several hosts are merged, because process ids belong to one host.
    """
    if len({key.host for key in window.rows.keys}) > 1:
        return ()
    normal = _normal(normals or Normals(), window)
    facts = Facts(window, normal=normal.percentiles, usual=normal.usual_ns)
    found = main_ones(suspicions(facts, rules))
    chains = [
        chain_of(identity, suspicion, since=window.start, seen=window.end)
        for identity, suspicion in found.items()
        if not suspicion.small or window.seconds >= LASTING_SECONDS
    ]
    return tuple(sorted(chains, key=worst_first))


def _normal(normals: Normals, window: Window) -> Normal:
    """Returns the baselines of a window's rows, and of the calls that are open at its end."""
    calls = (RowKey(window.host, *call.row) for call in window.open_calls)
    return normals.of(dict.fromkeys((*window.rows.keys, *calls)), window.tenants)


def _suffering(suspicion: Suspicion) -> frozenset[str]:
    """Returns the tenants (ids) that a suspicion says are slowed down."""
    return suspicion.suffering | ({suspicion.tenant} if suspicion.tenant else frozenset())


def _stays_seconds(followed: _Followed) -> float:
    """Returns how long a chain stays open without being seen, s."""
    return CAUSES[followed.found.cause].stays_seconds


def _is_enough(followed: _Followed, suspicion: Suspicion, newest: Window) -> bool:
    """Returns whether a suspicion has been seen often enough to open a chain."""
    if CAUSES[suspicion.cause].at_once and not suspicion.small:
        return True
    if newest.seconds >= (LASTING_SECONDS if suspicion.small else LONG_WINDOW_SECONDS):
        return True
    return sum(followed.sights) >= SIGHTS or followed.lasting >= LASTING_SIGHTS


def _length(windows: Iterable[Window]) -> float:
    return sum(window.seconds for window in windows)


def _joined(windows: Iterable[Window]) -> Window:
    return merge(tuple(windows))
