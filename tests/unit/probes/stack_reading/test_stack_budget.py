"""Tests that stacks stay within their budget."""

from __future__ import annotations

import pytest

from stalltop.probes.stack_reading.stack_budget import (
    BUDGET,
    CALL_COST_NS,
    CALLS_BUDGET,
    COARSEST_NS,
    MOST_STACKS,
    SAMPLE_COST_NS,
    StackBudget,
)
from stalltop.probes.stacks.layout import SAMPLE_NS


def cost_ns(frames: int, cost: tuple[int, int]) -> int:
    return cost[0] + frames * cost[1]


class BudgetOnTrial:
    """A budget, the limits that it chose, and its clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.stacks: list[int] = []
        self.sampled: list[int] = []
        self.budget = StackBudget(self.stacks.append, self.sampled.append, lambda: self.now)

    def second(self, calls: list[int], samples: list[int]) -> None:
        """Lets a second pass in which stacks with these numbers of frames were read."""
        self.now += 1.0
        self.budget.calls_read(calls)
        self.budget.samples_read(samples)
        self.budget.keep()


def test_it_begins_without_limits() -> None:
    one = BudgetOnTrial()
    assert (one.stacks, one.sampled) == ([MOST_STACKS], [SAMPLE_NS])
    one.now += 0.5
    one.budget.calls_read([64] * 1_000)
    one.budget.keep()
    assert (one.stacks, one.sampled) == ([MOST_STACKS], [SAMPLE_NS]), "a second is not over"


@pytest.mark.parametrize(
    ("frames", "most"),
    [(10, MOST_STACKS), (64, int(CALLS_BUDGET * 1e9 / cost_ns(64, CALL_COST_NS)))],
    ids=("flat", "deep"),
)
def test_deep_stacks_of_calls_are_fewer(frames: int, most: int) -> None:
    one = BudgetOnTrial()
    one.second([frames] * MOST_STACKS, [])
    assert one.stacks[-1] == most
    assert most * cost_ns(frames, CALL_COST_NS) <= CALLS_BUDGET * 1e9


def test_samples_have_what_calls_leave() -> None:
    samples = [10] * int(4 * BUDGET * 1e9 / cost_ns(10, SAMPLE_COST_NS))
    alone, beside = BudgetOnTrial(), BudgetOnTrial()
    alone.second([], samples)
    assert alone.sampled[-1] == pytest.approx(4 * SAMPLE_NS, rel=0.01)
    beside.second([64] * MOST_STACKS, samples)
    assert beside.sampled[-1] == pytest.approx(8 * SAMPLE_NS, rel=0.01), "calls take half of the budget"
    alone.second([], samples[: len(samples) // 4])
    assert alone.sampled[-1] == pytest.approx(4 * SAMPLE_NS, rel=0.01), "just right"
    alone.second([], [])
    assert alone.sampled[-1] == SAMPLE_NS
    alone.second([], samples * 1_000)
    assert alone.sampled[-1] == COARSEST_NS
