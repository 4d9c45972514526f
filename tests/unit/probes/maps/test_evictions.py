"""Tests how the number of evicted elements is computed, with memory in place of the maps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from stalltop.probes import layout
from stalltop.probes.forgotten import forgotten
from stalltop.probes.layout import Evicting
from stalltop.probes.maps import evictions
from stalltop.probes.maps.evictions import COUNT_SECONDS, SIZES, Evictions
from stalltop.probes.maps.raw import RawEvictions
from stalltop.probes.programs.loading import Programs


@pytest.fixture
def programs() -> Programs:
    maps = {kind.name.lower(): int(kind) for kind in SIZES}
    return cast(Programs, SimpleNamespace(turnovers=np.zeros(len(SIZES), layout.TURNOVER), **maps))


def test_elements_that_are_neither_removed_nor_there_were_evicted(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = dict.fromkeys(SIZES, 0)
    counted: list[int] = []

    def elements(fd: int) -> int:
        counted.append(fd)
        return there[Evicting(fd)]

    monkeypatch.setattr(evictions, "_elements", elements)
    now = [0.0]
    reader = Evictions(programs, lambda: now[0])
    turnover, size = programs.turnovers[Evicting.LOOKUPS], SIZES[Evicting.LOOKUPS]
    turnover["added"], turnover["removed"] = 1_000_000, 1_000_000 - size
    assert (reader.read(), counted) == ([], []), "the map holds as many elements as were left"
    turnover["added"] += 50
    there[Evicting.LOOKUPS] = size + 10
    assert reader.read() == [RawEvictions(Evicting.LOOKUPS, size, 40)]
    turnover["added"] += 30
    assert reader.read() == [], "elements are not counted again at once"
    now[0] += COUNT_SECONDS
    assert reader.read() == [RawEvictions(Evicting.LOOKUPS, size, 30)]
    turnover["removed"] += size
    now[0] += COUNT_SECONDS
    assert reader.read() == []
    assert counted == [Evicting.LOOKUPS] * 2, "only full maps are counted"


def test_every_table_says_what_it_forgot() -> None:
    told = forgotten(RawEvictions(kind, size, 1234) for kind, size in SIZES.items())
    assert len({gap.what for gap in told}) == len(Evicting)
    assert all("forgot the 1,234 oldest" in gap.reason for gap in told)
