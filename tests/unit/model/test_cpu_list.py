"""Tests lists of CPUs in the format of the Linux kernel."""

from __future__ import annotations

import pytest

from stalltop.model.cpu_list import cpus_of, list_of


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8", {0, 1, 2, 3, 8}),
        ("5", {5}),
        ("0,2,4-5", {0, 2, 4, 5}),
        ("", set()),
        ("nonsense", set()),
        ("3-", set()),
        ("3-1", set()),
        ("\u00b2", set()),
    ],
)
def test_lists_of_cpus_are_read_and_written(text: str, cpus: set[int]) -> None:
    assert cpus_of(text) == cpus
    assert list_of(cpus) == (text if cpus else "")


def test_a_huge_range_is_cut_off() -> None:
    assert len(cpus_of("0-99999999999")) == 8192
