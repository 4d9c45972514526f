"""Tests that the clock of a host is estimated from the times of its messages, within the stated error."""

from __future__ import annotations

from random import Random

import pytest

from stalltop.model.fleet.host_clock import LEAST_MESSAGES, HostClock
from tests.unit.model.fleet.summaries import NOW


def heard(ahead: float, seconds: int, *, seed: int = 1, drift: float = 0.0) -> HostClock:
    """Returns a clock after ``seconds`` messages, which were on their way for 0.1 ms and up to 30 ms more."""
    random, clock = Random(seed), HostClock()
    for second in range(seconds):
        due = NOW + second
        way = 1e-4 + random.random() ** 4 * 0.03
        clock.take(due + ahead + drift * second, due + way, 4e-4 + random.random() * 0.01)
    return clock


@pytest.mark.parametrize("ahead", [-3600.0, -0.03, 0.0, 0.002, 1.5])
@pytest.mark.parametrize("seed", range(5))
def test_the_offset_is_within_the_stated_error(ahead: float, seed: int) -> None:
    offset = heard(ahead, 20, seed=seed).offset
    assert offset is not None
    assert abs(offset.ahead - ahead) <= offset.error <= 0.003


def test_a_few_messages_are_not_enough() -> None:
    assert heard(0.5, LEAST_MESSAGES - 1).offset is None
    assert heard(0.5, LEAST_MESSAGES).offset is not None


@pytest.mark.parametrize("step", [-3600.0, -1.0, 1.0, 3600.0])
def test_a_clock_that_was_set_is_estimated_anew(step: float) -> None:
    clock = heard(0.5, 20)
    told = list[bool]()
    for second in range(20, 20 + LEAST_MESSAGES):
        assert not told or clock.offset is None  # nothing is said while it is not known which clock it is
        told.append(clock.take(NOW + second + 0.5 + step, NOW + second, 1e-3))
    assert told.count(True) == 1
    assert clock.offset is not None
    assert clock.offset.ahead == pytest.approx(0.5 + step, abs=1e-3)


def test_a_message_that_comes_late_never_makes_a_wrong_estimate() -> None:
    clock = heard(0.5, 20)
    assert not clock.take(NOW + 20.5, NOW + 25, 1e-3)  # on its way for 5 s
    assert clock.offset is None
    assert not clock.take(NOW + 26.5, NOW + 26, 1e-3)
    assert clock.offset is not None
    assert clock.offset.ahead == pytest.approx(0.5, abs=1e-3)


def test_a_clock_that_drifts_is_followed() -> None:
    offset = heard(0.0, 600, drift=5e-5).offset
    assert offset is not None
    assert offset.ahead == pytest.approx(599 * 5e-5, abs=2e-3)
