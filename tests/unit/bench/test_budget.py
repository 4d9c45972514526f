"""Tests from which second on `bench budget` reports the budget as kept."""

from __future__ import annotations

import pytest

from bench.tracing.budget import held_after


@pytest.mark.parametrize(
    ("costs", "held"),
    [
        ([1.0, 1.0, 1.0, 1.0], 0),
        ([4.0, 4.0, 4.0, 1.0, 1.0, 1.0], 3),
        ([4.0, 4.0, 1.0, 1.0, 4.0, 4.0, 1.0, 1.0, 1.0], 6),
        ([4.0, 4.0, 1.0, 1.0, 1.0, 4.0, 1.0, 1.0], 2),
        ([4.0, 1.0, 4.0, 1.0, 4.0, 4.0], None),
        ([4.0, 4.0, 4.0], None),
    ],
    ids=["always", "from a second on", "not when it rises again", "despite one bad second", "never", "above"],
)
def test_the_budget_is_kept_from_when_the_cost_stays_within_it(costs: list[float], held: int | None) -> None:
    assert held_after(costs, 2.0) == held
