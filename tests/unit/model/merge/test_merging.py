"""Tests merging windows of one host and of several hosts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stalltop.model.devices.device import DeviceProcess, Devices
from stalltop.model.evidence import RECORDS, tenants_of
from stalltop.model.merge.merging import merge
from stalltop.model.merge.moving import MovingDevices
from stalltop.model.window import MOST_ENDED, OpenCall, Window
from tests.windows.by_hand import TENANTS, Calls, evidence_table, key, row_table, window
from tests.windows.drawn import FEW, sequences, sequences_of_moving_devices
from tests.windows.full import CHAINS, EVIDENCE, full_window


def same(one: Window, other: Window) -> None:
    """Fails unless two windows are equal; float sums may differ in their last digits."""
    assert row_table(one.rows) == row_table(other.rows)
    assert (one.start, one.host, one.simulated) == (other.start, other.host, other.simulated)
    assert one.seconds == pytest.approx(other.seconds)
    assert dict(one.tenants) == dict(other.tenants)
    assert Counter(one.loss) == Counter(other.loss)
    assert (one.open_calls, one.devices, one.system) == (other.open_calls, other.devices, other.system)
    assert one.coverage.cost_percent == pytest.approx(other.coverage.cost_percent, abs=1e-9)
    assert evidence_table(one.evidence) == evidence_table(other.evidence)
    assert one.chains == other.chains
    assert sorted(one.kernels) == sorted(other.kernels)
    assert one.calls == other.calls
    assert replace(one.coverage, cost_percent=0) == replace(other.coverage, cost_percent=0)


def test_two_windows_merge_into_one_of_their_total_length() -> None:
    first = window(
        [Calls(key(), [10, 30], 1, 7), Calls(key("cudaFree"), [5])],
        loss={"no_slot": 1, "clamped": 2},
        cost_percent=1.0,
    )
    last = window([Calls(key(), [20], 2, 8)], start=1_001.0, seconds=3.0, loss={"no_slot": 4}, cost_percent=3)
    both = merge([first, last])
    assert (both.start, both.seconds, both.end) == (1_000.0, 4.0, 1_004.0)
    assert both.rows.keys == (key(), key("cudaFree"))
    assert both.rows.calls.tolist() == [3, 1]
    assert both.rows.errors.tolist() == [3, 0]
    assert both.rows.bytes.tolist() == [15, 0]
    assert both.rows.total_ns.tolist() == [60, 5]
    assert both.rows.max_ns.tolist() == [30, 5]
    assert both.rows.histograms.percentiles([50.0]).tolist() == [[20], [5]]
    assert both.loss == {"no_slot": 5, "clamped": 2}
    assert both.lost == 5
    assert both.coverage.cost_percent == pytest.approx(2.5)


def test_momentary_figures_are_those_of_the_last_window() -> None:
    last = full_window()
    first = window(start=last.start - 1, simulated=True)
    both = merge([first, last])
    assert (both.open_calls, both.devices, both.system) == (last.open_calls, last.devices, last.system)
    assert both.coverage.libraries == last.coverage.libraries
    assert both.simulated


def open_call(age_s: int, tid: int = 1, *, ended: bool = True) -> OpenCall:
    return OpenCall("docker:aa", 100, tid, "python3", "nccl", "ncclAllReduce", age_s * 10**9, ended=ended)


def test_calls_of_ended_threads_stay_and_open_calls_are_those_of_the_last_window() -> None:
    told = [
        (open_call(5, ended=False), open_call(7)),
        (open_call(6, ended=False), open_call(9), open_call(7, 2)),
    ]
    parts = [replace(window(start=1_000.0 + at), open_calls=calls) for at, calls in enumerate((*told, ()))]
    ended = (open_call(9), open_call(7), open_call(7, 2))
    assert merge(parts[:2]).open_calls == (open_call(6, ended=False), *ended)
    assert merge(parts).open_calls == ended
    same(merge([merge(parts[:2]), parts[2]]), merge(parts))


def test_only_the_longest_calls_of_ended_threads_are_kept() -> None:
    parts = [
        replace(
            window(start=1_000.0 + at),
            open_calls=tuple(open_call(tid % 90, tid) for tid in range(at, 300, 3)),
        )
        for at in range(3)
    ]
    kept = merge(parts).open_calls
    assert len(kept) == MOST_ENDED
    everything = sorted((tid % 90 for tid in range(300)), reverse=True)
    assert [call.age_ns // 10**9 for call in kept] == everything[:MOST_ENDED]
    same(merge([merge(parts[:2]), parts[2]]), merge(parts))


def test_two_hosts_make_a_fleet() -> None:
    calls = [Calls(key(), [10]), Calls(key(tenant="cri:bb"), [20])]
    here = window(calls, loss={"no_slot": 1})
    there = replace(
        full_window(),
        host="gpu8",
        rows=window([Calls(call.key._replace(host="gpu8"), call.durations) for call in calls]).rows,
    )
    fleet = merge([here, there])
    assert fleet.host == "gpu7, gpu8"
    assert [(row.host, row.tenant) for row in fleet.rows.keys] == [
        ("gpu7", "gpu7/docker:aa"),
        ("gpu7", "gpu7/cri:bb"),
        ("gpu8", "gpu8/docker:aa"),
        ("gpu8", "gpu8/cri:bb"),
    ]
    assert set(fleet.tenants) == {row.tenant for row in fleet.rows.keys}
    assert all(name == tenant.id for name, tenant in fleet.tenants.items())
    assert {call.tenant for call in fleet.open_calls} == {"gpu8/cri:bb", "gpu8/docker:aa"}
    assert [process.tenant for process in fleet.devices.devices[0].processes] == ["gpu8/docker:aa"]
    assert fleet.coverage.missing[0].tenant == "gpu8/cri:bb"
    assert fleet.coverage.attached == here.coverage.attached + there.coverage.attached
    assert fleet.seconds == 2.0
    assert fleet.loss == {"no_slot": 4, "abandoned": 2}
    assert fleet.system is None


def test_fleets_merge_in_any_grouping() -> None:
    hosts = [window([Calls(key(host=host), [5])], host=host) for host in ("gpu1", "gpu2", "gpu3")]
    together = merge(hosts)
    same(merge([merge(hosts[:2]), hosts[2]]), together)
    same(merge([hosts[0], merge(hosts[1:])]), together)


def test_merging_no_windows_is_refused() -> None:
    with pytest.raises(ValueError, match="no windows"):
        merge([])


def test_a_single_window_stays_the_same_object() -> None:
    one = full_window()
    assert merge([one]) is one


def test_splits_stay_only_if_all_windows_have_them() -> None:
    with_split = window([Calls(key(), [10])], split=True)
    without = window([Calls(key(), [20])])
    both = merge([with_split, with_split]).rows.split_ns
    assert both is not None
    assert both[:, 0].tolist() == [20]
    assert merge([with_split, without]).rows.split_ns is None
    assert merge([with_split, window()]).rows.split_ns is not None


def test_windows_of_zero_length_have_the_cost_of_the_last() -> None:
    parts = [window(seconds=0.0, cost_percent=cost) for cost in (1.0, 3.0)]
    assert merge(parts).coverage.cost_percent == 3.0


def test_many_windows_are_merged() -> None:
    many = [window([Calls(key(pid=number % 7), [number])], start=1_000.0 + number) for number in range(100)]
    whole = merge(many)
    assert int(whole.rows.calls.sum()) == 100
    assert int(whole.rows.total_ns.sum()) == sum(range(100))
    assert whole.seconds == 100


@FEW
@given(sequences_of_moving_devices(), st.data())
def test_merging_is_associative(parts: list[Window], data: st.DataObject) -> None:
    """Devices and rows appear and disappear: a device missing at the end of one part may be present in the
    next part."""
    first, second = sorted(data.draw(st.tuples(*[st.integers(0, len(parts))] * 2)))
    pieces = [merge(piece) for piece in (parts[:first], parts[first:second], parts[second:]) if piece]
    whole = merge(parts)
    same(merge(pieces), whole)
    same(merge([merge(pieces[:-1]), pieces[-1]]) if pieces[:-1] else pieces[0], whole)
    same(merge([pieces[0], merge(pieces[1:])]) if pieces[1:] else pieces[0], whole)


@FEW
@given(sequences())
def test_nothing_is_lost_in_merging(parts: list[Window]) -> None:
    whole = merge(parts)
    for column in ("calls", "errors", "bytes", "total_ns"):
        expected = sum(int(getattr(part.rows, column).sum()) for part in parts)
        assert int(getattr(whole.rows, column).sum()) == expected
    assert whole.rows.histograms.totals().tolist() == whole.rows.calls.tolist()
    assert whole.lost == sum(part.lost for part in parts)


def test_evidence_and_chains_of_hosts_stay_separate() -> None:
    here, there = full_window(), replace(full_window(), host="gpu8")
    fleet = merge([here, there])
    evidence = fleet.evidence
    assert tenants_of(evidence) == {f"{host}/{name}" for host in ("gpu7", "gpu8") for name in TENANTS}
    assert tenants_of(evidence) <= set(fleet.tenants)
    for name in RECORDS:
        alone = getattr(EVIDENCE, name)
        assert len(getattr(evidence, name)) == 2 * len(alone), name
    assert sum(charge.ns for charge in evidence.charges) == 2 * sum(charge.ns for charge in EVIDENCE.charges)
    assert evidence.charges[2].culprit_tenant == "", "the Linux kernel has no tenant"
    assert evidence.swap_in_bytes == 2 * EVIDENCE.swap_in_bytes
    assert evidence.unknown == EVIDENCE.unknown
    assert [(chain.id, chain.tenant) for chain in fleet.chains] == [
        (f"{host}/{chain.id}", f"{host}/{chain.tenant}") for chain in CHAINS for host in ("gpu7", "gpu8")
    ]
    culprit = fleet.chains[1].culprits[0]
    assert (culprit.tenant, fleet.chains[1].rows[0].tenant) == ("gpu8/docker:aa", "gpu8/cri:bb")
    assert fleet.chains[1].links[4].tenant == ""
    third = replace(full_window(), host="gpu9")
    same(merge([fleet, third]), merge([here, there, third]))


def test_sharing_of_devices_stays_separate_by_host() -> None:
    one = full_window()
    both = merge([one, replace(one, host="gpu8")])
    overlaps = [(over.device, over.tenant, over.other) for over in both.evidence.overlaps]
    assert overlaps == [("0", f"{host}/cri:bb", f"{host}/docker:aa") for host in ("gpu7", "gpu8")]
    assert [given.tenant for given in both.allocations] == ["gpu7/cri:bb", "", "gpu8/cri:bb", ""]
    assert {
        holder.tenant
        for device in both.devices.devices
        for instance in device.instances
        for holder in instance.processes
    } == {"gpu7/cri:bb", "gpu8/cri:bb"}
    assert {key.device for key in both.rows.keys} == {"", "0"}


def test_allocations_are_those_of_the_last_window_and_activity_adds_up() -> None:
    last = full_window()
    first = replace(last, start=last.start - last.seconds, allocations=last.allocations[1:])
    both = merge([first, last])
    assert both.allocations == last.allocations
    assert [active.active_ns for active in both.evidence.activity] == [2_800_000_000, 1_400_000_000]
    assert [over.ns for over in both.evidence.overlaps] == [640_000_000]


def test_evidence_of_two_windows_adds_up() -> None:
    first = full_window()
    use, idle = EVIDENCE.tenants
    later = replace(
        EVIDENCE,
        tenants=(replace(use, cpu_ns=5, oom_kills=0, cpu_quota=None, memory_used_bytes=1),),
        block_io=(replace(EVIDENCE.block_io[0], max_ns=9), replace(EVIDENCE.block_io[0], device="sda")),
        unknown=(),
    )
    both = merge([first, replace(first, start=first.end, evidence=later, chains=CHAINS[1:])])
    assert [(charge.ns, charge.times) for charge in both.evidence.charges] == [
        (2 * charge.ns, 2 * charge.times) for charge in EVIDENCE.charges
    ]
    summed = {record.tenant: record for record in both.evidence.tenants}
    assert summed["docker:aa"] == idle
    assert (summed["cri:bb"].cpu_ns, summed["cri:bb"].oom_kills) == (use.cpu_ns + 5, 1)
    assert (summed["cri:bb"].cpu_quota, summed["cri:bb"].memory_used_bytes) == (None, 1)
    disks = {io.device: io for io in both.evidence.block_io}
    assert disks["nvme0n1"].requests == 2 * EVIDENCE.block_io[0].requests
    assert disks["nvme0n1"].max_ns == EVIDENCE.block_io[0].max_ns
    assert set(disks) == {"nvme0n1", "sda"}
    assert both.evidence.events == 2 * EVIDENCE.events
    assert both.evidence.unknown == ()
    assert both.chains == CHAINS[1:]


def test_counters_of_devices_add_up() -> None:
    one = full_window()
    (device,) = one.devices.devices
    silent = replace(device, pcie_replays=None, ecc_corrected=None, xids=(79,), temperature_celsius=70.0)
    both = merge([one, replace(one, devices=replace(one.devices, devices=(silent,)))]).devices.devices[0]
    assert (both.pcie_replays, both.ecc_corrected, both.ecc_uncorrected) == (2, 1, 0)
    assert both.power_held_ns == 2 * 250_000_000
    assert (both.xids, both.temperature_celsius) == ((13, 79), 70.0)
    unknown = replace(silent, pcie_replays=None)
    parts = [replace(one, devices=replace(one.devices, devices=(unknown,)))] * 2
    assert merge(parts).devices.devices[0].pcie_replays is None
    assert merge([one, replace(one, devices=Devices(unavailable="gone"))]).devices.devices == ()


def test_time_of_processes_on_a_gpu_adds_up_and_can_be_subtracted() -> None:
    made = full_window()
    (device,) = made.devices.devices

    def devices(*resident: tuple[int, int | None]) -> Devices:
        processes = (DeviceProcess(pid, "C", resident_ns=ns) for pid, ns in resident)
        return replace(made.devices, devices=(replace(device, processes=tuple(processes)),))

    def times(found: Devices) -> dict[int, int | None]:
        return {one.pid: one.resident_ns for one in found.devices[0].processes}

    parts = devices((7, 300), (9, 600)), devices((7, 50), (9, None)), devices((7, 5), (8, 900))
    merged = merge([replace(made, devices=part) for part in parts])
    assert times(merged.devices) == {7: 355, 8: 900}
    moving = MovingDevices()
    for part in parts:
        moving.add(part)
    moving.remove(parts[0])
    assert times(moving.sum(parts[2])) == {7: 55, 8: 900}
    moving.remove(parts[1])
    moving.remove(parts[2])
    moving.add(parts[1])
    assert times(moving.sum(parts[1])) == {7: 50, 9: None}
