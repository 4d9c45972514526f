"""Tests which calls are captured, with memory in place of BPF maps."""

from __future__ import annotations

import mmap
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from stalltop.model.histograms.hdr import COUNTERS, index_of
from stalltop.model.histograms.histograms import Histograms
from stalltop.probes import layout
from stalltop.probes.maps.kept_calls import MOST_OF_SLOT, SAMPLES_A_SECOND, SLOW_A_SECOND, KeptCalls
from stalltop.probes.programs import ring
from stalltop.probes.programs.loading import Programs
from stalltop.probes.programs.ring import Ring

SLOTS = 64
MS = 1_000_000


class CaptureMaps:
    """Holds BPF maps in memory and a clock; the test fills the maps and advances the clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slots = np.zeros(SLOTS, layout.SLOT)
        self.owners = np.zeros(SLOTS, layout.OWNER)
        self.owners["operation"] = 5
        self.keeping = np.zeros(1, layout.KEEPING)
        self.ring: list[np.void] = []
        programs = SimpleNamespace(
            slots=SimpleNamespace(array=self.slots),
            owners=self.owners,
            keeping=self.keeping,
            kept_calls=SimpleNamespace(take=self.take),
        )
        self.kept = KeptCalls(cast(Programs, programs), splits=True, clock=lambda: self.now)

    def take(self) -> np.ndarray[Any, np.dtype[np.void]]:
        found, self.ring = np.array(self.ring, layout.KEPT_CALL), []
        return found

    def second(self, *durations: dict[int, int]) -> None:
        """Advances the clock by a second, in which slot n counts the calls of ``durations[n]``, a dict from
        the length of calls in ns to their number."""
        self.now += 1.0
        dense = np.zeros((len(durations), COUNTERS), np.uint64)
        for slot, calls in enumerate(durations):
            for ns, n in calls.items():
                dense[slot, index_of(ns)] += np.uint64(n)
        self.kept.adapt((np.arange(len(durations)), Histograms.from_dense(dense)))

    def slow_ns(self, slot: int = 0) -> int:
        return int(self.slots["slow_ns"][slot])


def test_the_bpf_program_gets_its_limits() -> None:
    (keeping,) = CaptureMaps().keeping
    assert int(keeping["most_slow"]) == SLOW_A_SECOND
    assert int(keeping["most_samples"]) == SAMPLES_A_SECOND
    assert int(keeping["most_of_slot"]) == MOST_OF_SLOT


def test_a_slow_minority_lies_above_the_threshold() -> None:
    kernel = CaptureMaps()
    for _ in range(3):
        kernel.second({10_000: 990, 5 * MS: 10})
        assert 10_000 < kernel.slow_ns() <= 5 * MS


def test_calls_of_equal_length_are_not_slow() -> None:
    kernel = CaptureMaps()
    kernel.second({10_000: 50_000})
    assert 10_000 < kernel.slow_ns() < 12_000


def test_every_call_of_a_rare_operation_is_slow() -> None:
    kernel = CaptureMaps()
    for _ in range(5):
        kernel.second({MS: 1})
    assert kernel.slow_ns() <= MS


def test_at_most_the_permitted_number_is_slow() -> None:
    """The limit of captured calls per second applies to all slots together."""
    kernel = CaptureMaps()
    calls = {1000 * n: 100 for n in range(1, 200)}
    for _ in range(3):
        kernel.second(*[calls] * SLOTS)
    above = sum(n for ns, n in calls.items() if ns >= kernel.slow_ns())
    # The threshold moves from one histogram counter to the next; such a step may add 100 calls of one length.
    assert above <= SLOW_A_SECOND / SLOTS + 100
    assert kernel.slow_ns() > 150_000


def test_thresholds_rise_at_once_and_fall_slowly() -> None:
    kernel = CaptureMaps()
    kernel.second({10_000: 1000})
    assert kernel.slow_ns() < 20_000
    for _ in range(4):
        kernel.second({10 * MS: 1000})
    assert kernel.slow_ns() > 10 * MS
    for _ in range(120):
        kernel.second({10_000: 1000})
    assert kernel.slow_ns() < 20_000


def test_a_slot_with_a_new_owner_starts_without_history() -> None:
    kernel = CaptureMaps()
    for _ in range(10):
        kernel.second({10 * MS: 1000})
    kernel.slots[:] = np.zeros(1, layout.SLOT)  # the slot is freed
    kernel.second({10_000: 1000})
    assert kernel.slow_ns() < 20_000


def test_gaps_and_free_slots_have_no_threshold() -> None:
    kernel = CaptureMaps()
    kernel.owners["operation"][:3] = (layout.HOST_GAP, layout.HOST_WORK, 0)
    kernel.owners["operation"][3] = 5 | layout.NESTED
    kernel.second(*[{10_000: 100}] * 4)
    assert [kernel.slow_ns(slot) for slot in range(3)] == [0, 0, 0]
    assert kernel.slow_ns(3) > 0


@pytest.mark.parametrize("calls", [1, 10, 1000, 1_000_000])
def test_about_one_call_per_second_is_sampled(calls: int) -> None:
    kernel = CaptureMaps()
    for _ in range(5):
        kernel.second({10_000: calls})
    assert int(kernel.slots["sample_every"][0]) == pytest.approx(calls, rel=0.05)


def record(start_ns: int, duration_ns: int = 10, **fields: object) -> np.void:
    made = np.zeros(1, layout.KEPT_CALL)
    made["start_ns"], made["duration_ns"] = start_ns, duration_ns
    for name, value in fields.items():
        made[name] = value
    return cast(np.void, made[0])


def test_records_are_returned_once_after_their_call_has_ended() -> None:
    kernel = CaptureMaps()
    kernel.ring = [record(100, why=1), record(150, 60, operation=7 | layout.NESTED), record(120, tgid=9)]
    first, second = kernel.kept.read(200)
    assert (first.start_ns, first.slow, first.nested) == (100, False, False)
    assert (second.start_ns, second.slow, second.tgid) == (120, True, 9)
    kernel.ring = [record(300)]
    assert [(call.start_ns, call.operation, call.nested) for call in kernel.kept.read(310)] == [
        (150, 7, True),
        (300, 0, False),
    ]
    assert kernel.kept.read(10_000) == []


def test_a_split_never_exceeds_the_call() -> None:
    kernel = CaptureMaps()
    off = [999, 30, 20, 0, 0, 0, 70, 0, 0, 5]
    kernel.ring = [record(1, 100, split_ns=off), record(2, 200, split_ns=off)]
    first, second = kernel.kept.read(1000)
    assert first.split_ns == (0, 30, 20, 0, 0, 0, 50, 0, 0, 0)
    assert second.split_ns == (75, 30, 20, 0, 0, 0, 70, 0, 0, 5)
    kernel.kept.leave_splits_out()
    kernel.ring = [record(3)]
    assert kernel.kept.read(1000)[0].split_ns is None


class RingMemory:
    """Holds the memory of a BPF ring buffer of ``size`` bytes; the test writes it as the Linux kernel
    does."""

    def __init__(self, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.size = size
        self.consumer = np.zeros(mmap.PAGESIZE, np.uint8)
        self.producer = np.zeros(mmap.PAGESIZE + 2 * size, np.uint8)

        def mapped(fd: int, size: int, *, offset: int = 0, writable: bool = True) -> object:
            memory = self.producer if offset else self.consumer
            assert len(memory) == size
            assert writable != bool(offset)
            return np.ctypeslib.as_ctypes(memory)

        monkeypatch.setattr(ring, "map_memory", mapped)
        self.record = np.dtype([("value", "u8"), ("more", "u8")])
        self.reader = Ring(3, size, self.record)

    def write(self, value: int, flags: int = 0) -> None:
        at = int(self.producer[:8].view(np.uint64)[0])
        entry = np.array([(16 | flags, 0, value, 0)], "u4, u4, u8, u8").view(np.uint8)
        for place in (at % self.size, at % self.size + self.size):  # the data is mapped twice in a row
            data = self.producer[mmap.PAGESIZE :]
            for number, byte in enumerate(entry):
                data[(place + number) % (2 * self.size)] = byte
        self.producer[:8].view(np.uint64)[0] = at + 24

    def take(self) -> list[int]:
        return [int(value) for value in self.reader.take()["value"]]


def test_a_ring_returns_complete_records_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = RingMemory(mmap.PAGESIZE, monkeypatch)
    assert mapped.take() == []
    for value in range(5):
        mapped.write(value, 1 << 30 if value == 2 else 0)
    mapped.write(5, 1 << 31)
    mapped.write(6)
    assert mapped.take() == [0, 1, 3, 4]
    assert mapped.take() == []  # record 5 is being written, and record 6 waits for it


def test_a_ring_wraps_around(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = RingMemory(mmap.PAGESIZE, monkeypatch)
    value = 0
    for turn in range(60):
        first = value
        for _ in range(7 + turn % 90):
            mapped.write(value)
            value += 1
        assert mapped.take() == list(range(first, value))


def test_the_size_of_a_ring_record_must_be_a_multiple_of_8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring, "map_memory", lambda *_, **__: pytest.fail("mapped"))
    with pytest.raises(ValueError, match="multiples of 8"):
        Ring(3, 4096, np.dtype([("value", "u4")]))
