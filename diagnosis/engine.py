"""Follows causes over time: what rules find in the last seconds becomes chains that open, last and close."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from stalltop.diagnosis.causes import CAUSES
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.normals import Normal, Normals
from stalltop.diagnosis.rules import RULES
from stalltop.diagnosis.series import Series
from stalltop.diagnosis.suspicion import Rule, Suspicion
from stalltop.diagnosis.verdict import chain_of, main_ones, severity_of, suspicions
from stalltop.model.chain import Chain, worst_first
from stalltop.model.merge.merging import merge
from stalltop.model.window import RowKey, Window

LOOK_SECONDS: Final = 3.0
"""How much of the past rules look at: some steps of a usual training loop, and still soon after a fault."""
NEWEST_SECONDS: Final = 0.75
"""What counts as one sight: shorter windows are put together until they are that long."""
SIGHTS: Final = 2
"""A chain opens when the newest window alone shows it in so many of the last ``OF_SIGHTS``: no blip does."""
OF_SIGHTS: Final = 3
LASTING_SIGHTS: Final = 5
"""Or when the last ``LOOK_SECONDS`` show it so many times in a row. A blip within one window is seen in four
at most; steps longer than a window show only this way."""
LONG_WINDOW_SECONDS: Final = 2.5
"""A window of this length is enough by itself."""
RESUMED_SECONDS: Final = 30.0
"""A chain that opens again so soon goes on since when it was first seen."""
MOST_CLOSED: Final = 50
"""Closed chains that windows still show."""
MOST_FOLLOWED: Final = 1000
"""Suspicions followed at a time."""
_ROWS_KEPT: Final = 1024
"""Rows without a call now whose normals are told, at least."""


@dataclass(slots=True)
class _Followed:
    """One suspicion over time."""

    cause: str
    since: float
    sights: deque[bool] = field(default_factory=lambda: deque(maxlen=OF_SIGHTS))
    """Whether each of the newest windows showed it by itself."""
    lasting: int = 0
    last: float = 0.0
    suffering: frozenset[str] = frozenset()
    """Tenants (ids) that it slows down."""
    chain: Chain | None = None
    """Once it is open."""


class Diagnosis:
    """Used from one thread; windows of one host, one after the other."""

    def __init__(
        self, *, rules: Sequence[Rule] = RULES, own_pid: int = 0, normals: Normals | None = None
    ) -> None:
        self.normals = Normals() if normals is None else normals
        """What is normal on this host: learned all the time, and kept by who made this."""
        self._rules = rules
        self._own_pid = own_pid
        self._series = Series()
        self._parts: list[Window] = []
        """Windows shorter than ``NEWEST_SECONDS`` that wait for more."""
        self._recent: deque[Window] = deque()
        self._normals_seen: dict[RowKey, tuple[int, int]] = {}
        """What is normal for the rows of the last windows, those that had no call lately too."""
        self._followed: dict[str, _Followed] = {}
        self._closed: dict[str, Chain] = {}
        """By id."""

    def add(self, window: Window) -> Window:
        """``window``, the newest one, with the chains open at its end and those that closed before, and with
        what is normal for its rows.

        An id occurs once: when a chain opens anew, what it was before stays under ``ID@SINCE``. Open ones
        come first, the worst of them first; then those that closed, the last one first.
        """
        self._parts.append(window)
        if sum(part.seconds for part in self._parts) >= NEWEST_SECONDS:
            newest = _joined(self._parts)
            self._parts.clear()
            self._look(newest)
        return replace(window, chains=self._chains(), normals=self._normals_seen)

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
        # A much longer window before this one would outweigh it.
        while len(self._recent) > 1 and _length(self._recent) > 2 * LOOK_SECONDS:
            self._recent.popleft()
        self._series.add(newest)
        facts = self._facts(newest)
        self._tell(facts.normal)
        lately = now_seen = suspicions(facts, self._rules)
        # Where no window shows anything by itself, all together do not: most looks end here.
        if len(self._recent) > 1 and (now_seen or self._followed):
            lately = suspicions(self._facts(_joined(self._recent)), self._rules)
        self._follow(newest, now_seen, lately)
        self._learn(facts, now_seen, lately)

    def _tell(self, normal: Mapping[RowKey, tuple[int, int]]) -> None:
        """Take in what is normal for the rows of the newest window; windows hold the dict from before."""
        seen = {**self._normals_seen, **normal}
        self._normals_seen = seen if len(seen) <= 2 * len(normal) + _ROWS_KEPT else dict(normal)

    def _facts(self, window: Window) -> Facts:
        normal = _normal(self.normals, window)
        return Facts(
            window,
            normal=normal.percentiles,
            usual=normal.usual_ns,
            series=self._series.points,
            own_pid=self._own_pid,
            longest_ns=self._series.longest_ns,
        )

    def _follow(self, newest: Window, now_seen: dict[str, Suspicion], lately: dict[str, Suspicion]) -> None:
        seen = main_ones({**now_seen, **lately})
        for identity, suspicion in seen.items():
            if identity not in self._followed and len(self._followed) < MOST_FOLLOWED:
                self._followed[identity] = _Followed(suspicion.cause, newest.start)
        for identity, followed in list(self._followed.items()):
            found = seen.get(identity)
            followed.sights.append(identity in now_seen and found is not None)
            followed.lasting = followed.lasting + 1 if found is not None else 0
            if found is not None:
                self._seen(identity, followed, found, newest)
            elif not 0 <= newest.end - followed.last < _stays_seconds(followed):
                self._unseen(identity, followed)

    def _seen(self, identity: str, followed: _Followed, suspicion: Suspicion, newest: Window) -> None:
        followed.last = newest.end
        followed.suffering = _suffering(suspicion)
        if followed.chain is None and not _is_enough(followed, suspicion, newest):
            return
        before = self._closed.pop(identity, None) if followed.chain is None else None
        if before is not None and newest.end - before.seen < RESUMED_SECONDS:
            followed.since = before.since
        elif before is not None:
            self._keep(replace(before, id=f"{identity}@{before.since:.0f}"))
        followed.chain = chain_of(identity, suspicion, since=followed.since, seen=newest.end)

    def _unseen(self, identity: str, followed: _Followed) -> None:
        del self._followed[identity]
        if followed.chain is not None and CAUSES[followed.cause].fault:
            self._keep(replace(followed.chain, open=False))

    def _keep(self, chain: Chain) -> None:
        self._closed[chain.id] = chain
        while len(self._closed) > MOST_CLOSED:
            del self._closed[min(self._closed, key=lambda identity: self._closed[identity].seen)]

    def _learn(self, facts: Facts, now_seen: dict[str, Suspicion], lately: dict[str, Suspicion]) -> None:
        """Learn what is normal from this window, but for the tenants that suffer now.

        What costs them next to nothing does not count: a device that is always at its power cap, or a
        link that never had more lanes, is what their normal is. What is told against a normal counts
        always: learned, it would be gone.
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
                faulty |= followed.suffering
        self.normals.learn(facts, faulty)

    def _chains(self) -> tuple[Chain, ...]:
        chains = [followed.chain for followed in self._followed.values() if followed.chain is not None]
        return (*sorted(chains, key=worst_first), *self._history())

    def _history(self) -> list[Chain]:
        return sorted(self._closed.values(), key=lambda chain: -chain.seen)


def explain(
    window: Window, *, rules: Sequence[Rule] = RULES, normals: Normals | None = None
) -> tuple[Chain, ...]:
    """The chains of one window by itself, the worst first: what its own evidence says.

    Nothing where several hosts are merged: process ids are those of one host.
    """
    if len({key.host for key in window.rows.keys}) > 1:
        return ()
    normal = _normal(normals or Normals(), window)
    facts = Facts(window, normal=normal.percentiles, usual=normal.usual_ns)
    found = main_ones(suspicions(facts, rules))
    chains = [
        chain_of(identity, suspicion, since=window.start, seen=window.end)
        for identity, suspicion in found.items()
    ]
    return tuple(sorted(chains, key=worst_first))


def _normal(normals: Normals, window: Window) -> Normal:
    """What is known of a window's rows, and of the calls that are open at its end."""
    calls = (RowKey(window.host, *call.row) for call in window.open_calls)
    return normals.of(dict.fromkeys((*window.rows.keys, *calls)), window.tenants)


def _suffering(suspicion: Suspicion) -> frozenset[str]:
    """Tenants (ids) that a suspicion says are slowed down."""
    return suspicion.suffering | ({suspicion.tenant} if suspicion.tenant else frozenset())


def _stays_seconds(followed: _Followed) -> float:
    """How long a chain stays open unseen."""
    return CAUSES[followed.cause].stays_seconds


def _is_enough(followed: _Followed, suspicion: Suspicion, newest: Window) -> bool:
    """Whether a suspicion is seen well enough to open a chain."""
    if CAUSES[suspicion.cause].at_once or newest.seconds >= LONG_WINDOW_SECONDS:
        return True
    return sum(followed.sights) >= SIGHTS or followed.lasting >= LASTING_SIGHTS


def _length(windows: Iterable[Window]) -> float:
    return sum(window.seconds for window in windows)


def _joined(windows: Iterable[Window]) -> Window:
    return merge(tuple(windows))
