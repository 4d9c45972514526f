"""Tests figures as text of a fixed width."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from stalltop.model.text import figures
from stalltop.model.text.glyphs import ASCII, UNICODE, Glyphs

Format = Callable[..., str]
CELLS: list[tuple[Format, int]] = [
    (figures.duration, figures.DURATION_WIDTH),
    (figures.count, figures.COUNT_WIDTH),
    (figures.rate, figures.RATE_WIDTH),
    (figures.size, figures.BYTES_WIDTH),
    (figures.memory, figures.MEMORY_WIDTH),
    (figures.percent, figures.PERCENT_WIDTH),
]


@pytest.mark.parametrize(
    ("format_", "value", "expected"),
    [
        (figures.duration, 0, "0ns"),
        (figures.duration, 850, "850ns"),
        (figures.duration, 999, "999ns"),
        (figures.duration, 1_000, "1.00µs"),
        (figures.duration, 9_994, "9.99µs"),
        (figures.duration, 9_996, "10.0µs"),
        (figures.duration, 99_960, "100µs"),
        (figures.duration, 999_499, "999µs"),
        (figures.duration, 999_500, "1.00ms"),
        (figures.duration, 45_600_000, "45.6ms"),
        (figures.duration, 2_500_000_000, "2.50s"),
        (figures.duration, 137_438_953_471, "137s"),
        (figures.duration, 999_600_000_000, "16m40s"),
        (figures.duration, 5_999_400_000_000, "99m59s"),
        (figures.duration, 6_000_000_000_000, "1h40m"),
        (figures.duration, 100 * 3_600_000_000_000, "4d04h"),
        (figures.duration, 400 * 86_400_000_000_000, "400d"),
        (figures.count, 7, "7"),
        (figures.count, 999, "999"),
        (figures.count, 1_234, "1.23k"),
        (figures.count, 999_499, "999k"),
        (figures.count, 999_500, "1.00M"),
        (figures.count, 2**64 - 1, "18.4E"),
        (figures.rate, 0, "0"),
        (figures.rate, 0.001, "<.01"),
        (figures.rate, 0.25, "0.25"),
        (figures.rate, 12.34, "12.3"),
        (figures.rate, 500_000, "500k"),
        (figures.size, 0, "0B"),
        (figures.size, 1_230, "1.23kB"),
        (figures.size, 45.6e9, "45.6GB"),
        (figures.memory, 512, "512B"),
        (figures.memory, 1024, "1.00KiB"),
        (figures.memory, 1023.9 * 1024, "1.00MiB"),
        (figures.memory, 141 * 1024**3, "141GiB"),
        (figures.percent, 0, "0%"),
        (figures.percent, 0.01, "<.1%"),
        (figures.percent, 12.34, "12.3%"),
        (figures.percent, 99.96, "100%"),
        (figures.percent, 100, "100%"),
        (figures.percent, 1e6, ">999%"),
    ],
)
def test_a_figure_reads_as_expected(format_: Format, value: float, expected: str) -> None:
    assert format_(value).strip() == expected


@given(
    st.one_of(st.none(), st.floats(), st.integers(0, 2**64)),
    st.sampled_from(CELLS),
    st.sampled_from([UNICODE, ASCII]),
)
def test_every_figure_has_the_width_of_its_column(
    value: float | None, cell: tuple[Format, int], glyphs: Glyphs
) -> None:
    format_, width = cell
    text = format_(value, glyphs)
    assert cell_len(text) == width
    assert glyphs is UNICODE or text.isascii()


@given(st.floats(1, 1e16))
def test_a_duration_in_one_unit_is_accurate_to_half_a_percent(ns: float) -> None:
    text = figures.duration(ns, ASCII).strip()
    for unit, scale in (("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)):
        if text.endswith(unit) and "m" not in text.removesuffix("ms"):
            tolerance = 0.5 if unit == "ns" else ns * 0.0051
            assert math.isclose(float(text.removesuffix(unit)) * scale, ns, abs_tol=tolerance)
            return
    assert ns > 999e9


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -1.0])
def test_an_unknown_figure_is_a_dash(value: float | None) -> None:
    for format_, width in CELLS:
        assert format_(value) == "–".rjust(width)
        assert format_(value, ASCII) == "-".rjust(width)


@given(
    st.text(max_size=40),
    st.integers(0, 30),
    st.sampled_from([UNICODE, ASCII]),
    st.sampled_from([figures.fit, figures.middle]),
)
def test_text_is_padded_or_cut_to_its_width(text: str, width: int, glyphs: Glyphs, cut: Format) -> None:
    assert cell_len(cut(text, width, glyphs)) == width


def test_cutting_keeps_the_start_or_both_ends() -> None:
    assert figures.fit("cudaMemcpyAsync", 8) == "cudaMem…"
    assert figures.fit("cudaMemcpyAsync", 8, ASCII) == "cudaMem~"
    assert figures.fit("ok", 4) == "ok  "
    cut = figures.middle("/usr/lib/python3/nvidia/libcudart.so.12", 24)
    assert cut.startswith("/usr/li")
    assert cut.rstrip().endswith("libcudart.so.12")
