"""Tests histograms as HdrHistogram payloads, which hdrh reads and writes, too."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from stalltop.model.histograms.hdr import COUNTERS, HIGHEST_NS, lowest_ns
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.histograms.payload import histograms, payloads

CELLS = st.dictionaries(
    st.integers(0, COUNTERS - 1),
    st.one_of(st.integers(1, 3), st.integers(1, 1 << 30), st.integers(1, (1 << 55) - 1)),
    max_size=12,
)


def of(*many: dict[int, int]) -> Histograms:
    places = [sorted(cells) for cells in many]
    return Histograms(
        np.cumsum([0, *map(len, places)], dtype=np.int64),
        np.array([place for some in places for place in some], np.uint16),
        np.array([cells[place] for cells in many for place in sorted(cells)], np.uint64),
    )


def encoded(cells: dict[int, int]) -> bytes:
    (payload,) = payloads(of(cells))
    return payload


def decoded(payload: bytes) -> dict[int, int]:
    found = histograms([payload])
    assert found.index.dtype == np.uint16
    assert found.count.dtype == np.uint64
    return dict(zip(found.index.tolist(), found.count.tolist(), strict=True))


def broken(plain: bytes, cookie: int = 0x1C849314) -> bytes:
    packed = zlib.compress(plain)
    return struct.pack(">ii", cookie, len(packed)) + packed


def header(length: int, digits: int = 2, highest: int = HIGHEST_NS) -> bytes:
    return struct.pack(">iiiiqqd", 0x1C849313, length, 0, digits, 1, highest, 1.0)


@given(CELLS)
def test_payloads_are_read_back_unchanged(cells: dict[int, int]) -> None:
    assert decoded(encoded(cells)) == cells


@given(st.lists(CELLS, max_size=6))
def test_many_payloads_equal_single_ones(many: list[dict[int, int]]) -> None:
    together = of(*many)
    made = payloads(together)
    assert made == [encoded(cells) for cells in many]
    found = histograms(made)
    assert found.start.tolist() == together.start.tolist()
    assert found.index.tolist() == together.index.tolist()
    assert found.count.tolist() == together.count.tolist()


def test_no_histograms_give_no_payloads() -> None:
    assert payloads(Histograms.empty()) == []
    assert len(histograms([])) == 0


def test_one_broken_payload_among_many_is_refused() -> None:
    good = encoded({5: 7})
    for bad in (b"", good[:-1], b"x" * 60):
        with pytest.raises(ValueError, match=r"histogram|payload"):
            histograms([good, bad, good])


@given(CELLS)
def test_hdrh_reads_our_payloads(cells: dict[int, int]) -> None:
    histogram = HdrHistogram.decode(base64.b64encode(encoded(cells)))
    assert (histogram.lowest_trackable_value, histogram.highest_trackable_value) == (1, HIGHEST_NS)
    assert {i: histogram.counts[i] for i in range(COUNTERS) if histogram.counts[i]} == cells


@given(CELLS)
def test_payloads_of_hdrh_are_read(cells: dict[int, int]) -> None:
    histogram = HdrHistogram(1, HIGHEST_NS, 2)
    for place, count in cells.items():
        histogram.record_value(int(lowest_ns(np.array([place]))[0]), count)
    assert decoded(base64.b64decode(histogram.encode())) == cells


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0" * 3,
        b"\0" * 60,
        broken(b""),
        broken(header(0), cookie=1),
        broken(header(0, digits=3)),
        broken(header(0, highest=1000)),
        broken(header(1)),
        broken(header(1) + b"\x80"),
        broken(header(2) + b"\x02"),
        broken(header(9) + b"\xff" * 9),
        broken(header(9) + b"\x80" * 8 + b"\x01"),
        broken(header(COUNTERS + 1) + b"\x02" * (COUNTERS + 1)),
        broken(header(1_000_000) + b"\0" * 1_000_000),
        encoded({5: 7})[:-8],
    ],
)
def test_broken_payloads_are_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"histogram|payload"):
        histograms([payload])


@given(st.binary(max_size=80))
def test_arbitrary_counters_are_read_or_refused(counters: bytes) -> None:
    try:
        found = decoded(broken(header(len(counters)) + counters))
    except ValueError:
        return
    assert sorted(found) == list(found)
