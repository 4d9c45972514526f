"""Tests the order of chains on the screen, in printed text and for the fault benchmark."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from stalltop.diagnosis.causes import CAUSES
from stalltop.model.chain import ESTIMATED, Chain, Fix, Link, Severity, loss_step, uncontradicted, worst_first
from stalltop.model.row_key import RowKey


def chain(
    name: str, lost: float, *, severity: Severity = "high", since: float = 10.0, ended: float = 0.0
) -> Chain:
    return Chain(
        name, name, name, severity, "", "", 0, "", "", "", lost, 1.0, (), (),
        since=since, seen=ended or 20.0, open=not ended,
    )  # fmt: skip


def test_chains_are_ordered_by_severity_and_loss() -> None:
    expected = [
        chain("worst", 0.0, severity="critical"),
        chain("costs most", 900.0, since=5.0),
        chain("a", 250.0),
        chain("b", 190.0),
        chain("newest", 270.0, since=12.0),
        chain("small", 20.0, since=19.0),
        chain("mild", 900.0, severity="low"),
        chain("just over", 1.0, severity="low", ended=18.0),
        chain("long over", 900.0, severity="critical", ended=9.0),
    ]
    mixed = expected.copy()
    random.Random(3).shuffle(mixed)
    assert [found.id for found in sorted(mixed, key=worst_first)] == [found.id for found in expected]


def test_a_culprit_of_several_losses_is_named_once_with_their_sum() -> None:
    def blamed(pid: int, share: float) -> Link:
        return Link("culprit", f"{pid}", share=share, ns_per_s=1000 * share, pid=pid, depth=2)

    ways = (blamed(1, 0.4), blamed(2, 0.1), Link("mechanism", "waits"), blamed(2, 0.5))
    culprits = replace(chain("a", 1.0), links=ways).culprits
    assert [(link.pid, link.share, link.ns_per_s) for link in culprits] == [
        (1, 0.4, 400),  # first, because the summary names this culprit
        (2, pytest.approx(0.6), pytest.approx(600)),
    ]


def test_a_tenant_with_a_fault_is_not_called_healthy() -> None:
    bound = replace(chain("gpu_bound", 800.0, severity="info"), tenant="docker:aa")
    other = replace(bound, id="other", tenant="docker:bb")
    own = replace(chain("gil", 80.0), tenant="docker:aa")
    row = RowKey("gpu7", "docker:aa", 100, "python3", "runtime", "cudaLaunchKernel")
    device = replace(chain("gpu_thermal", 80.0), rows=(row,))
    for fault in (own, device):
        assert uncontradicted((fault, bound, other)) == (fault, other)
    assert uncontradicted((replace(own, open=False), bound)) == (replace(own, open=False), bound)


def test_the_command_to_type_changes_something_if_any_does() -> None:
    look, act, hand = Fix("look", "top", look=True), Fix("act", "taskset"), Fix("by hand")
    for fixes, remedy in (((hand, look, act), act), ((hand, look), look), ((hand,), None), ((), None)):
        assert replace(chain("a", 1.0), fixes=fixes).remedy == remedy


def test_causes_with_an_estimated_loss_exist() -> None:
    assert set(CAUSES) >= ESTIMATED


@pytest.mark.parametrize(
    ("lost", "step"),
    [
        (0.0, 0),
        (0.9, 0),
        (1.0, 1),
        (1.7, 1),
        (1.8, 2),
        (10.0, 5),
        (999.0, 12),
        (float("inf"), 0),
        (float("nan"), 0),
    ],
)
def test_loss_steps_are_quarters_of_a_decade(lost: float, step: int) -> None:
    assert loss_step(lost) == step
