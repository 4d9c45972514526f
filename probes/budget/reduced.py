"""Knows the functions whose probes are reduced, and estimates what their calls would cost."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from stalltop.probes.budget.demand import NO_CALLS, Rate, Rates, calls_per_s
from stalltop.probes.budget.hot import TIMEABLE
from stalltop.probes.budget.steps import CYCLE_SECONDS, SAMPLED_SECONDS, BudgetStep

NESTED_SHARE: Final = 0.98
"""If at least this part of a function's calls is made inside other traced calls, ``BudgetStep.TWIN`` loses
little: the calls around them are counted and timed."""
LOOK_EVERY_SECONDS: Final = 300.0
"""After this time, calls of a function without probes are counted again for ``LOOK_SECONDS``, to see whether
what was true of them still is."""
LOOK_SECONDS: Final = 1.0
NEW_USER_SECONDS: Final = 5.0
"""The same is done at least this long after another process has begun to use the function's file."""
SAMPLED_SHARE: Final = SAMPLED_SECONDS / CYCLE_SECONDS
TIMED_SHARE: Final = 0.68
"""What the probes of a function with ``BudgetStep.TIMED`` cost, as a part of their full cost; measured."""


class HotFunction(NamedTuple):
    """A function of a probed file that has probes of its own."""

    file: FileUsers
    symbol: str


class FileUsers(Protocol):
    """A probed file: hashable, and compared by identity."""

    path: str
    users: set[int]
    """PIDs of the processes that use it."""


@dataclass(slots=True)
class ReducedFunction:
    """A function whose probes are reduced, and what is known of its calls."""

    step: BudgetStep
    full: dict[int, Rate]
    """By PID: its calls per second when all were counted."""
    outermost: dict[int, float]
    """By PID: outermost calls per second of the functions that are not reduced, at that time."""
    known_users: set[int]
    on_at: float = -1.0
    """When its probes were attached again, to see whether what was true of its calls still is (as returned by
    time.monotonic()); -1 while nobody looks."""
    off_at: float = -1.0
    """When that look ended and they were removed; -1 until then."""
    seen: dict[int, list[float]] = field(default_factory=dict)
    """By PID: outermost and nested calls that were counted since ``on_at``."""
    calm_since: float = -1.0
    """Since when it need not be reduced; -1 if it has to be."""


@dataclass(frozen=True, slots=True)
class ProbeCosts:
    """CPU time of probes by PID, percent of one CPU."""

    reduced: dict[int, float]
    """With the steps that are taken."""
    full: dict[int, float]
    """If everything were traced."""


@dataclass(frozen=True, slots=True)
class BudgetMoment:
    """What is known at one time."""

    now: float
    rates: Rates
    seconds: float
    """The time that ``rates`` covers, until ``now``."""
    functions: set[HotFunction]
    """All hot functions of files that are in use."""

    def rate(self, pid: int, symbol: str) -> Rate:
        """Returns the counted calls per second of a function in a process."""
        return self.rates.get(pid, {}).get(symbol, NO_CALLS)


class ReducedFunctions:
    """The functions for which steps (``BudgetStep``) are taken. ``percent_of_rate`` is what one call per
    second costs, percent of one CPU. Times are those of one monotonic clock, in seconds."""

    def __init__(self, percent_of_rate: float) -> None:
        self._percent_of_rate = percent_of_rate
        self.known: dict[HotFunction, ReducedFunction] = {}
        self._look_at = -LOOK_SECONDS
        """When calls of all functions without probes are counted again, for ``LOOK_SECONDS``. That is at the
        same time, and while sampled functions are counted, so that nested calls are seen as nested."""

    def step(self, function: HotFunction) -> BudgetStep:
        """Returns the step that is taken for ``function``."""
        found = self.known.get(function)
        return BudgetStep.NONE if found is None else found.step

    def reduced(self) -> tuple[HotFunction, ...]:
        """Returns the functions for which a step is taken."""
        return tuple(self.known)

    def wanted(self, function: HotFunction, now: float) -> bool:
        """Returns whether the probes of ``function`` should be in place at ``now``."""
        found = self.known.get(function)
        if found is None or found.step is BudgetStep.TIMED:
            return True
        if found.step is BudgetStep.SAMPLED:
            return now % CYCLE_SECONDS < SAMPLED_SECONDS
        return self._look_at <= now < self._look_at + LOOK_SECONDS

    def applied(self, function: HotFunction, *, attached: bool, now: float) -> None:
        """Notes that the probes of ``function`` were attached or removed at ``now``."""
        found = self.known.get(function)
        if found is None or found.step is BudgetStep.TIMED:
            return
        if attached:
            found.on_at, found.off_at = now, -1.0
            found.seen.clear()
        elif found.on_at >= 0.0:
            found.off_at = now

    def forget(self, there: set[HotFunction]) -> None:
        """Drops functions that are not ``there`` any more, and what is known of processes that have ended."""
        for function in list(self.known):
            reduced = self.known[function]
            for pid in reduced.full.keys() - function.file.users:
                del reduced.full[pid]
            if function not in there or not reduced.full:
                del self.known[function]

    def take_in(self, moment: BudgetMoment) -> None:
        """Notes what was counted of reduced functions while their probes were in place for a time."""
        if moment.now >= self._look_at + LOOK_SECONDS:
            self._look_at = _cycle_at(moment.now + LOOK_EVERY_SECONDS)
        for function, reduced in list(self.known.items()):
            new = function.file.users - reduced.known_users
            if new:
                reduced.known_users |= new
                self._look_at = min(self._look_at, _cycle_at(moment.now + NEW_USER_SECONDS))
            if reduced.on_at < 0.0:
                continue
            for pid in function.file.users:
                rate = moment.rate(pid, function.symbol)
                if rate.calls:
                    seen = reduced.seen.setdefault(pid, [0.0, 0.0])
                    seen[0] += rate.outermost * moment.seconds
                    seen[1] += rate.nested * moment.seconds
            if 0.0 <= reduced.off_at <= moment.now - moment.seconds:
                self._learn(function, reduced, moment.rates)

    def _learn(self, function: HotFunction, reduced: ReducedFunction, rates: Rates) -> None:
        """Learns the rates of a reduced function from the time for which its probes were in place."""
        lasted = max(reduced.off_at - reduced.on_at, 1e-3)
        reduced.full = {
            pid: Rate(outermost / lasted, nested / lasted)
            for pid, (outermost, nested) in reduced.seen.items()
        }
        outermost = _outermost(self._counted(rates))
        reduced.outermost = {pid: outermost.get(pid, 0.0) for pid in reduced.full}
        reduced.on_at = reduced.off_at = -1.0
        reduced.seen = {}
        nested = all(rate.nested >= NESTED_SHARE * rate.calls for rate in reduced.full.values())
        if not reduced.full or (reduced.step is BudgetStep.TWIN and not nested):
            del self.known[function]

    def take(self, function: HotFunction, step: BudgetStep, moment: BudgetMoment) -> None:
        """Takes ``step`` for ``function``."""
        known = self.known.get(function)
        if known is not None and known.step is not BudgetStep.TIMED:
            known.step = step
            return
        users = function.file.users
        full = {pid: rate for pid in users if (rate := moment.rate(pid, function.symbol)).calls}
        self.known[function] = reduced = ReducedFunction(step, full, {}, set(users))
        # Its own calls are not among the outermost ones: it is noted as reduced already.
        outermost = _outermost(self._counted(moment.rates))
        reduced.outermost = {pid: outermost[pid] for pid in full}

    def timed(self) -> list[HotFunction]:
        """Returns the functions with ``BudgetStep.TIMED``."""
        return [one for one, reduced in self.known.items() if reduced.step is BudgetStep.TIMED]

    def nested_launches(self, rates: Rates) -> dict[int, float]:
        """Returns, by PID, the nested calls per second of timeable functions, without functions whose probes
        are removed."""
        return {
            pid: sum(rate.nested for symbol, rate in found.items() if symbol in TIMEABLE)
            for pid, found in self._counted(rates).items()
        }

    def _counted(self, rates: Rates) -> Rates:
        """Returns ``rates`` without the functions whose calls may not be counted all of the time."""
        hidden = self.symbols(timed=False)
        return {
            pid: {symbol: rate for symbol, rate in found.items() if symbol not in hidden[pid]}
            for pid, found in rates.items()
        }

    def symbols(self, *, timed: bool) -> defaultdict[int, set[str]]:
        """Returns, by PID, the functions for which ``BudgetStep.TIMED`` is taken or, if not ``timed``,
        another step."""
        found = defaultdict[int, set[str]](set)
        for function, reduced in self.known.items():
            if (reduced.step is BudgetStep.TIMED) is timed:
                for pid in tuple(function.file.users):  # Another thread may change the set.
                    found[pid].add(function.symbol)
        return found

    def costs(self, rates: Rates) -> ProbeCosts:
        """Returns what the probes cost, if calls are made at ``rates`` as far as they are counted."""
        counted, timed = self._counted(rates), self.symbols(timed=True)
        outermost = _outermost(counted)
        full = {pid: calls_per_s(found.values()) for pid, found in counted.items()}
        reduced = {
            pid: calls
            - (1.0 - TIMED_SHARE)
            * calls_per_s(rates[pid][symbol] for symbol in timed[pid] & rates[pid].keys())
            for pid, calls in full.items()
        }
        # Outermost calls say how busy a process is now, unless some of them are not counted.
        hidden = {
            pid
            for one in self.known.values()
            if one.step in (BudgetStep.SAMPLED, BudgetStep.STOPPED)
            for pid in one.full
        }
        for one in self.known.values():
            if one.step is BudgetStep.TIMED:
                continue
            for pid, rate in one.full.items():
                calls = rate.calls
                before = one.outermost.get(pid, 0.0)
                if before and pid not in hidden:
                    calls *= outermost.get(pid, 0.0) / before
                full[pid] = full.get(pid, 0.0) + calls
                left = SAMPLED_SHARE if one.step is BudgetStep.SAMPLED else 0.0
                reduced[pid] = reduced.get(pid, 0.0) + left * calls
        percent = self._percent_of_rate
        return ProbeCosts(
            {pid: percent * calls for pid, calls in reduced.items()},
            {pid: percent * calls for pid, calls in full.items()},
        )


def _outermost(rates: Rates) -> dict[int, float]:
    """Returns, by PID, the outermost calls per second of all functions in ``rates``."""
    return {pid: sum(rate.outermost for rate in found.values()) for pid, found in rates.items()}


def _cycle_at(time: float) -> float:
    """Returns the first time from ``time`` on at which sampled functions begin to be counted."""
    return math.ceil(time / CYCLE_SECONDS) * CYCLE_SECONDS
