"""Which probes are reduced, when, and when everything is traced again."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest

from stalltop.probes.budget.demand import Rate
from stalltop.probes.budget.limits import Budget, percent_of
from stalltop.probes.budget.planner import Planner
from stalltop.probes.budget.reduced import HotFunction
from stalltop.probes.budget.steps import BudgetStep

PROBE_NS = 1_000.0


@dataclass(eq=False)
class File:
    path: str
    users: set[int]


@dataclass
class Run:
    """A clock, the planner, and programs that call functions at fixed rates."""

    budget: Budget
    sessions: bool = False
    now: float = 1_000.0
    runtime: File = field(default_factory=lambda: File("/usr/lib/libcudart.so", {7}))
    driver: File = field(default_factory=lambda: File("/usr/lib/libcuda.so", {7}))

    def __post_init__(self) -> None:
        self.planner = Planner(self.budget, PROBE_NS, sessions=self.sessions)
        self.outer = HotFunction(self.runtime, "cudaLaunchKernel")
        self.twin = HotFunction(self.driver, "cuLaunchKernel")
        self.rates: dict[int, dict[str, Rate]] = {}
        self.attached = {self.outer: True, self.twin: True}

    def launches(self, per_s: float, *, pid: int = 7, direct: float = 0.0) -> None:
        """From now on, process ``pid`` makes ``per_s`` launches through the runtime, and ``direct`` ones."""
        self.rates[pid] = {
            "cudaLaunchKernel": Rate(per_s, 0.0),
            "cuLaunchKernel": Rate(direct, per_s),
        }

    def seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1.0
            for function in (self.outer, self.twin):
                wanted = self.planner.functions.wanted(function, self.now)
                if wanted != self.attached[function]:
                    self.attached[function] = wanted
                    self.planner.functions.applied(function, attached=wanted, now=self.now)
            counted = self.counted()
            calls = {pid: int(sum(rate.calls for rate in rates.values())) for pid, rates in counted.items()}
            if not self.planner.is_quiet(calls, 1.0) or not self.now % 5.0:
                self.planner.observe(self.now, counted, 1.0, (self.outer, self.twin))

    def counted(self) -> dict[int, dict[str, Rate]]:
        """Calls per second that the probes see."""
        outer, inner = self.attached[self.outer], self.attached[self.twin]
        seen: dict[int, dict[str, Rate]] = {}
        for pid, rates in self.rates.items():
            found = seen.setdefault(pid, {})
            if outer:
                found["cudaLaunchKernel"] = rates["cudaLaunchKernel"]
            if inner:
                direct, nested = rates["cuLaunchKernel"]
                found["cuLaunchKernel"] = Rate(direct, nested) if outer else Rate(direct + nested, 0.0)
        return seen

    @property
    def steps(self) -> tuple[BudgetStep, BudgetStep]:
        return self.planner.functions.step(self.outer), self.planner.functions.step(self.twin)


def run(percent: float = 2.0, *, host: float = 100.0, sample: bool = False, sessions: bool = False) -> Run:
    return Run(Budget(percent, host, sample), sessions)


def test_below_the_limit_everything_is_traced() -> None:
    one = run()
    one.launches(9_900)  # 1.98 % with the nested calls
    one.seconds(120)
    assert one.steps == (BudgetStep.NONE, BudgetStep.NONE)


def test_nested_calls_go_first_and_only_after_half_a_minute_of_nesting() -> None:
    one = run()
    one.launches(15_000)
    one.seconds(30)
    assert one.steps == (BudgetStep.NONE, BudgetStep.NONE)
    one.seconds(2)
    assert one.steps == (BudgetStep.NONE, BudgetStep.TWIN)
    assert not one.planner.over  # 1.5 %
    one.seconds(200)
    assert one.steps == (BudgetStep.NONE, BudgetStep.TWIN)


def test_a_process_that_has_long_been_nested_is_reduced_three_seconds_after_it_exceeds_the_limit() -> None:
    one = run()
    one.launches(4_000)
    one.seconds(40)
    one.launches(15_000)
    one.seconds(3)
    assert one.steps == (BudgetStep.NONE, BudgetStep.NONE)
    one.seconds(1)
    assert one.steps == (BudgetStep.NONE, BudgetStep.TWIN)


def test_functions_that_are_called_directly_stay_traced() -> None:
    one = run()
    one.launches(15_000, direct=400)  # 2.6 % of the driver's calls
    one.seconds(60)
    assert one.steps == (BudgetStep.NONE, BudgetStep.NONE)
    assert one.planner.over[7] == pytest.approx(3.04)


def test_one_process_that_calls_directly_keeps_the_function_for_all() -> None:
    one = run()
    one.driver.users.add(8)
    one.launches(15_000)
    one.launches(0, pid=8, direct=5)
    one.seconds(60)
    assert one.steps == (BudgetStep.NONE, BudgetStep.NONE)


def test_without_leave_to_sample_a_process_above_its_limit_is_named() -> None:
    one = run()
    one.launches(100_000)
    one.seconds(60)
    assert one.steps == (BudgetStep.NONE, BudgetStep.TWIN)
    assert one.planner.over == {7: pytest.approx(10.0)}


def test_with_leave_functions_are_sampled_for_one_second_in_ten() -> None:
    one = run(sample=True)
    one.launches(4_000)
    one.seconds(40)
    one.launches(50_000)
    one.seconds(4)
    assert one.steps == (BudgetStep.SAMPLED, BudgetStep.TWIN)
    assert not one.planner.over
    on = 0
    for _ in range(100):
        one.seconds(1)
        on += one.attached[one.outer]
    assert on == 10
    assert one.steps == (BudgetStep.SAMPLED, BudgetStep.TWIN)


def test_far_above_the_limit_functions_are_not_counted_at_all() -> None:
    one = run(sample=True)
    one.launches(4_000)
    one.seconds(40)
    one.launches(1_000_000)
    one.seconds(6)
    assert one.steps == (BudgetStep.STOPPED, BudgetStep.TWIN)
    assert not one.planner.over


def test_direct_calls_are_timed_1_in_8_where_the_kernel_has_sessions() -> None:
    one = run(sessions=True)
    one.launches(0, direct=25_000)
    one.seconds(3)
    assert one.steps == (BudgetStep.NONE, BudgetStep.NONE)
    one.seconds(1)
    assert one.steps == (BudgetStep.NONE, BudgetStep.TIMED)
    assert not one.planner.over  # 1.7 %
    assert one.planner.functions.symbols(timed=True) == {7: {"cuLaunchKernel"}}
    assert one.attached[one.twin]
    one.launches(0, direct=50_000)
    one.seconds(60)
    assert one.steps == (BudgetStep.NONE, BudgetStep.TIMED)
    assert one.planner.over == {7: pytest.approx(3.4)}
    one.launches(0, direct=9_000)
    one.seconds(61)
    assert one.steps == (BudgetStep.NONE, BudgetStep.NONE)


def test_outer_calls_are_all_timed_while_nested_calls_have_probes() -> None:
    one = run(sessions=True)
    one.launches(25_000)
    one.seconds(30)
    assert one.steps == (BudgetStep.NONE, BudgetStep.NONE)
    one.seconds(2)
    assert one.steps == (BudgetStep.TIMED, BudgetStep.TWIN)
    assert not one.planner.over
    one.seconds(400)  # with a look at the nested calls
    assert one.steps == (BudgetStep.TIMED, BudgetStep.TWIN)
    one.launches(4_000)
    released = []
    for _ in range(70):
        one.seconds(1)
        released.append(one.steps)
    assert released[-1] == (BudgetStep.NONE, BudgetStep.NONE)
    assert (BudgetStep.NONE, BudgetStep.TWIN) in released
    assert (BudgetStep.TIMED, BudgetStep.NONE) not in released


def test_functions_that_begin_to_make_traced_calls_are_timed_fully_again() -> None:
    one = run(sessions=True)
    one.driver.users.clear()
    one.launches(25_000)
    one.rates[7]["cuLaunchKernel"] = Rate(0.0, 0.0)
    one.seconds(5)
    assert one.steps == (BudgetStep.TIMED, BudgetStep.NONE)
    one.rates[7]["cuLaunchKernel"] = Rate(0.0, 100.0)  # seen in the timed calls
    one.seconds(1)
    assert one.steps == (BudgetStep.NONE, BudgetStep.NONE)


def test_with_leave_functions_whose_calls_cost_too_much_when_1_in_8_is_timed_are_sampled() -> None:
    one = run(sample=True, sessions=True)
    one.launches(0, direct=25_000)
    one.seconds(4)
    assert one.steps == (BudgetStep.NONE, BudgetStep.TIMED)
    one.launches(0, direct=50_000)
    one.seconds(4)
    assert one.steps == (BudgetStep.NONE, BudgetStep.SAMPLED)
    assert not one.planner.over


def test_a_step_that_the_kernel_refuses_is_not_taken_again() -> None:
    one = run(sessions=True)
    one.launches(0, direct=25_000)
    one.seconds(4)
    one.planner.give_up_timing()
    one.seconds(10)
    assert one.steps == (BudgetStep.NONE, BudgetStep.NONE)


def test_everything_is_traced_again_a_minute_after_the_process_calmed_down() -> None:
    one = run()
    one.launches(15_000)
    one.seconds(60)
    assert one.steps == (BudgetStep.NONE, BudgetStep.TWIN)
    one.launches(4_000)  # 0.8 % if everything were traced
    one.seconds(60)
    assert one.steps == (BudgetStep.NONE, BudgetStep.TWIN)
    one.seconds(2)
    assert one.steps == (BudgetStep.NONE, BudgetStep.NONE)


def test_a_stopped_process_that_calms_down_is_found_by_a_look() -> None:
    one = run(sample=True)
    one.launches(4_000)
    one.seconds(40)
    one.launches(1_000_000)
    one.seconds(30)
    one.launches(1_000)
    one.seconds(250)
    assert one.steps == (BudgetStep.STOPPED, BudgetStep.TWIN)
    one.seconds(140)
    assert one.steps == (BudgetStep.NONE, BudgetStep.NONE)


def test_a_look_finds_calls_that_are_no_longer_nested() -> None:
    one = run()
    one.launches(15_000)
    one.seconds(60)
    assert one.steps == (BudgetStep.NONE, BudgetStep.TWIN)
    one.launches(10_000, direct=5_000)
    looks = []
    for _ in range(320):
        one.seconds(1)
        looks.append(one.attached[one.twin])
    assert one.steps == (BudgetStep.NONE, BudgetStep.NONE)
    assert looks.index(True) > 200


def test_a_new_process_is_looked_at_soon() -> None:
    one = run()
    one.launches(15_000)
    one.seconds(60)
    one.driver.users.add(8)
    one.launches(0, pid=8, direct=500)
    one.seconds(20)
    assert one.steps == (BudgetStep.NONE, BudgetStep.NONE)


def test_the_limit_of_the_host_holds_for_many_small_processes() -> None:
    one = run(host=4.0)
    for pid in range(10, 20):
        one.driver.users.add(pid)
        one.runtime.users.add(pid)
        one.launches(2_500, pid=pid)  # 0.5 % each, 5 % together
    one.seconds(40)
    assert one.steps == (BudgetStep.NONE, BudgetStep.TWIN)
    assert not one.planner.over


def test_a_process_that_ends_takes_its_steps_with_it() -> None:
    one = run()
    one.launches(15_000)
    one.seconds(60)
    one.runtime.users.clear()
    one.driver.users.clear()
    one.rates.clear()
    one.seconds(1)
    assert one.steps == (BudgetStep.NONE, BudgetStep.NONE)


@pytest.mark.parametrize(("text", "percent"), [("2%", 2.0), ("0.5", 0.5), ("off", None)])
def test_texts_of_limits(text: str, percent: float | None) -> None:
    assert percent_of(text) == percent


@pytest.mark.parametrize("text", ["", "0", "-1%", "101", "nan", "2 %%", "much"])
def test_texts_that_are_no_limits(text: str) -> None:
    with pytest.raises(ValueError, match=r"could not convert|^" + re.escape(text)):
        percent_of(text)


@pytest.mark.parametrize(("cpus", "percent"), [(64, 32.0), (2, 4.0)])
def test_the_default_budget_of_a_host_follows_its_cpus(
    cpus: int, percent: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cpus)
    budget = Budget.of_host()
    assert (budget.process_percent, budget.host_percent) == (2.0, percent)
