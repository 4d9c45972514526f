"""Tests the module ``bpf_calls`` on a BPF map that each test makes."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import numpy as np
import pytest

from stalltop.probes.programs.bpf_calls import _bpf, delete_all, look_at_all, put

KEY = np.dtype([("a", np.uint64), ("b", np.uint64)])
VALUE = np.dtype([("n", np.uint64)])
_MAP_CREATE, _HASH = 0, 1


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
