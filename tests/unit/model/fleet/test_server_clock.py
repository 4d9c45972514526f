"""Tests that the server's clock is known, whatever is delivered again."""

from __future__ import annotations

from stalltop.model.fleet.fleet_state import FleetState
from stalltop.model.fleet.server_clock import ServerClock
from tests.unit.model.fleet.summaries import NOW, at, summary


def test_the_quickest_message_tells_the_difference() -> None:
    clock = ServerClock()
    for number, delay in enumerate((0.4, 0.01, 0.9)):
        clock.take(NOW + 100 + number, NOW + number + delay)
    assert clock.now(NOW) == NOW + 99.99


def test_a_message_that_is_delivered_again_says_nothing() -> None:
    clock = ServerClock()
    clock.take(NOW, NOW)
    assert clock.now(NOW) == NOW
    for late in (5.0, 9.0, 13.0):
        clock.take(NOW, NOW + late)
        clock.take(NOW - 1, NOW + late)
        assert clock.now(NOW + late) == NOW + late


def test_a_clock_that_is_set_is_followed() -> None:
    clock = ServerClock()
    clock.take(NOW, NOW)
    clock.now(NOW)
    for step in (3600.0, -3600.0):
        clock.take(NOW + step + 1, NOW + 1)
        assert clock.now(NOW + 1) == NOW + step + 1


def test_hosts_are_live_after_the_clock_of_the_server_was_set_back() -> None:
    state = FleetState()
    state.take(at("n1"), summary(), NOW)
    state.take(at("n1"), summary(), NOW - 3600)
    (host,) = state.view(NOW - 3600).hosts
    assert (host.state, host.at) == ("live", NOW - 3600)
