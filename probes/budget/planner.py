"""Decides for which functions probes are reduced so that their cost stays within the budget. It only decides:
it attaches and removes nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from stalltop.probes.budget.demand import NO_CALLS, Rate, Rates, calls_per_s
from stalltop.probes.budget.hot import TIMEABLE
from stalltop.probes.budget.limits import Budget
from stalltop.probes.budget.steps import CYCLE_SECONDS, SAMPLED_SECONDS, BudgetStep
from stalltop.probes.layout import TIMED_IN

ENGAGE_SECONDS: Final = 3.0
"""A limit is exceeded for this long before anything is reduced."""
RELEASE_SECONDS: Final = 60.0
"""For this long, the full cost would be below ``RELEASE_SHARE`` of a limit before everything is traced
again."""
RELEASE_SHARE: Final = 0.5
NESTED_SHARE: Final = 0.98
"""If at least this part of a function's calls is made inside other traced calls, ``BudgetStep.TWIN`` loses
little: the calls around them are counted and timed."""
NESTED_SECONDS: Final = 30.0
"""For this long, ``NESTED_SHARE`` holds in every process before ``BudgetStep.TWIN`` is taken."""
LOOK_EVERY_SECONDS: Final = 300.0
"""After this time, calls of a function without probes are counted again for ``LOOK_SECONDS``, to see whether
what was true of them still is."""
LOOK_SECONDS: Final = 1.0
NEW_USER_SECONDS: Final = 5.0
"""The same is done at least this long after another process has begun to use the function's file."""
STOP_FACTOR: Final = 3.0
"""If sampling leaves a process above this many times its limit, its sampled functions are not counted at
all."""
_SAMPLED_SHARE: Final = SAMPLED_SECONDS / CYCLE_SECONDS
_TIMED_SHARE: Final = 0.68
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
class _Reduced:
    """A function whose probes are reduced, and what is known of its calls."""

    step: BudgetStep
    full: dict[int, Rate]
    """By PID: its calls per second when all were counted."""
    outermost: dict[int, float]
    """By PID: outermost calls per second of the functions that are not reduced, at that time."""
    known_users: set[int]
    on_at: float = -1.0
    """When its probes were attached for a time; -1 if they are not."""
    off_at: float = -1.0
    """When they were removed again; -1 until then."""
    seen: dict[int, list[float]] = field(default_factory=dict)
    """By PID: outermost and nested calls that were counted since ``on_at``."""
    calm_since: float = -1.0
    """Since when it need not be reduced; -1 if it has to be."""


@dataclass(frozen=True, slots=True)
class _Costs:
    """CPU time of probes by PID, percent of one CPU."""

    reduced: dict[int, float]
    """With the steps that are taken."""
    full: dict[int, float]
    """If everything were traced."""


@dataclass(frozen=True, slots=True)
class _Moment:
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


class Planner:
    """Takes steps (``BudgetStep``) for hot functions, and takes them back. ``probe_ns`` is what the probes
    add to a call; ``sessions`` says whether ``BudgetStep.TIMED`` may be taken. Times are those of one
    monotonic clock, in seconds."""

    def __init__(self, budget: Budget, probe_ns: float, *, sessions: bool = False) -> None:
        self._budget = budget
        self._sessions = sessions
        self._percent_of_rate = 100.0 * probe_ns / 1e9
        self._reduced: dict[HotFunction, _Reduced] = {}
        self._nested_since: dict[tuple[int, str], float] = {}
        self._above_since: dict[int | None, float] = {}
        self._look_at = -LOOK_SECONDS
        """When calls of all functions without probes are counted again, for ``LOOK_SECONDS``. That is at the
        same time, and while sampled functions are counted, so that nested calls are seen as nested."""
        self._over_at: dict[int, float] = {}
        self.over: dict[int, float] = {}
        """Processes that stay above their limit although every step was taken that may be: by PID, the cost
        in percent of one CPU. PID 0 stands for all processes of the host together."""

    def step(self, function: HotFunction) -> BudgetStep:
        """Returns the step that is taken for ``function``."""
        found = self._reduced.get(function)
        return BudgetStep.NONE if found is None else found.step

    def reduced(self) -> tuple[HotFunction, ...]:
        """Returns the functions for which a step is taken."""
        return tuple(self._reduced)

    def wanted(self, function: HotFunction, now: float) -> bool:
        """Returns whether the probes of ``function`` should be in place at ``now``."""
        found = self._reduced.get(function)
        if found is None or found.step is BudgetStep.TIMED:
            return True
        if found.step is BudgetStep.SAMPLED:
            return now % CYCLE_SECONDS < SAMPLED_SECONDS
        return self._look_at <= now < self._look_at + LOOK_SECONDS

    def applied(self, function: HotFunction, *, attached: bool, now: float) -> None:
        """Notes that the probes of ``function`` were attached or removed at ``now``."""
        found = self._reduced.get(function)
        if found is None or found.step is BudgetStep.TIMED:
            return
        if attached:
            found.on_at, found.off_at = now, -1.0
            found.seen.clear()
        elif found.on_at >= 0.0:
            found.off_at = now

    def is_quiet(self, calls: Mapping[int, int], seconds: float) -> bool:
        """Returns whether nothing is reduced and nothing is near a limit, so that ``observe`` may be called
        seldom. ``calls`` has the calls of ``seconds`` by PID."""
        percent = self._percent_of_rate / seconds
        if (
            self._reduced
            or percent * max(calls.values(), default=0) >= RELEASE_SHARE * self._budget.process_percent
            or percent * sum(calls.values()) >= RELEASE_SHARE * self._budget.host_percent
        ):
            return False
        self._above_since.clear()
        self.over = {}
        return True

    def observe(self, now: float, rates: Rates, seconds: float, functions: Iterable[HotFunction]) -> None:
        """Decides anew. ``rates`` covers ``seconds`` until ``now``; ``functions`` are all hot functions of
        the files that are probed."""
        there = {function for function in functions if function.file.users}
        moment = _Moment(now, rates, seconds, there)
        self._forget(there)
        self._note_nested(moment)
        self._take_in(moment)
        self._time_all_of_outer(moment)
        costs = self._costs(rates)
        self._release(now, costs)
        self._reduce(moment, costs)

    def _forget(self, there: set[HotFunction]) -> None:
        """Drops what is known of processes and files that are gone."""
        alive = set[int]().union(*(function.file.users for function in there))
        for function in list(self._reduced):
            reduced = self._reduced[function]
            for pid in reduced.full.keys() - function.file.users:
                del reduced.full[pid]
            if function not in there or not reduced.full:
                del self._reduced[function]
        self._nested_since = {key: since for key, since in self._nested_since.items() if key[0] in alive}
        self._above_since = {
            pid: since for pid, since in self._above_since.items() if pid is None or pid in alive
        }

    def _note_nested(self, moment: _Moment) -> None:
        for pid, found in moment.rates.items():
            for symbol, rate in found.items():
                if rate.nested < NESTED_SHARE * rate.calls:
                    self._nested_since.pop((pid, symbol), None)
                else:
                    self._nested_since.setdefault((pid, symbol), moment.now)

    def _take_in(self, moment: _Moment) -> None:
        """Notes what was counted of reduced functions while their probes were in place for a time."""
        if moment.now >= self._look_at + LOOK_SECONDS:
            self._look_at = _cycle_at(moment.now + LOOK_EVERY_SECONDS)
        for function, reduced in list(self._reduced.items()):
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

    def _time_all_of_outer(self, moment: _Moment) -> None:
        """Takes ``BudgetStep.TIMED`` back for functions that have begun to make traced calls. Only inside the
        calls that are timed, these are seen as nested."""
        for function in self._timed():
            if any(
                TIMED_IN * self._nested_launches(pid, moment.rates) > self._allowed(pid, function, moment)
                for pid in function.file.users
            ):
                del self._reduced[function]

    def give_up_timing(self) -> None:
        """Takes ``BudgetStep.TIMED`` back and never again, because the Linux kernel refused it."""
        self._sessions = False
        for function in self._timed():
            del self._reduced[function]

    def _timed(self) -> list[HotFunction]:
        return [one for one, reduced in self._reduced.items() if reduced.step is BudgetStep.TIMED]

    def _nested_launches(self, pid: int, rates: Rates) -> float:
        """Returns the nested calls per second of timeable functions in process ``pid``, without functions
        whose probes are removed."""
        return sum(
            rate.nested
            for symbol, rate in rates.get(pid, {}).items()
            if symbol in TIMEABLE and not self._reduced_in(pid, symbol)
        )

    def _allowed(self, pid: int, function: HotFunction, moment: _Moment) -> float:
        """Returns how many traced calls per second process ``pid`` may make inside ``function`` although not
        each of its calls is timed."""
        return (1.0 - NESTED_SHARE) * moment.rate(pid, function.symbol).calls

    def _learn(self, function: HotFunction, reduced: _Reduced, rates: Rates) -> None:
        """Learns the rates of a reduced function from the time for which its probes were in place."""
        lasted = max(reduced.off_at - reduced.on_at, 1e-3)
        reduced.full = {
            pid: Rate(outermost / lasted, nested / lasted)
            for pid, (outermost, nested) in reduced.seen.items()
        }
        reduced.outermost = {pid: self._outermost(pid, rates) for pid in reduced.full}
        reduced.on_at = reduced.off_at = -1.0
        reduced.seen = {}
        nested = all(rate.nested >= NESTED_SHARE * rate.calls for rate in reduced.full.values())
        if not reduced.full or (reduced.step is BudgetStep.TWIN and not nested):
            del self._reduced[function]

    def _outermost(self, pid: int, rates: Rates) -> float:
        """Returns the outermost calls per second of process ``pid``, without reduced functions."""
        return sum(
            rate.outermost for symbol, rate in rates.get(pid, {}).items() if not self._reduced_in(pid, symbol)
        )

    def _reduced_in(self, pid: int, symbol: str) -> bool:
        """Returns whether calls of ``symbol`` in process ``pid`` may not be counted all of the time."""
        return any(
            function.symbol == symbol and pid in function.file.users
            for function, reduced in self._reduced.items()
            if reduced.step is not BudgetStep.TIMED
        )

    def saved(self, pid: int, symbol: str) -> float:
        """Returns the part of the cost of a call of ``symbol`` in process ``pid`` that is saved because few
        of its calls are timed; 0 if all are."""
        timed = any(one.symbol == symbol and pid in one.file.users for one in self._timed())
        return 1.0 - _TIMED_SHARE if timed else 0.0

    def _costs(self, rates: Rates) -> _Costs:
        traced = {
            pid: calls_per_s(rate for symbol, rate in found.items() if not self._reduced_in(pid, symbol))
            for pid, found in rates.items()
        }
        reduced, full = dict(traced), dict(traced)
        for pid, found in rates.items():
            for symbol, rate in found.items():
                reduced[pid] -= self.saved(pid, symbol) * rate.calls
        # Outermost calls say how busy a process is now, unless some of them are not counted.
        hidden = {
            pid
            for one in self._reduced.values()
            if one.step in (BudgetStep.SAMPLED, BudgetStep.STOPPED)
            for pid in one.full
        }
        for one in self._reduced.values():
            if one.step is BudgetStep.TIMED:
                continue
            for pid, rate in one.full.items():
                calls = rate.calls
                before = one.outermost.get(pid, 0.0)
                if before and pid not in hidden:
                    calls *= self._outermost(pid, rates) / before
                full[pid] = full.get(pid, 0.0) + calls
                left = _SAMPLED_SHARE if one.step is BudgetStep.SAMPLED else 0.0
                reduced[pid] = reduced.get(pid, 0.0) + left * calls
        percent = self._percent_of_rate
        return _Costs(
            {pid: percent * calls for pid, calls in reduced.items()},
            {pid: percent * calls for pid, calls in full.items()},
        )

    def _release(self, now: float, costs: _Costs) -> None:
        host_is_calm = sum(costs.full.values()) < RELEASE_SHARE * self._budget.host_percent
        limit = RELEASE_SHARE * self._budget.process_percent
        # Calls inside calls that are not timed would be taken for outermost ones. So all calls of outer
        # functions are timed before their inner functions have probes again.
        timed = self._timed()
        held = set[int]().union(*(function.file.users for function in timed))
        for function, reduced in list(self._reduced.items()):
            if not host_is_calm or any(costs.full.get(pid, 0.0) >= limit for pid in reduced.full):
                reduced.calm_since = -1.0
            elif reduced.calm_since < 0.0:
                reduced.calm_since = now
            elif now - reduced.calm_since >= RELEASE_SECONDS and (
                function in timed or held.isdisjoint(function.file.users)
            ):
                del self._reduced[function]

    def _reduce(self, moment: _Moment, costs: _Costs) -> None:
        # A process whose cost is just at its limit is not named on and off.
        self._over_at = {pid: at for pid, at in self._over_at.items() if moment.now - at < ENGAGE_SECONDS}
        self.over = {pid: cost for pid, cost in self.over.items() if pid in self._over_at}
        for pid, cost in sorted(costs.reduced.items(), key=lambda item: -item[1]):
            self._keep(pid, cost, self._budget.process_percent, moment)
        # What was done for single processes counts for the host as well.
        host = sum(self._costs(moment.rates).reduced.values())
        self._keep(None, host, self._budget.host_percent, moment)

    def _keep(self, pid: int | None, cost: float, limit: float, moment: _Moment) -> None:
        """Takes steps if the ``cost`` of process ``pid`` (None: of the host) has exceeded ``limit`` for long
        enough."""
        if cost <= limit:
            self._above_since.pop(pid, None)
            return
        if moment.now - self._above_since.setdefault(pid, moment.now) < ENGAGE_SECONDS:
            return
        pids = set(moment.rates) if pid is None else {pid}
        cost -= self._drop_twins(pids, cost - limit, moment)
        if self._sessions and cost > limit:
            cost -= self._time_some(pids, cost - limit, moment)
        if self._budget.sample and cost > limit:
            cost -= self._sample(pids, cost - limit, moment)
        if self._budget.sample and cost > STOP_FACTOR * limit:
            cost -= self._stop(pids, cost - limit, moment)
        if cost > limit:
            self.over[pid or 0] = cost
            self._over_at[pid or 0] = moment.now
        else:
            self.over.pop(pid or 0, None)

    def _drop_twins(self, pids: set[int], excess: float, moment: _Moment) -> float:
        """Drops twins until that saves ``excess`` in processes ``pids``. Returns what it saves; both in
        percent of one CPU."""
        saved = 0.0
        for percent, function in self._costliest(pids, BudgetStep.NONE, moment):
            if saved < excess and self._is_twin(function, moment):
                self._take(function, BudgetStep.TWIN, moment)
                saved += percent
        return saved

    def _time_some(self, pids: set[int], excess: float, moment: _Moment) -> float:
        """Times only some calls of functions; otherwise like ``_drop_twins``."""
        saved = 0.0
        for percent, function in self._costliest(pids, BudgetStep.NONE, moment):
            if saved < excess and self._is_timeable(function, moment):
                self._take(function, BudgetStep.TIMED, moment)
                saved += percent * (1.0 - _TIMED_SHARE)
        return saved

    def _sample(self, pids: set[int], excess: float, moment: _Moment) -> float:
        """Samples functions; otherwise like ``_drop_twins``."""
        saved = 0.0
        for percent, function in sorted(
            self._costliest(pids, BudgetStep.NONE, moment) + self._costliest(pids, BudgetStep.TIMED, moment),
            reverse=True,
            key=lambda item: item[0],
        ):
            # Calls inside calls that are not counted would be taken for outermost calls. So functions with
            # nested calls are sampled too, at the same time.
            nested = any(moment.rate(pid, function.symbol).nested for pid in pids)
            if saved < excess or nested:
                self._take(function, BudgetStep.SAMPLED, moment)
                saved += percent * (1.0 - _SAMPLED_SHARE)
        return saved

    def _stop(self, pids: set[int], excess: float, moment: _Moment) -> float:
        """Stops counting sampled functions; otherwise like ``_drop_twins``."""
        saved = 0.0
        for percent, function in self._costliest(pids, BudgetStep.SAMPLED, moment):
            if saved < excess:
                self._take(function, BudgetStep.STOPPED, moment)
                saved += percent * _SAMPLED_SHARE
        return saved

    def _costliest(
        self, pids: set[int], step: BudgetStep, moment: _Moment
    ) -> list[tuple[float, HotFunction]]:
        """Returns the functions for which ``step`` is taken and that processes ``pids`` call, with their full
        cost in these processes (with ``TIMED``: the present cost) in percent of one CPU; the costliest come
        first."""
        found = []
        for function in moment.functions:
            if self.step(function) is not step:
                continue
            known = self._reduced.get(function)
            calls = calls_per_s(
                moment.rate(pid, function.symbol)
                if known is None or step is BudgetStep.TIMED
                else known.full.get(pid, NO_CALLS)
                for pid in pids & function.file.users
            )
            if step is BudgetStep.TIMED:
                calls *= _TIMED_SHARE
            if calls:
                found.append((self._percent_of_rate * calls, function))
        return sorted(found, key=lambda item: -item[0])

    def _is_timeable(self, function: HotFunction, moment: _Moment) -> bool:
        """Returns whether calls of ``function`` are outermost calls without traced calls inside, in every
        process."""
        return function.symbol in TIMEABLE and all(
            max(self._nested_launches(pid, moment.rates), moment.rate(pid, function.symbol).nested)
            <= self._allowed(pid, function, moment)
            for pid in function.file.users
            if moment.rate(pid, function.symbol).calls
        )

    def _is_twin(self, function: HotFunction, moment: _Moment) -> bool:
        callers = [pid for pid in function.file.users if moment.rate(pid, function.symbol).calls]
        return all(
            moment.now - self._nested_since.get((pid, function.symbol), moment.now) >= NESTED_SECONDS
            for pid in callers
        )

    def _take(self, function: HotFunction, step: BudgetStep, moment: _Moment) -> None:
        known = self._reduced.get(function)
        if known is not None and known.step is not BudgetStep.TIMED:
            known.step = step
            return
        users = function.file.users
        full = {pid: rate for pid in users if (rate := moment.rate(pid, function.symbol)).calls}
        self._reduced[function] = reduced = _Reduced(step, full, {}, set(users))
        # Its own calls are not among the outermost ones: it is noted as reduced already.
        reduced.outermost = {pid: self._outermost(pid, moment.rates) for pid in full}


def _cycle_at(time: float) -> float:
    """Returns the first time from ``time`` on at which sampled functions begin to be counted."""
    return math.ceil(time / CYCLE_SECONDS) * CYCLE_SECONDS
