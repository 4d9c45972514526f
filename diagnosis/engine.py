"""Follows causes over time: opens chains, keeps them open and closes them, according to what the rules find
in the last seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from stalltop.diagnosis.blame import Blame, ChainKey, first_culprit
from stalltop.diagnosis.causes import CAUSES
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.held import HeldUses
from stalltop.diagnosis.normals import Normal, Normals
from stalltop.diagnosis.rules import RULES
from stalltop.diagnosis.series import Series
from stalltop.diagnosis.suspicion import Rule, Suspicion
from stalltop.diagnosis.verdict import chain_of, main_ones, severity_of, suspicions
from stalltop.diagnosis.wording.steady import steady
from stalltop.model.chain import Chain, worst_first
from stalltop.model.merge.merging import merge
from stalltop.model.row_key import RowKey
from stalltop.model.thread_evidence import ThreadEvidence
from stalltop.model.window import Window

LOOK_SECONDS: Final = 3.0
"""Rules see the windows of this many last seconds. This is long enough for some steps of a usual training
loop, and short enough to react soon to a fault."""
NEWEST_SECONDS: Final = 0.75
"""Least length of a window that is diagnosed, s. Shorter windows are merged until they are this long."""
SIGHTS: Final = 2
"""A chain opens if at least this many of the last ``OF_SIGHTS`` windows show its cause, each window on its
own. A disturbance within a single window therefore opens no chain."""
OF_SIGHTS: Final = 3
LASTING_SIGHTS: Final = 5
"""Each new window is merged with the others of the last ``LOOK_SECONDS``. A chain also opens if this many
successive merged windows show its cause. A disturbance within one window is part of at most four merged
windows, and opens no chain.

This finds causes that single windows show only now and then, for example if the steps of a program are longer
than a window.
"""
LONG_WINDOW_SECONDS: Final = 2.5
"""A chain opens at once if one window of at least this length shows its cause, s."""
LASTING_SECONDS: Final = LOOK_SECONDS + LASTING_SIGHTS - 1
"""A chain for a ``small`` loss opens at once if one window of at least this length shows it, s. Small losses
are reported only if they last. This is the time that ``LASTING_SIGHTS`` successive merged windows of
``LOOK_SECONDS`` span if a window takes a second."""
RESUMED_SECONDS: Final = 30.0
"""If a chain opens again within this many seconds after it was last seen, it keeps the time at which it was
first seen."""
MOST_CLOSED: Final = 50
"""Maximum number of closed chains that windows still show."""
MOST_FOLLOWED: Final = 1000
"""Maximum number of suspicions that are followed at a time."""
_ROWS_KEPT: Final = 1024
"""Windows also get the baselines of rows without recent calls. These baselines are dropped when they
outnumber the rows with recent calls by more than this."""


@dataclass(slots=True)
class _Followed:
    """One suspicion, followed over time."""

    found: Suspicion
    """The suspicion as rules found it most recently."""
    since: float
    sights: deque[bool] = field(default_factory=lambda: deque(maxlen=OF_SIGHTS))
    """For each of the newest ``OF_SIGHTS`` windows: whether that window alone showed the cause, with a loss
    that is not ``small``."""
    lasting: int = 0
    last: float = 0.0
    chain: Chain | None = None
    """The chain of this suspicion; None until it opens."""


class Diagnosis:
    """Diagnoses the windows of one host, one after the other. Only one thread may use it."""

    def __init__(
        self, *, rules: Sequence[Rule] = RULES, own_pid: int = 0, normals: Normals | None = None
    ) -> None:
        self.normals = Normals() if normals is None else normals
        """Baselines of this host. They are learned from each window; whoever created this object stores
        them."""
        self._rules = rules
        self._own_pid = own_pid
        self._series = Series()
        self._parts: list[Window] = []
        """Windows shorter than ``NEWEST_SECONDS``, which are merged once they are long enough together."""
        self._recent: deque[Window] = deque()
        self._normals_seen: dict[RowKey, tuple[int, int]] = {}
        """Baselines of the rows of the last windows, including rows without recent calls."""
        self._followed: dict[str, _Followed] = {}
        self._closed: dict[str, Chain] = {}
        """Closed chains by id."""
        self._held_newest, self._held_lately = HeldUses(), HeldUses()
        """The uses from which fixes compute limits, of the newest window and of the merged ones."""

    def add(self, window: Window) -> Window:
        """Diagnoses ``window``, the newest one. Returns it with the chains that are open at its end, the
        chains that have closed, and the baselines of its rows.

        Ids of chains are unique: if a chain opens anew after ``RESUMED_SECONDS`` or later, its earlier,
        closed state gets the id ``ID@SINCE``. Open chains come first, the worst one at the front; then
        closed chains, the one that was last seen at the front.
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
            # Process ids and causes of one host mean nothing on another host.
            self._recent.clear()
            self._followed.clear()
            self._closed.clear()
            self._normals_seen = {}
            self._series = Series()
        self._recent.append(newest)
        while len(self._recent) > 1 and _length(self._recent) - self._recent[0].seconds >= LOOK_SECONDS:
            self._recent.popleft()
        # A window that is much longer than the newest one would outweigh the newest one in the merge.
        while len(self._recent) > 1 and _length(self._recent) > 2 * LOOK_SECONDS:
            self._recent.popleft()
        self._series.add(newest)
        blamed = self._blamed(newest)
        normal = _normal(self.normals, newest)
        self._held_newest.forget(newest.end)
        self._held_lately.forget(newest.end)
        facts = self._facts(newest, normal, blamed, held=self._held_newest)
        self._tell(facts.normal)
        lately = now_seen = suspicions(facts, self._rules)
        # If the newest window shows no cause and no cause is followed, the merged windows rarely show one.
        # Then, as for most windows, the merge is skipped.
        if len(self._recent) > 1 and (now_seen or self._followed):
            joined = _joined(self._recent)
            normal = _normal(self.normals, joined, known=newest).with_others(normal)
            merged = self._facts(joined, normal, blamed, tuple(self._recent), held=self._held_lately)
            lately = suspicions(merged, self._rules)
        self._follow(newest, now_seen, lately)
        self._learn(facts, now_seen, lately)

    def _tell(self, normal: Mapping[RowKey, tuple[int, int]]) -> None:
        """Adds the baselines of the rows of the newest window to ``_normals_seen``. This makes a new dict,
        because earlier windows still use the old one."""
        seen = {**self._normals_seen, **normal}
        self._normals_seen = seen if len(seen) <= 2 * len(normal) + _ROWS_KEPT else dict(normal)

    def _blamed(self, newest: Window) -> dict[ChainKey, Blame]:
        """Returns the culprits that each chain has blamed so far, with the sums reduced to their weight at
        the end of ``newest``."""
        found = {}
        for followed in self._followed.values():
            last = followed.found
            blame = Blame(first_culprit(last.links), last.taken).faded(newest.end - followed.last)
            found[last.cause, last.tenant, last.about] = blame
        return found

    def _facts(
        self,
        window: Window,
        normal: Normal,
        blamed: Mapping[ChainKey, Blame],
        parts: Sequence[Window] = (),
        *,
        held: HeldUses,
    ) -> Facts:
        return Facts(
            window,
            normal=normal.percentiles,
            usual=normal.usual_ns,
            series=self._series.points,
            own_pid=self._own_pid,
            longest_ns=self._series.longest_ns,
            blamed=blamed,
            parts=parts,
            held=held,
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
        if followed.chain is not None:
            same = first_culprit(suspicion.links) == first_culprit(followed.chain.links)
            suspicion = replace(suspicion, fixes=steady(suspicion.fixes, followed.chain.fixes, same=same))
        if followed.chain is not None and followed.chain.severity != "low":
            # A loss that varies around the threshold for ``small`` would otherwise change its severity every
            # second.
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
        """Learns baselines from this window, except from the rows of tenants that suffer now.

        Tenants whose problems all have low severity are learned from. A device that is always at its power
        cap, or a link that always had fewer lanes, is part of their baseline.

        Tenants with a ``last_resort`` cause are not learned from. Such a cause is a deviation from the
        baseline; if the baseline included it, it would not be found any more.
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
    """Returns the chains that the evidence of one window alone shows, the worst first. Returns no chains for
    a merged window of several hosts, because process ids are valid on one host only."""
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


def _normal(normals: Normals, window: Window, *, known: Window | None = None) -> Normal:
    """Returns the baselines of a window's rows, and of the calls that are open at its end. Those that the
    window ``known`` has too are left out."""
    left_out = _keys(known) if known is not None else {}
    return normals.of(tuple(key for key in _keys(window) if key not in left_out), window.tenants)


def _keys(window: Window) -> dict[RowKey, None]:
    """Returns the keys of a window's rows, and of the calls that are open at its end, each once."""
    return dict.fromkeys((*window.rows.keys, *(RowKey(window.host, *call.row) for call in window.open_calls)))


def _suffering(suspicion: Suspicion) -> frozenset[str]:
    """Returns the ids of the tenants that the cause of a suspicion slows down."""
    return suspicion.suffering | ({suspicion.tenant} if suspicion.tenant else frozenset())


def _stays_seconds(followed: _Followed) -> float:
    """Returns for how many seconds a chain stays open after its cause was last seen."""
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
