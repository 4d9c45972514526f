"""Tests the sum of the last seconds, and the sum since the start."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.model import calls as one_by_one
from stalltop.model.calls import MOST_KEPT
from stalltop.model.chain import Link
from stalltop.model.evidence import (
    HOST_GAP,
    HOST_LAYER,
    MOST_EVENTS,
    Charge,
    Event,
    Evidence,
    ProcessUse,
    TenantUse,
)
from stalltop.model.merge import moving, packing, sliding
from stalltop.model.merge.history import latest
from stalltop.model.merge.merging import merge
from stalltop.model.merge.sliding import Sliding
from stalltop.model.window import OpenCall, Window
from tests.windows.by_hand import Calls, evidence_table, key, row_table, window
from tests.windows.drawn import FEW, sequences, sequences_of_moving_devices
from tests.windows.full import CHAINS, KEPT


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
    assert one.calls == other.calls
    assert sorted(one.kernels) == sorted(other.kernels)
    assert one.allocations == other.allocations
    assert one.coverage.cost_percent == pytest.approx(other.coverage.cost_percent, abs=1e-9)


@FEW
@given(sequences(12), st.integers(1, 5), st.integers(0, 12))
def test_the_sliding_sum_equals_the_merge_of_the_last_seconds(
    parts: list[Window], seconds: int, known: int
) -> None:
    known = min(known, len(parts))
    moving = Sliding(float(seconds), parts[:known])
    for number, part in enumerate(parts[known:], start=known + 1):
        same(moving.push(part), merge(parts[max(0, number - seconds) : number]))
    same(moving.window, merge(parts[-seconds:]))


@FEW
@given(sequences(12), st.integers(0, 12))
def test_the_sum_since_the_start_equals_the_merge_of_all(parts: list[Window], known: int) -> None:
    moving = Sliding(None, parts[:known])
    for part in parts[known:]:
        moving.push(part)
    same(moving.window, merge(parts))


@FEW
@given(sequences_of_moving_devices(10), st.integers(1, 6), st.integers(1, 6), st.integers(1, 10))
def test_moving_devices_and_a_changed_length_keep_the_sum_exact(
    parts: list[Window], before: int, after: int, change: int
) -> None:
    packed = [packing.pack(part) for part in parts]
    moving = Sliding(float(before))
    for number, part in enumerate(parts[:change], start=1):
        same(moving.push(part), merge(parts[max(0, number - before) : number]))
    moving = Sliding(float(after), latest(packed[:change], float(after)))
    same(moving.window, merge(parts[:change][-after:]))
    for number, part in enumerate(parts[change:], start=change + 1):
        same(moving.push(part), merge(parts[max(0, number - after) : number]))


@FEW
@given(sequences_of_moving_devices(10), st.integers(0, 10))
def test_the_sum_since_the_start_is_exact_with_moving_devices(parts: list[Window], known: int) -> None:
    moving = Sliding(None, parts[:known])
    for part in parts[known:]:
        moving.push(part)
    same(moving.window, merge(parts))


def test_the_length_is_as_close_as_whole_windows_allow() -> None:
    moving = Sliding(10.0)
    for number in range(50):
        found = moving.push(window(start=1_000 + number * 1.01, seconds=1.01))
    assert found.seconds == pytest.approx(10.1)
    assert Sliding(1.0, [window(seconds=5.0)]).window.seconds == 5.0


def test_a_returned_window_never_changes() -> None:
    moving = Sliding(5.0)
    first = moving.push(window([Calls(key(), [10])]))
    before = row_table(first.rows)
    moving.push(window([Calls(key(), [20])], start=1_001.0))
    assert row_table(first.rows) == before


def test_keys_of_rows_that_left_are_removed() -> None:
    moving = Sliding(2.0)
    parts = [
        window([Calls(key(pid=number), [number]), Calls(key(pid=5), [9])], start=1_000.0 + number)
        for number in range(10, 1_000)
    ]
    for number, part in enumerate(parts):
        same(moving.push(part), merge(parts[max(0, number - 1) : number + 1]))
    assert len(moving._keys) < 600


def test_a_sum_since_the_start_folds_ended_processes(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_tenants_of_a_sum_since_the_start_are_bounded() -> None:
    moving = Sliding(None)
    for number in range(1_000):
        name = f"cgroup:{number}"
        tenant = next(iter(window().tenants.values()))
        moving.push(replace(window(start=1_000.0 + number), tenants={name: replace(tenant, id=name)}))
    assert len(moving.window.tenants) <= 258


@pytest.mark.parametrize("seconds", [None, 3.0])
def test_calls_of_ended_threads_stay_as_long_as_their_window(seconds: float | None) -> None:
    """A process that ended during its first call has no row, so the open call needs the tenant to be kept."""
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


def test_another_host_or_a_length_of_zero_is_refused() -> None:
    moving = Sliding(1.0)
    with pytest.raises(ValueError, match="no window"):
        _ = moving.window
    moving.push(window())
    with pytest.raises(ValueError, match="gpu8"):
        moving.push(window(host="gpu8"))
    with pytest.raises(ValueError, match="above 0"):
        Sliding(0.0)


def test_splits_return_when_the_window_without_them_has_left() -> None:
    moving = Sliding(2.0)
    moving.push(window([Calls(key(), [1])]))
    moving.push(window([Calls(key(), [2])], start=1_001.0, split=True))
    assert moving.window.rows.split_ns is None
    split = moving.push(window([Calls(key(), [4])], start=1_002.0, split=True)).rows.split_ns
    assert split is not None
    assert split[:, 0].tolist() == [6]


def ticks_of_short_lives(number: int) -> list[Window]:
    """Returns windows with two victims: one process that stays, and one that is new in each window and has a
    new culprit."""

    def charge(pid: int, culprit: int, ns: int) -> Charge:
        return Charge(
            "docker:aa", pid, "p", HOST_LAYER, HOST_GAP, "runqueue", "cri:bb", culprit, "hog", ns, 1
        )

    return [
        replace(
            window([Calls(key(pid=5), [9])], start=1_000.0 + at),
            evidence=Evidence(
                charges=(charge(5, 6, 1_000_000), charge(100 + at, 10_000 + at, at)),
                processes=(
                    ProcessUse("docker:aa", 5, "p", 7),
                    ProcessUse("cri:bb", 6, "hog"),
                    ProcessUse("docker:aa", 100 + at, "p", at),
                ),
                events=(Event(1_000.0 + at, "xid", "docker:aa", 100 + at, "p", ""),),
                swap_in_bytes=1,
            ),
        )
        for at in range(number)
    ]


def test_evidence_of_a_sum_since_the_start_is_bounded_and_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "MOST_RECORDS", 100)
    parts = ticks_of_short_lives(1_000)
    endless = Sliding(None)
    for part in parts:
        found = endless.push(part).evidence
        assert len(found.charges) <= 101
        assert len(found.processes) <= 101
    assert sum(charge.ns for charge in found.charges) == sum(
        charge.ns for part in parts for charge in part.evidence.charges
    )
    by_pid = {(charge.pid, charge.culprit_pid): charge for charge in found.charges}
    assert by_pid[5, 6].ns == 1_000 * 1_000_000
    assert sum(use.cpu_ns for use in found.processes) == 7 * 1_000 + sum(range(1_000))
    assert next(use.cpu_ns for use in found.processes if use.pid == 5) == 7_000
    assert found.swap_in_bytes == 1_000
    assert [event.pid for event in found.events] == [
        1_099 - MOST_EVENTS + 1 + at for at in range(MOST_EVENTS)
    ]


def test_of_records_that_cannot_be_folded_the_smallest_leave_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record has a tenant of its own, so no two records can be added up into one record."""
    monkeypatch.setattr(moving, "MOST_RECORDS", 100)
    endless = Sliding(None)
    for at in range(1_000):
        large = at == 3
        charge = Charge(
            f"cgroup:{at}", 1, "p", HOST_LAYER, HOST_GAP, "lock", "cri:bb", 2, "q", 10**9 if large else at, 1
        )
        use = TenantUse(f"cgroup:{at}", 10**9 if large else at)
        part = window(start=1_000.0 + at)
        found = endless.push(replace(part, evidence=Evidence(charges=(charge,), tenants=(use,)))).evidence
    assert len(found.charges) <= 101
    assert len(found.tenants) <= 101
    assert "cgroup:3" in {charge.tenant for charge in found.charges}
    assert {"cgroup:3", "cgroup:999"} <= {use.tenant for use in found.tenants}


def test_tenants_named_in_evidence_or_chains_are_kept() -> None:
    endless = Sliding(None)
    tenant = next(iter(window().tenants.values()))
    chains = (replace(CHAINS[0], tenant="cgroup:7", links=(Link("culprit", "", tenant="cgroup:8"),)),)
    for at in range(600):
        name = f"cgroup:{at}"
        evidence = Evidence(tenants=(TenantUse(name, 1),)) if at < 5 else Evidence()
        part = replace(window(start=1_000.0 + at), tenants={name: replace(tenant, id=name)}, chains=chains)
        found = endless.push(replace(part, evidence=evidence))
    assert {f"cgroup:{at}" for at in (0, 1, 2, 3, 4, 7, 8)} <= set(found.tenants)
    assert len(found.tenants) <= 270


def many_calls(number: int, each: int = 100) -> Window:
    kept = [
        KEPT[0]._replace(start_ns=number * 10**9 + n, duration_ns=1_000 + n, tenant=f"cgroup:{number}")
        for n in range(each)
    ]
    return replace(window(start=1_000.0 + number), calls=one_by_one.CapturedCalls(kept, 1))


def test_captured_calls_are_merged_only_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked = []

    def unpack(packed: bytes) -> one_by_one.CapturedCalls:
        unpacked.append(packed)
        return one_by_one.unpack_calls(packed)

    monkeypatch.setattr(packing, "unpack_calls", unpack)
    moving = Sliding(10.0)
    for number in range(30):
        found = moving.push(many_calls(number))
    assert not unpacked
    assert found.calls.passed_over == 10
    assert len(found.calls.kept) == 1_000
    assert min(call.start_ns for call in found.calls.kept) == 20 * 10**9
    assert len(unpacked) == 10


def test_captured_calls_of_a_sum_since_the_start_are_bounded_and_keep_their_tenants() -> None:
    moving = Sliding(None)
    tenant = next(iter(window().tenants.values()))
    for number in range(400):
        name = f"cgroup:{number}"
        one = many_calls(number, each=12)
        moving.push(replace(one, tenants={name: replace(tenant, id=name)}))
    found = moving.window
    assert len(found.calls.kept) == MOST_KEPT
    assert found.calls.passed_over == 400 + 400 * 12 - MOST_KEPT
    assert {call.tenant for call in found.calls.kept} <= set(found.tenants)
    assert sum(len(part.kept) for part in moving._calls) <= 5 * MOST_KEPT
