"""Tests which CPUs have room for a process whose affinity excludes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.diagnosis.evidence.processors import idle_elsewhere
from stalltop.diagnosis.facts import Facts
from tests.unit.diagnosis.faults import cpu_pinning


@pytest.mark.parametrize(
    ("busy", "idle"),
    [
        ((5, 8, 100, 12), {0, 1, 3}),
        ((5, 60, 70, 46), {0}),  # CPUs 1 and 3 are not clearly less busy than CPU 2
        ((80, 90, 100, 70), set()),
        ((0, 0, 40, 0), set()),  # CPU 2 is not busy enough: there are only short waits for it
    ],
)
def test_cpus_have_room_if_they_are_clearly_less_busy(busy: tuple[float, ...], idle: set[int]) -> None:
    """The process may run only on CPU 2. ``idle`` are the CPUs that have room for it."""
    pinned = cpu_pinning()
    assert pinned.system is not None
    facts = Facts(replace(pinned, system=replace(pinned.system, cpu_each_percent=busy)))
    assert idle_elsewhere(facts, 100) == idle
