"""Tests reading the histograms of the BPF program, with memory in place of its maps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from stalltop.model.histograms.hdr import COUNTERS
from stalltop.probes import layout
from stalltop.probes.maps import slots
from stalltop.probes.maps.slots import Slots, may_own, rows_of
from stalltop.probes.programs.loading import Programs

SLOTS = 100


@pytest.fixture
def programs() -> Programs:
    made = SimpleNamespace(
        owners=np.zeros(SLOTS, layout.OWNER),
        slots=SimpleNamespace(array=np.zeros(SLOTS, layout.SLOT), reach=lambda count: None),
        octaves=SimpleNamespace(
            counters=np.zeros((SLOTS * layout.OCTAVES, layout.PER_OCTAVE), np.uint32),
            reach=lambda numbers: np.ones(len(numbers), np.bool_),
            grow=lambda: None,
        ),
        threads=np.zeros(4, layout.THREAD),
        slot_of=-1,
        pools=SimpleNamespace(free=lambda pool, slots, tgids, cgroup_ids: None),
        keeping=np.zeros(1, layout.KEEPING),
    )
    made.owners["tgid"] = made.owners["operation"] = np.arange(SLOTS) + 1
    return cast(Programs, made)


def histograms(programs: Programs) -> NDArray[np.uint32]:
    """Gives each slot all of its octaves, and returns the counters by slot, shape (SLOTS, COUNTERS)."""
    octaves = np.arange(1, SLOTS * layout.OCTAVES + 1, dtype=np.uint64)
    programs.slots.array["octaves"] = octaves.reshape(SLOTS, layout.OCTAVES)
    return programs.octaves.counters.reshape(SLOTS, COUNTERS)


@pytest.mark.parametrize("active", [1.0, 0.7, 0.05])
def test_the_rise_of_each_counter_is_read_once(programs: Programs, active: float) -> None:
    random = np.random.default_rng(1)
    # Every seventh 32-bit counter is about to wrap around.
    counters = histograms(programs)
    counters[:, ::7] = (1 << 32) - 3
    reader = Slots(programs, splits=True)
    reader._counters[:] = programs.octaves.counters
    for _ in range(5):
        rise = np.zeros((SLOTS, COUNTERS), np.uint32)
        busy = np.flatnonzero(random.random(SLOTS) < active)
        for slot in busy:
            rise[slot, random.integers(0, COUNTERS, 30)] = random.integers(1, 9, 30)
            rise[slot, 0] = 5
        counters += rise
        programs.slots.array["calls"] += rise.sum(axis=1, dtype=np.uint64)
        programs.slots.array["total_ns"] += rise.sum(axis=1, dtype=np.uint64) * np.uint64(1000)
        programs.slots.array["max_ns"][busy] = 1 << 36
        counts = reader.read()
        assert [key.tgid - 1 for key in counts.keys] == busy.tolist()
        assert (counts.histograms.dense() == rise[busy]).all()
        assert (counts.calls == rise[busy].sum(axis=1)).all()
        assert (counts.total_ns == counts.calls * np.uint64(1000)).all()
        assert counts.split_ns is not None
        assert (counts.split_ns.sum(axis=1) == counts.total_ns).all()
    assert reader.read().keys == ()


def test_a_call_that_is_not_in_its_histogram_yet_is_read_later(programs: Programs) -> None:
    reader, counters = Slots(programs, splits=False), histograms(programs)
    programs.slots.array["calls"][3] = 2
    programs.slots.array["total_ns"][3] = 300
    assert reader.read().keys == ()
    counters[3, 100] = 2
    counts = reader.read()
    assert counts.calls.tolist() == [2]
    assert counts.total_ns.tolist() == [300]


def test_octaves_that_a_slot_takes_later_are_read_in_order(programs: Programs) -> None:
    reader = Slots(programs, splits=False)
    octaves = programs.slots.array["octaves"]
    octaves[3, 5], programs.octaves.counters[8, 1] = 9, 4
    programs.slots.array["calls"][3] = 4
    assert reader.read().histograms.index.tolist() == [5 * layout.PER_OCTAVE + 1]
    # The slot takes an octave of shorter durations, and one that another slot had before.
    octaves[3, [2, 30]] = 700, 1
    programs.octaves.counters[[699, 0, 8], [2, 3, 1]] = 1, 2, 5
    programs.slots.array["calls"][3] = 8
    counts = reader.read()
    indices = [2 * layout.PER_OCTAVE + 2, 5 * layout.PER_OCTAVE + 1, 30 * layout.PER_OCTAVE + 3]
    assert counts.histograms.index.tolist() == indices
    assert counts.histograms.count.tolist() == [1, 1, 2]


def test_the_octaves_of_a_freed_slot_are_empty(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "delete_all", lambda fd, keys: None)
    reader, counters = Slots(programs, splits=False), histograms(programs)
    counters[3, [7, 3000]] = 2, 1
    programs.slots.array["calls"][3] = 3
    assert reader.read().calls.tolist() == [3]
    octaves = programs.slots.array["octaves"][3].tolist()
    reader.release(int(programs.owners["tgid"][3]))
    assert not counters[3].any()
    assert not reader._counters.any()
    assert programs.slots.array["octaves"][3].tolist() == octaves, "the BPF programs free and clear them"
    assert programs.slots.array["calls"][3] == 0


def test_calls_that_are_read_before_they_are_counted_are_not_read_again(programs: Programs) -> None:
    reader, counters = Slots(programs, splits=False), histograms(programs)
    counters[3, 100] = 1
    programs.slots.array["calls"][3] = 0
    counters[4, 100] = 2
    programs.slots.array["calls"][4] = 1
    assert reader.read().calls.tolist() == [2]
    assert reader.read().keys == ()
    programs.slots.array["calls"][4] = 2
    assert reader.read().keys == ()
    programs.slots.array["calls"][3] = 1
    assert reader.read().calls.tolist() == [1]


def test_slots_of_one_key_are_added_up_and_freed_with_their_thread(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted: list[int] = []
    freed: list[tuple[int, int, int]] = []
    monkeypatch.setattr(slots, "delete_all", lambda fd, keys: deleted.extend(keys["writer"].tolist()))
    monkeypatch.setattr(
        programs.pools,
        "free",
        lambda pool, slots, tgids, cgroup_ids: freed.extend(zip(slots, tgids, cgroup_ids, strict=True)),
    )
    programs.owners[:] = np.zeros(1, layout.OWNER)
    programs.owners["tgid"][:3], programs.owners["operation"][:3] = 7, 5
    programs.owners["cgroup_id"][:3] = 9
    programs.owners["writer"][1:3] = 2, 4  # the own slots of the threads with records 1 and 3
    programs.threads["tgid"] = [7, 7, 0, 7]
    reader, counters = Slots(programs, splits=False), histograms(programs)
    assert rows_of(programs.owners)[:4].tolist() == [0, 0, 0, 3]
    programs.slots.array["calls"][:3] = counters[:3, 100] = 1, 2, 3
    counts = reader.read()
    assert [(key.tgid, key.operation) for key in counts.keys] == [(7, 5)]
    assert counts.calls.tolist() == [6]
    assert not deleted
    programs.threads["tgid"][3] = 8  # the record belongs to a thread of another process now
    programs.slots.array["calls"][2] = counters[2, 100] = 4
    assert reader.read().calls.tolist() == [1]
    assert (deleted, freed) == ([4], [])
    assert reader.read().keys == ()
    assert freed == [(2, 7, 9)]
    assert programs.owners["tgid"][:4].tolist() == [7, 7, 0, 0]


@pytest.mark.parametrize(("shared", "own", "left"), [(0, 0, 100), (10, 40, 60), (10, 100, 0), (390, 5, 5)])
def test_threads_may_own_an_eighth_while_half_are_free(shared: int, own: int, left: int) -> None:
    writers = np.array([0] * shared + [1] * own, np.uint32)
    assert may_own(writers, 800) == left
