"""Decides for which functions probes are reduced so that their cost stays within the budget. It only decides:
it attaches and removes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from stalltop.probes.budget.demand import NO_CALLS, Rates, calls_per_s
from stalltop.probes.budget.hot import TIMEABLE
from stalltop.probes.budget.limits import Budget
from stalltop.probes.budget.reduced import (
    NESTED_SHARE,
    SAMPLED_SHARE,
    TIMED_SHARE,
    BudgetMoment,
    HotFunction,
    ProbeCosts,
    ReducedFunctions,
)
from stalltop.probes.budget.steps import BudgetStep
from stalltop.probes.layout import TIMED_IN

ENGAGE_SECONDS: Final = 3.0
"""A limit is exceeded for this long before anything is reduced."""
RELEASE_SECONDS: Final = 60.0
"""For this long, the full cost would be below ``RELEASE_SHARE`` of a limit before everything is traced
again."""
RELEASE_SHARE: Final = 0.5
NESTED_SECONDS: Final = 30.0
"""For this long, ``NESTED_SHARE`` holds in every process before ``BudgetStep.TWIN`` is taken."""
STOP_FACTOR: Final = 3.0
"""If sampling leaves a process above this many times its limit, its sampled functions are not counted at
all."""


class Planner:
    """Takes steps (``BudgetStep``) for hot functions, and takes them back. ``probe_ns`` is what the probes
    add to a call; ``sessions`` says whether ``BudgetStep.TIMED`` may be taken. Times are those of one
    monotonic clock, in seconds."""

    def __init__(self, budget: Budget, probe_ns: float, *, sessions: bool = False) -> None:
        self._budget = budget
        self._sessions = sessions
        self._percent_of_rate = 100.0 * probe_ns / 1e9
        self.functions = ReducedFunctions(self._percent_of_rate)
        """The functions for which steps are taken."""
        self._nested_since: dict[tuple[int, str], float] = {}
        self._above_since: dict[int | None, float] = {}
        self._over_at: dict[int, float] = {}
        self.over: dict[int, float] = {}
        """Processes that stay above their limit although every step was taken that may be: by PID, the cost
        in percent of one CPU. PID 0 stands for all processes of the host together."""

    def is_quiet(self, calls: Mapping[int, float], seconds: float) -> bool:
        """Returns whether nothing is reduced and nothing is near a limit, so that ``observe`` may be called
        seldom. ``calls`` has the calls of ``seconds`` by PID."""
        percent = self._percent_of_rate / seconds
        if (
            self.functions.known
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
        moment = BudgetMoment(now, rates, seconds, there)
        self._forget(there)
        self._note_nested(moment)
        self.functions.take_in(moment)
        self._time_all_of_outer(moment)
        costs = self.functions.costs(rates)
        self._release(now, costs)
        self._reduce(moment, costs)

    def _forget(self, there: set[HotFunction]) -> None:
        """Drops what is known of processes and files that are gone."""
        alive = set[int]().union(*(function.file.users for function in there))
        self.functions.forget(there)
        self._nested_since = {key: since for key, since in self._nested_since.items() if key[0] in alive}
        self._above_since = {
            pid: since for pid, since in self._above_since.items() if pid is None or pid in alive
        }

    def _note_nested(self, moment: BudgetMoment) -> None:
        for pid, found in moment.rates.items():
            for symbol, rate in found.items():
                if rate.nested < NESTED_SHARE * rate.calls:
                    self._nested_since.pop((pid, symbol), None)
                else:
                    self._nested_since.setdefault((pid, symbol), moment.now)

    def _time_all_of_outer(self, moment: BudgetMoment) -> None:
        """Takes ``BudgetStep.TIMED`` back for functions that have begun to make traced calls. Only inside the
        calls that are timed, these are seen as nested."""
        nested = self.functions.nested_launches(moment.rates)
        for function in self.functions.timed():
            if any(
                TIMED_IN * nested.get(pid, 0.0) > self._allowed(pid, function, moment)
                for pid in function.file.users
            ):
                del self.functions.known[function]

    def give_up_timing(self) -> None:
        """Takes ``BudgetStep.TIMED`` back and never again, because the Linux kernel refused it."""
        self._sessions = False
        for function in self.functions.timed():
            del self.functions.known[function]

    def _allowed(self, pid: int, function: HotFunction, moment: BudgetMoment) -> float:
        """Returns how many traced calls per second process ``pid`` may make inside ``function`` although not
        each of its calls is timed."""
        return (1.0 - NESTED_SHARE) * moment.rate(pid, function.symbol).calls

    def _release(self, now: float, costs: ProbeCosts) -> None:
        host_is_calm = sum(costs.full.values()) < RELEASE_SHARE * self._budget.host_percent
        limit = RELEASE_SHARE * self._budget.process_percent
        # Calls inside calls that are not timed would be taken for outermost ones. So all calls of outer
        # functions are timed before their inner functions have probes again.
        timed = self.functions.timed()
        held = set[int]().union(*(function.file.users for function in timed))
        for function, reduced in list(self.functions.known.items()):
            if not host_is_calm or any(costs.full.get(pid, 0.0) >= limit for pid in reduced.full):
                reduced.calm_since = -1.0
            elif reduced.calm_since < 0.0:
                reduced.calm_since = now
            elif now - reduced.calm_since >= RELEASE_SECONDS and (
                function in timed or held.isdisjoint(function.file.users)
            ):
                del self.functions.known[function]

    def _reduce(self, moment: BudgetMoment, costs: ProbeCosts) -> None:
        # A process whose cost is just at its limit is not named on and off.
        self._over_at = {pid: at for pid, at in self._over_at.items() if moment.now - at < ENGAGE_SECONDS}
        self.over = {pid: cost for pid, cost in self.over.items() if pid in self._over_at}
        for pid, cost in sorted(costs.reduced.items(), key=lambda item: -item[1]):
            self._keep(pid, cost, self._budget.process_percent, moment)
        # What was done for single processes counts for the host as well.
        host = sum(self.functions.costs(moment.rates).reduced.values())
        self._keep(None, host, self._budget.host_percent, moment)

    def _keep(self, pid: int | None, cost: float, limit: float, moment: BudgetMoment) -> None:
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

    def _drop_twins(self, pids: set[int], excess: float, moment: BudgetMoment) -> float:
        """Drops twins until that saves ``excess`` in processes ``pids``. Returns what it saves; both in
        percent of one CPU."""
        saved = 0.0
        for percent, function in self._costliest(pids, BudgetStep.NONE, moment):
            if saved < excess and self._is_twin(function, moment):
                self.functions.take(function, BudgetStep.TWIN, moment)
                saved += percent
        return saved

    def _time_some(self, pids: set[int], excess: float, moment: BudgetMoment) -> float:
        """Times only some calls of functions; otherwise like ``_drop_twins``."""
        saved = 0.0
        for percent, function in self._costliest(pids, BudgetStep.NONE, moment):
            if saved < excess and self._is_timeable(function, moment):
                self.functions.take(function, BudgetStep.TIMED, moment)
                saved += percent * (1.0 - TIMED_SHARE)
        return saved

    def _sample(self, pids: set[int], excess: float, moment: BudgetMoment) -> float:
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
                self.functions.take(function, BudgetStep.SAMPLED, moment)
                saved += percent * (1.0 - SAMPLED_SHARE)
        return saved

    def _stop(self, pids: set[int], excess: float, moment: BudgetMoment) -> float:
        """Stops counting sampled functions; otherwise like ``_drop_twins``."""
        saved = 0.0
        for percent, function in self._costliest(pids, BudgetStep.SAMPLED, moment):
            if saved < excess:
                self.functions.take(function, BudgetStep.STOPPED, moment)
                saved += percent * SAMPLED_SHARE
        return saved

    def _costliest(
        self, pids: set[int], step: BudgetStep, moment: BudgetMoment
    ) -> list[tuple[float, HotFunction]]:
        """Returns the functions for which ``step`` is taken and that processes ``pids`` call, with their full
        cost in these processes (with ``TIMED``: the present cost) in percent of one CPU; the costliest come
        first."""
        found = []
        for function in moment.functions:
            if self.functions.step(function) is not step:
                continue
            known = self.functions.known.get(function)
            calls = calls_per_s(
                moment.rate(pid, function.symbol)
                if known is None or step is BudgetStep.TIMED
                else known.full.get(pid, NO_CALLS)
                for pid in pids & function.file.users
            )
            if step is BudgetStep.TIMED:
                calls *= TIMED_SHARE
            if calls:
                found.append((self._percent_of_rate * calls, function))
        return sorted(found, key=lambda item: -item[0])

    def _is_timeable(self, function: HotFunction, moment: BudgetMoment) -> bool:
        """Returns whether calls of ``function`` are outermost calls without traced calls inside, in every
        process."""
        nested = self.functions.nested_launches(moment.rates)
        return function.symbol in TIMEABLE and all(
            max(nested.get(pid, 0.0), moment.rate(pid, function.symbol).nested)
            <= self._allowed(pid, function, moment)
            for pid in function.file.users
            if moment.rate(pid, function.symbol).calls
        )

    def _is_twin(self, function: HotFunction, moment: BudgetMoment) -> bool:
        callers = [pid for pid in function.file.users if moment.rate(pid, function.symbol).calls]
        return all(
            moment.now - self._nested_since.get((pid, function.symbol), moment.now) >= NESTED_SECONDS
            for pid in callers
        )
