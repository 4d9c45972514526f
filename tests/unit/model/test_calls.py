"""Tests that captured calls stay bounded when windows are added, and that dropped ones are counted."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.model import calls as model
from stalltop.model.calls import CapturedCall, CapturedCalls, added_calls, bounded, pack_calls, unpack_calls
from tests.windows.full import KEPT


def some(n: int, seed: int = 1, rows: int = 3) -> list[CapturedCall]:
    random = Random(seed)
    made = [
        KEPT[0]._replace(
            pid=random.randrange(rows),
            start_ns=random.randrange(1 << 60),
            duration_ns=random.randrange(1, 50),
            why=random.choice(("slow", "slow", "sample")),
        )
        for _ in range(n)
    ]
    return sorted(made, key=lambda call: call.start_ns)


@pytest.fixture
def room_for_five(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "MOST_KEPT", 5)


@pytest.mark.usefixtures("room_for_five")
def test_every_row_keeps_its_slowest_call_before_any_keeps_a_second() -> None:
    calls = [KEPT[0]._replace(pid=1, duration_ns=1_000 + n, start_ns=n) for n in range(20)]
    calls += [KEPT[0]._replace(pid=2, duration_ns=5, start_ns=99), KEPT[0]._replace(pid=2, duration_ns=7)]
    found = bounded(calls, passed_over=3)
    assert sorted((call.pid, call.duration_ns) for call in found.kept) == [
        *((1, 1_017), (1, 1_018), (1, 1_019)),
        *((2, 5), (2, 7)),
    ]
    assert found.passed_over == 3 + 17
    assert [call.start_ns for call in found.kept] == sorted(call.start_ns for call in found.kept)


@pytest.mark.usefixtures("room_for_five")
def test_sampled_calls_have_their_own_limit() -> None:
    found = bounded([*some(50), *(call._replace(why="sample") for call in some(50, 2))])
    assert [call.why for call in found.kept].count("sample") == 5
    assert [call.why for call in found.kept].count("slow") == 5


@given(st.lists(st.integers(0, 12), max_size=6), st.integers(0, 1_000), st.integers(0, 6))
def test_windows_may_be_added_in_any_grouping(sizes: Sequence[int], seed: int, cut: int) -> None:
    before, model.MOST_KEPT = model.MOST_KEPT, 5  # type: ignore[misc]
    try:
        parts = [bounded(some(n, seed + at), at) for at, n in enumerate(sizes)]
        whole = added_calls(parts)
        assert added_calls([added_calls(parts[:cut]), added_calls(parts[cut:])]) == whole
        slow = sum(call.why == "slow" for part in parts for call in part.kept)
        passed = sum(part.passed_over for part in parts)
        assert sum(call.why == "slow" for call in whole.kept) + whole.passed_over == slow + passed
    finally:
        model.MOST_KEPT = before  # type: ignore[misc]


def test_packed_and_pickled_calls_are_equal() -> None:
    calls = CapturedCalls(KEPT, 7)
    assert unpack_calls(pack_calls(calls)) == calls
    assert pickle.loads(pickle.dumps(calls)) == calls
    assert hash(calls) == hash(CapturedCalls(KEPT, 7))
    assert pack_calls(CapturedCalls()) == b""
    assert unpack_calls(b"") == CapturedCalls()
    assert unpack_calls(pack_calls(CapturedCalls((), 3))).passed_over == 3
    assert calls != CapturedCalls(KEPT, 8)
    assert calls != 7


def test_packed_calls_take_a_tenth_of_the_memory() -> None:
    calls = CapturedCalls(some(200))
    assert len(pack_calls(calls)) < 200 * 40


def test_deferred_calls_are_computed_once() -> None:
    asked = []

    def parts() -> list[CapturedCalls]:
        asked.append(1)
        return [CapturedCalls(KEPT[:1], 1), CapturedCalls(KEPT[1:], 2)]

    calls = CapturedCalls.later(parts)
    assert not asked
    assert (calls.kept, calls.passed_over) == (KEPT, 3)
    assert calls == CapturedCalls(KEPT, 3)
    assert len(asked) == 1
