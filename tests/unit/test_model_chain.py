"""The order of chains: one for the screen, for what is printed, and for who judges."""

from __future__ import annotations

import random

import pytest

from model.chain import Chain, Severity, loss_step, worst_first


def chain(
    name: str, lost: float, *, severity: Severity = "high", since: float = 10.0, ended: float = 0.0
) -> Chain:
    return Chain(
        name, name, name, severity, "", "", 0, "", "", "", lost, 1.0, (), (),
        since=since, seen=ended or 20.0, open=not ended,
    )  # fmt: skip


def test_the_order_of_chains() -> None:
    expected = [
        chain("worst", 0.0, severity="critical"),
        chain("costs most", 900.0, since=5.0),
        chain("newest", 110.0, since=12.0),
        chain("a", 250.0),
        chain("b", 250.0),
        chain("small", 20.0, since=19.0),
        chain("mild", 900.0, severity="low"),
        chain("just over", 1.0, severity="low", ended=18.0),
        chain("long over", 900.0, severity="critical", ended=9.0),
    ]
    mixed = expected.copy()
    random.Random(3).shuffle(mixed)
    assert [found.id for found in sorted(mixed, key=worst_first)] == [found.id for found in expected]


@pytest.mark.parametrize(
    ("lost", "step"),
    [
        (0.0, 0),
        (0.9, 0),
        (1.0, 1),
        (3.1, 1),
        (3.2, 2),
        (10.0, 3),
        (999.0, 6),
        (float("inf"), 0),
        (float("nan"), 0),
    ],
)
def test_steps_of_loss(lost: float, step: int) -> None:
    assert loss_step(lost) == step
