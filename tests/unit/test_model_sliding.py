from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model import sliding
from model.merging import merge
from model.sliding import Sliding
from model.window import OpenCall, Window
from tests.unit.windows import Calls, evidence_table, key, row_table, sequences, window


def same(one: Window, other: Window) -> None:
    assert row_table(one.rows) == row_table(other.rows)
    assert (one.start, one.host, one.simulated) == (other.start, other.host, other.simulated)
    assert one.seconds == pytest.approx(other.seconds)
    assert dict(one.tenants) == dict(other.tenants)
    assert dict(one.loss) == dict(other.loss)
    assert one.open_calls == other.open_calls
    assert one.devices == other.devices
    assert evidence_table(one.evidence) == evidence_table(other.evidence)
    assert one.chains == other.chains
    assert one.coverage.cost_percent == pytest.approx(other.coverage.cost_percent, abs=1e-9)


@given(sequences(12), st.integers(1, 5), st.integers(0, 12))
def test_the_sum_is_that_of_the_last_seconds(parts: list[Window], seconds: int, known: int) -> None:
    known = min(known, len(parts))
    moving = Sliding(float(seconds), parts[:known])
    for number, part in enumerate(parts[known:], start=known + 1):
        same(moving.push(part), merge(parts[max(0, number - seconds) : number]))
    same(moving.window, merge(parts[-seconds:]))


@given(sequences(12), st.integers(0, 12))
def test_since_the_start_nothing_leaves(parts: list[Window], known: int) -> None:
    moving = Sliding(None, parts[:known])
    for part in parts[known:]:
        moving.push(part)
    same(moving.window, merge(parts))


def test_the_length_is_as_near_as_whole_windows_allow() -> None:
    moving = Sliding(10.0)
    for number in range(50):
        found = moving.push(window(start=1_000 + number * 1.01, seconds=1.01))
    assert found.seconds == pytest.approx(10.1)
    assert Sliding(1.0, [window(seconds=5.0)]).window.seconds == 5.0


def test_a_window_handed_out_never_changes() -> None:
    moving = Sliding(5.0)
    first = moving.push(window([Calls(key(), [10])]))
    before = row_table(first.rows)
    moving.push(window([Calls(key(), [20])], start=1_001.0))
    assert row_table(first.rows) == before


def test_keys_that_left_are_forgotten() -> None:
    moving = Sliding(2.0)
    parts = [
        window([Calls(key(pid=number), [number]), Calls(key(pid=5), [9])], start=1_000.0 + number)
        for number in range(10, 1_000)
    ]
    for number, part in enumerate(parts):
        same(moving.push(part), merge(parts[max(0, number - 1) : number + 1]))
    assert len(moving._keys) < 600


def test_a_sum_without_end_folds_processes_that_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliding, "MOST_ROWS", 50)
    moving = Sliding(None)
    parts = [
        window([Calls(key(pid=1), [7], 1, 3), Calls(key(pid=number), [number])], start=1_000.0 + number)
        for number in range(2, 300)
    ]
    for part in parts:
        found = moving.push(part)
    assert len(found.rows) <= 51
    rows = {row.pid: number for number, row in enumerate(found.rows.keys)}
    assert found.rows.calls[rows[1]] == 298
    assert 0 in rows
    expected = merge(parts)
    for column in ("calls", "errors", "bytes", "total_ns"):
        assert getattr(found.rows, column).sum() == getattr(expected.rows, column).sum()
    assert found.rows.histograms.totals().sum() == found.rows.calls.sum()


def test_tenants_of_a_sum_without_end_are_bounded() -> None:
    moving = Sliding(None)
    for number in range(1_000):
        name = f"cgroup:{number}"
        tenant = next(iter(window().tenants.values()))
        moving.push(replace(window(start=1_000.0 + number), tenants={name: replace(tenant, id=name)}))
    assert len(moving.window.tenants) <= 258


@pytest.mark.parametrize("seconds", [None, 3.0])
def test_calls_of_ended_threads_stay_as_long_as_their_window(seconds: float | None) -> None:
    """A process that ended in its first call has no row: its tenant stays for the call."""
    ended = OpenCall("cgroup:3", 100, 101, "hang", "driver", "cuCtxSynchronize", 55 * 10**9, ended=True)
    tenant = next(iter(window().tenants.values()))
    parts = [
        replace(
            window(start=1_000.0 + at),
            tenants={f"cgroup:{at}": replace(tenant, id=f"cgroup:{at}")},
            open_calls=(OpenCall("", at, at, "p", "driver", "cuCtxSynchronize", at), *[ended] * (at == 3)),
        )
        for at in range(600)
    ]
    moving = Sliding(seconds)
    for at, part in enumerate(parts):
        found = moving.push(part)
        kept = at >= 3 if seconds is None else 3 <= at < 6
        assert found.open_calls == (part.open_calls[0], *[ended] * kept)
        assert not kept or ended.tenant in found.tenants


def test_another_host_or_no_length_is_refused() -> None:
    moving = Sliding(1.0)
    with pytest.raises(ValueError, match="no window"):
        _ = moving.window
    moving.push(window())
    with pytest.raises(ValueError, match="gpu8"):
        moving.push(window(host="gpu8"))
    with pytest.raises(ValueError, match="above 0"):
        Sliding(0.0)


def test_splits_come_back_when_the_window_without_them_left() -> None:
    moving = Sliding(2.0)
    moving.push(window([Calls(key(), [1])]))
    moving.push(window([Calls(key(), [2])], start=1_001.0, split=True))
    assert moving.window.rows.split_ns is None
    split = moving.push(window([Calls(key(), [4])], start=1_002.0, split=True)).rows.split_ns
    assert split is not None
    assert split[:, 0].tolist() == [6]
