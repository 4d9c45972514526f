"""Tests which records of threads are read."""

from __future__ import annotations

from typing import cast

import numpy as np

from stalltop.probes import layout
from stalltop.probes.programs.growing_map import GrowingMap
from stalltop.probes.programs.thread_records import ThreadRecords


class _Map:
    """Memory in place of a map. ``reached`` is the number of elements that may be read."""

    def __init__(self, n: int) -> None:
        self.array = np.zeros(n, layout.THREAD)
        self.reached = 0
        self.most = n

    def reach(self, count: int) -> int:
        self.reached = max(self.reached, min(count, self.most))
        return min(count, self.most)


def _records(n: int) -> tuple[_Map, ThreadRecords]:
    made = _Map(n)
    return made, ThreadRecords(cast(GrowingMap, made))


def _take(made: _Map, *numbers: int) -> None:
    made.array["index"][list(numbers)] = numbers


def test_records_are_read_up_to_the_last_one_that_was_ever_in_use() -> None:
    made, records = _records(8192)
    _take(made, *range(40))
    made.array["tid"][:40] = 7
    assert len(records) == 8192
    assert len(records.taken) == 40
    assert made.reached < 200
    made.array["tid"][:40] = 0  # all threads have ended, and records that are free again are read
    assert len(records.taken) == 40


def test_a_record_that_is_taken_and_not_yet_written_hides_no_later_one() -> None:
    made, records = _records(512)
    _take(made, 0, 1, 4)
    assert len(records.taken) == 5
    _take(made, 2, 3, *range(5, 400))
    assert len(records.taken) == 400


def test_all_records_are_read_once_all_were_in_use() -> None:
    made, records = _records(300)
    _take(made, *range(300))
    assert len(records.taken) == len(records.taken) == 300


def test_records_beyond_a_closed_map_are_not_touched() -> None:
    made, records = _records(512)
    _take(made, *range(512))
    made.most = 100
    assert len(records.taken) == 100
