"""Keeps the cost of probes within the budget: watches what they cost, and removes or attaches probes of hot
functions as the planner decides."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from stalltop.model.window import Library, Missing, Reduction
from stalltop.probes.budget.demand import OTHERS, SYMBOL_OF, Demand, calls_by_process
from stalltop.probes.budget.limits import Budget
from stalltop.probes.budget.planner import Planner
from stalltop.probes.budget.reduced import TIMED_SHARE, HotFunction
from stalltop.probes.budget.steps import CYCLE_SECONDS, SAMPLED_SECONDS, BudgetStep
from stalltop.probes.layout import TIMED_IN, Timing
from stalltop.probes.maps.slots import Counts
from stalltop.probes.tracer.attach import Attachment, Point

_SHARE: Final = {
    BudgetStep.TWIN: 0.0,
    BudgetStep.TIMED: 1.0,
    BudgetStep.SAMPLED: SAMPLED_SECONDS / CYCLE_SECONDS,
    BudgetStep.STOPPED: 0.0,
}
"""By step: the part of the time for which calls are counted."""
QUIET_WINDOWS: Final = 5
"""While nothing is near a limit, one of this many windows is looked at, to learn which calls are nested."""

Attach = Callable[[str, Sequence[Point]], Attachment]


class HotFunctions(Protocol):
    """The part of ``Libraries.hot`` that this module uses."""

    def functions(self) -> list[HotFunction]:
        """Returns all hot functions of the files that are probed."""
        ...

    def attach(self, functions: Iterable[HotFunction]) -> None:
        """Puts the probes of ``functions`` in place again."""
        ...

    def detach(self, functions: Iterable[HotFunction]) -> None:
        """Removes the probes of ``functions``."""
        ...

    def exchange(
        self, functions: Iterable[HotFunction], attach: Attach | None = None
    ) -> Collection[HotFunction]:
        """Replaces the probes of ``functions`` by those of ``attach``; None: by the usual ones. Returns the
        functions for which that worked."""
        ...

    def cookies(self, functions: Iterable[HotFunction]) -> set[int]:
        """Returns the attach cookies of ``functions``."""
        ...


class Sessions(Protocol):
    """The part of ``KernelSide`` that this module uses."""

    @property
    def sessions(self) -> bool:
        """Returns whether the Linux kernel has sessions of uprobes (6.13 and later)."""
        ...

    def attach_sessions(self, path: str, points: Sequence[Point]) -> Attachment:
        """Probes functions so that only some of their calls are timed."""
        ...

    def tell_timing(self, cookies: Collection[int], timing: Timing) -> None:
        """Sets how calls of functions are counted by sessions."""
        ...


class BudgetKeeper:
    """``take`` is called by the thread that reads windows, ``apply`` by the one that looks for libraries."""

    def __init__(
        self,
        budget: Budget,
        probe_ns: float,
        libraries: HotFunctions,
        kernel: Sessions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget = budget
        self._libraries = libraries
        self._kernel = kernel
        self._planner = Planner(budget, probe_ns, sessions=kernel.sessions)
        self._demand = Demand()
        self._clock = clock
        self._lock = threading.Lock()
        self._covered = 0.0
        self._passed_over = 0
        self._detached: set[HotFunction] = set()
        self._timed: set[HotFunction] = set()
        """Functions that have sessions."""
        self._timing = Timing.SOME
        """How their calls are counted."""

    def take(self, counts: Counts, extra: Mapping[int, float], seconds: float) -> None:
        """Takes the counts of a window of ``seconds`` into account, and what ``pauses.extra_calls`` returned
        for it."""
        with self._lock:
            quiet = self._planner.is_quiet(calls_by_process(counts, extra), seconds)
        self._passed_over = self._passed_over + 1 if quiet else QUIET_WINDOWS
        if self._passed_over < QUIET_WINDOWS:
            # Nothing has to be decided, which is so on most hosts at most times.
            self._demand.forget()
            self._covered = 0.0
            return
        self._passed_over = 0
        self._covered += seconds
        rates = self._demand.add(counts, extra, seconds)
        if rates is None:
            return
        functions = self._libraries.functions()
        with self._lock:
            self._planner.observe(self._clock(), rates, self._covered, functions)
        self._covered = 0.0

    def saved_calls(self, counts: Counts) -> float:
        """Returns how many calls would cost as much as is saved because few calls of some functions are
        timed."""
        with self._lock:
            if not self._timed:
                return 0.0
            timed = self._planner.functions.symbols(timed=True)
        untimed: int = sum(
            calls
            for key, calls in zip(counts.keys, counts.calls.tolist(), strict=True)
            if SYMBOL_OF.get(key.operation, OTHERS) in timed[key.tgid]
        )
        return (1.0 - TIMED_SHARE) * untimed

    def apply(self) -> None:
        """Attaches and removes probes as far as that is due. Takes about 0.1 s if probes are removed."""
        now = self._clock()
        with self._lock:
            wanted = {
                function: self._planner.functions.wanted(function, now)
                for function in {*self._planner.functions.reduced(), *self._detached}
            }
            timed = {*self._planner.functions.timed()}
        if not (wanted or timed or self._timed) and self._timing is Timing.SOME:
            return  # All probes are in place, as on most hosts.
        # Probes of outer functions (cuda…) are attached before those of inner ones (cu…), and removed after
        # them, so that nested calls are seen as nested.
        ordered = sorted(wanted, key=lambda function: function.symbol)
        removed = [one for one in ordered if not wanted[one] and one not in self._detached]
        added = [one for one in reversed(ordered) if wanted[one] and one in self._detached]
        # Inside calls that are not timed, nested calls are not seen as nested. So all calls are timed while
        # nested functions have probes for a time.
        counted = any(wanted[one] for one in wanted if one not in timed)
        if counted:
            self._time(Timing.ALL)
        self._exchange(self._timed - timed, None)
        self._libraries.detach(removed)
        self._libraries.attach(added)
        self._exchange(timed - self._timed, self._kernel.attach_sessions)
        if not counted:
            self._time(Timing.SOME)
        self._detached.update(removed)
        self._detached.difference_update(added)
        with self._lock:
            for function in (*removed, *added):
                self._planner.functions.applied(function, attached=wanted[function], now=self._clock())

    def _time(self, timing: Timing) -> None:
        if timing is not self._timing:
            self._timing = timing
            self._kernel.tell_timing(self._libraries.cookies(self._timed), timing)

    def _exchange(self, functions: set[HotFunction], attach: Attach | None) -> None:
        """Gives ``functions`` sessions, or takes them away. While they have both kinds of probes, each of
        their calls is counted by one of them."""
        if not functions:
            return
        cookies = self._libraries.cookies(functions)
        self._kernel.tell_timing(cookies, Timing.BOTH)
        done = self._libraries.exchange(functions, attach)
        if attach is None:
            self._timed -= functions
        else:
            self._timed.update(done)
            if any(function.file.users for function in functions.difference(done)):
                with self._lock:
                    self._planner.give_up_timing()
        self._kernel.tell_timing(cookies, self._timing)

    def told(self, libraries: Iterable[Library]) -> tuple[Library, ...]:
        """Returns ``libraries`` with the functions that are not traced all of the time."""
        with self._lock:
            functions = self._planner.functions
            steps = {function: functions.step(function) for function in functions.reduced()}
        if not steps:
            return tuple(libraries)
        found: dict[tuple[str, str], list[Reduction]] = {}
        for function, step in sorted(steps.items(), key=lambda item: item[0].symbol):
            layer = "runtime" if function.symbol.startswith("cuda") else "driver"
            found.setdefault((function.file.path, layer), []).append(
                Reduction(
                    function.symbol,
                    _SHARE[step],
                    nested=step is BudgetStep.TWIN,
                    timed_in=TIMED_IN if step is BudgetStep.TIMED else 1,
                )
            )
        return tuple(
            replace(library, reduced=tuple(found.get((library.path, library.layer), ())))
            for library in libraries
        )

    def complaints(self, named: Callable[[int], str]) -> tuple[Missing, ...]:
        """Returns a note about each process that stays above its limit. ``named`` returns the name of a
        process for display."""
        with self._lock:
            over = dict(self._planner.over)
        return tuple(
            Missing(
                f"probes in {named(pid)}" if pid else "probes on the whole host",
                f"they take {_percent(percent)} of a CPU, the budget is {_percent(self._limit(pid))}",
                "start stalltop with --budget and a higher limit"
                + ("" if self._budget.sample else ", or with --sample: then not every call is counted"),
                cost=True,
            )
            for pid, percent in sorted(over.items())
        )

    def _limit(self, pid: int) -> float:
        return self._budget.process_percent if pid else self._budget.host_percent


def _percent(value: float) -> str:
    return f"{value:.{0 if value >= 10.0 else 1}f} %".replace(".0 %", " %")
