"""Tests that the limits of fixes stay the same while the use that they are computed from varies."""

from __future__ import annotations

from stalltop.diagnosis.held import CLEARLY, FAR_ABOVE, KEPT_SECONDS, SETTLES_SECONDS, HeldLimits


def test_a_limit_changes_only_if_the_use_clearly_does() -> None:
    held = HeldLimits()
    assert held.hold("encoder", 5.0, 0.0) == 5.0
    assert held.hold("encoder", 14.0, SETTLES_SECONDS) == 14.0, "at first it follows the use"
    later = SETTLES_SECONDS + 1.0
    assert held.hold("encoder", 14.0 / CLEARLY + 0.1, later) == 14.0
    assert held.hold("encoder", 14.0 * FAR_ABOVE - 0.1, later) == 14.0
    assert held.hold("encoder", 14.0 / CLEARLY - 0.1, later) == 14.0 / CLEARLY - 0.1
    assert held.hold("encoder", 14.0 * FAR_ABOVE, later) == 14.0 * FAR_ABOVE
    assert held.hold("backup", 9.0, later) == 9.0


def test_a_limit_of_long_ago_is_forgotten() -> None:
    held = HeldLimits()
    held.hold("encoder", 14.0, 0.0)
    assert held.hold("encoder", 13.0, KEPT_SECONDS) == 14.0
    assert held.hold("encoder", 13.0, 3 * KEPT_SECONDS) == 13.0
    held.forget(5 * KEPT_SECONDS)
    assert held.hold("encoder", 14.0, 5 * KEPT_SECONDS) == 14.0
