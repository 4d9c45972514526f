"""Tests that the use from which fixes compute limits stays the same while the present use varies."""

from __future__ import annotations

from stalltop.diagnosis.held import CLEARLY, FALLS_SECONDS, FAR_ABOVE, KEPT_SECONDS, SETTLES_SECONDS, HeldUses


def test_a_use_rises_only_at_first_or_far() -> None:
    held = HeldUses()
    assert held.hold("encoder", 5.0, 0.0) == 5.0
    assert held.hold("encoder", 14.0, SETTLES_SECONDS) == 14.0, "at first it follows the use"
    later = SETTLES_SECONDS + 1.0
    assert held.hold("encoder", 14.0 * FAR_ABOVE - 0.1, later) == 14.0
    assert held.hold("encoder", 14.0 * FAR_ABOVE, later) == 14.0 * FAR_ABOVE
    assert held.hold("backup", 9.0, later) == 9.0


def test_a_use_falls_only_if_the_present_one_stays_low() -> None:
    held = HeldUses()
    assert held.hold("backup", 9.0, 0.0) == 9.0
    assert held.hold("backup", 9.0 / CLEARLY + 0.1, FALLS_SECONDS) == 9.0
    assert held.hold("backup", 1.0, 2 * FALLS_SECONDS) == 9.0, "it may be ending"
    assert held.hold("backup", 8.5, 2.5 * FALLS_SECONDS) == 9.0
    assert held.hold("backup", 1.0, 3 * FALLS_SECONDS) == 9.0
    assert held.hold("backup", 2.0, 4 * FALLS_SECONDS) == 2.0


def test_a_use_of_long_ago_is_forgotten() -> None:
    held = HeldUses()
    held.hold("encoder", 14.0, 0.0)
    assert held.hold("encoder", 13.0, KEPT_SECONDS) == 14.0
    assert held.hold("encoder", 13.0, 3 * KEPT_SECONDS) == 13.0
    held.forget(5 * KEPT_SECONDS)
    assert held.hold("encoder", 14.0, 5 * KEPT_SECONDS) == 14.0
