"""Tests folding of charges: small ones are grouped, large ones stay single, no significant time is lost."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stalltop.probes import layout
from stalltop.probes.maps.charge_folding import LEAST_NS, SHARE, SMALL_NS, fold
from stalltop.probes.maps.raw import OTHERS

MS = 1_000_000
Given = tuple[int, int, int, int, int, int]
"""tgid, operation, part, TGID of the culprit, cgroup of the culprit, ns."""


def folded(charges: list[Given]) -> Counter[tuple[int, int, int, int, int]]:
    """Folds the charges; returns ns by victim, operation, part, culprit and the culprit's cgroup."""
    keys = np.zeros(len(charges), layout.CHARGE_KEY)
    ns = np.array([charge[5] for charge in charges], np.uint64)
    names = ("tgid", "operation", "part", "culprit_tgid", "culprit_cgroup_id")
    for place, name in enumerate(names):
        keys[name] = [charge[place] for charge in charges]
    found = fold(keys, ns, np.ones(len(charges), np.uint64))
    assert found.times.sum() <= len(charges)
    told = Counter[tuple[int, int, int, int, int]]()
    for key, culprit, cgroup, spent in zip(
        found.victims, found.culprits.tolist(), found.cgroups.tolist(), found.ns.tolist(), strict=True
    ):
        row = (int(key["tgid"]), int(key["operation"]), int(key["part"]), culprit, cgroup)
        assert row not in told
        told[row] = spent
    return told


def test_large_charges_stay_single() -> None:
    assert folded([(1, 5, 1, 8, 70, 9 * MS), (1, 5, 2, 8, 70, 4 * MS), (1, 5, 1, 9, 71, 6 * MS)]) == {
        (1, 5, 1, 8, 70): 9 * MS,
        (1, 5, 2, 8, 70): 4 * MS,
        (1, 5, 1, 9, 71): 6 * MS,
    }


def test_charges_with_one_key_add_up() -> None:
    assert folded([(1, 5, 1, 8, 70, 9 * MS), (1, 5, 1, 8, 70, MS)]) == {(1, 5, 1, 8, 70): 10 * MS}


def test_many_small_processes_of_a_cgroup_are_charged_as_that_cgroup() -> None:
    many = [(1, 5, 1, pid, 70, MS) for pid in range(100, 200)]
    assert folded(many) == {(1, 5, 1, OTHERS, 70): 100 * MS}


def test_small_cgroups_beside_a_large_one_are_grouped() -> None:
    small = [(1, 5, 1, pid, pid, MS // 2) for pid in range(100, 110)]
    assert folded([(1, 5, 1, 8, 70, 100 * MS), *small]) == {
        (1, 5, 1, 8, 70): 100 * MS,
        (1, 5, 1, OTHERS, 0): 5 * MS,
    }


def test_a_small_sum_is_grouped_and_a_tiny_one_dropped() -> None:
    some, none = SMALL_NS // 2 - 1, LEAST_NS // 2 - 1
    assert folded([(1, 5, 1, 8, 70, some), (1, 5, 1, 9, 70, some), (2, 5, 1, 8, 70, none)]) == {
        (1, 5, 1, OTHERS, 0): 2 * some
    }


def test_no_charges_fold_to_nothing() -> None:
    assert folded([]) == {}


@given(
    st.lists(
        st.tuples(
            st.integers(1, 4),
            st.sampled_from((5, 510, layout.NESTED | 5)),
            st.integers(1, 9),
            st.integers(0, 2**32 - 2),
            st.integers(1, 2**63),
            st.integers(1, 50 * MS),
        ),
        max_size=60,
    )
)
def test_no_significant_time_is_lost_and_each_row_has_few_charges(charges: list[Given]) -> None:
    told = folded(charges)
    given_ns, told_ns = Counter[tuple[int, int, int]](), Counter[tuple[int, int, int]]()
    for charge in charges:
        given_ns[charge[:3]] += charge[5]
    for key, ns in told.items():
        told_ns[key[:3]] += ns
    assert told_ns == {row: ns for row, ns in given_ns.items() if ns >= LEAST_NS}
    for row, number in Counter(key[:3] for key in told).items():
        assert number <= 2 / SHARE + 1
        assert all(ns >= SHARE * given_ns[row] for key, ns in told.items() if key[:3] == row and key[3] >= 0)
