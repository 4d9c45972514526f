"""Tests the choice of collectives that hosts compare."""

from __future__ import annotations

from stalltop.model.hosts.collectives import MOST_CHOSEN, chosen, entries_in, entries_text


def test_hosts_choose_the_same_collectives() -> None:
    busy = [n for first in range(0, 100_000, 1_000) for n in chosen(first, first + 1_000)]
    calm = [n for first in range(0, 100_000, 100) for n in chosen(first, first + 100)]
    assert set(busy) <= set(calm), "what is chosen of many is chosen of few as well"
    assert len(busy) > 100


def test_windows_that_begin_elsewhere_choose_the_same() -> None:
    one = {n for first in range(0, 10_000, 100) for n in chosen(first, first + 100)}
    other = {n for first in range(37, 9_900, 100) for n in chosen(first, first + 100)}
    assert {n for n in one if 37 <= n < 9_800} == {n for n in other if n < 9_800}


def test_few_are_chosen() -> None:
    for count in (1, 3, 4, 5, 50, 1_000, 100_000):
        sizes = [len(chosen(first * count, (first + 1) * count)) for first in range(200)]
        assert sum(sizes) / len(sizes) <= MOST_CHOSEN * 1.3
        assert sum(sizes) > 0


def test_all_places_of_a_step_are_chosen() -> None:
    places = {n % 8 for first in range(0, 20_000, 100) for n in chosen(first, first + 100)}
    assert places == set(range(8))


def test_entries_survive_as_text() -> None:
    text = entries_text([(0, 1_795_781_030_243_455_999), (1042, 5_000)])
    assert text == "0:1795781030243455 1042:5"
    assert entries_in(text) == [(0, 1_795_781_030.243455), (1042, 5e-6)]
    assert entries_in("x 5 5: :5 -1:5 5:1e3 ²:5 7:7 " + "9" * 50 + ":1") == [(7, 7e-6)]
