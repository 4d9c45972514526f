"""Tests that helper processes are known while they run."""

from __future__ import annotations

from stalltop.probes import helpers
from stalltop.probes.confined.link import Confined


def test_a_helper_is_known_until_it_has_ended() -> None:
    before = set(helpers.running())
    confined = Confined()
    confined.begin()
    assert len(set(helpers.running()) - before) == 1
    confined.close()
    assert set(helpers.running()) == before
