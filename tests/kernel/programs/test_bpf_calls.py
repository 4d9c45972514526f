"""Tests the module ``bpf_calls``, and the creation of maps, on a BPF map that each test makes."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from stalltop.probes.programs import compiled
from stalltop.probes.programs.bpf_calls import _bpf, delete_all, look_at_all, map_info, put
from stalltop.probes.programs.compiled import CompiledMap

KEY = np.dtype([("a", np.uint64), ("b", np.uint64)])
VALUE = np.dtype([("n", np.uint64)])
_MAP_CREATE, _HASH, _LRU_HASH = 0, 1, 9


@pytest.fixture
def table() -> Iterator[int]:
    """Make a hash map of a thousand elements."""
    descriptor = _bpf(_MAP_CREATE, struct.pack("=IIIII", _HASH, KEY.itemsize, VALUE.itemsize, 2000, 0))
    for key in keys(range(1000)):
        put(descriptor, key.tobytes(), b"\1" * 8)
    yield descriptor
    os.close(descriptor)


def keys(numbers: range) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    found = np.zeros(len(numbers), KEY)
    found["a"] = found["b"] = numbers
    return found


def left(table: int) -> list[int]:
    return sorted(look_at_all(table, KEY, VALUE)[0]["a"].tolist())


def test_many_elements_are_removed_at_once(table: int) -> None:
    delete_all(table, keys(range(10, 990)))
    assert left(table) == [*range(10), *range(990, 1000)]


def test_missing_elements_are_ignored(table: int) -> None:
    delete_all(table, keys(range(0, 1000, 2)))
    delete_all(table, keys(range(900)))
    assert left(table) == list(range(901, 1000, 2))
    delete_all(table, keys(range(2000, 2010)))
    delete_all(table, keys(range(0)))
    assert left(table) == list(range(901, 1000, 2))


def test_keys_may_be_a_strided_array(table: int) -> None:
    delete_all(table, keys(range(1000))[::2])
    assert left(table) == list(range(1, 1000, 2))


def test_a_descriptor_that_is_no_map_raises_an_error() -> None:
    with open(os.devnull) as other, pytest.raises(OSError, match="Invalid argument"):
        delete_all(other.fileno(), keys(range(3)))


def test_the_size_of_an_lru_map_follows_the_number_of_possible_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "possible_cpus", lambda: 256)
    table = CompiledMap("table", _LRU_HASH, KEY.itemsize, VALUE.itemsize, 1024, 0).create({}, {})
    try:
        assert map_info(table)["max_entries"] == 1024 + 256 * 128
    finally:
        os.close(table)


def test_an_lru_map_holds_its_size_though_each_cpu_sets_elements_aside() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    size = 1024
    table = CompiledMap("table", _LRU_HASH, KEY.itemsize, VALUE.itemsize, size, 0).create({}, {})
    try:
        for cpu, numbers in ((cpus[-1], range(1)), (cpus[0], range(1, size))):
            os.sched_setaffinity(0, {cpu})
            for key in keys(numbers):
                put(table, key.tobytes(), b"\1" * 8)
        assert left(table) == list(range(size))
    finally:
        os.sched_setaffinity(0, cpus)
        os.close(table)
