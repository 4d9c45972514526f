"""Tests that simulated windows are consistent, reproducible and marked as simulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from stalltop.demo.scenario import load_scenario, scenario_names
from stalltop.demo.simulated.host import CPU_TAKEN, DISK_LOADED, PERIOD_SECONDS
from stalltop.demo.simulated.plots import PLOTS
from stalltop.demo.simulated.windows import SimulatedSource, _histograms
from stalltop.demo.source import simulated_source
from stalltop.diagnosis.engine import Diagnosis, explain
from stalltop.model.chain import Chain
from stalltop.model.cuda_kernels import KernelCount
from stalltop.model.evidence import HOST_GAP, HOST_LAYER, HOST_WORK
from stalltop.model.histograms.hdr import HIGHEST_NS, HIGHEST_OF_INDEX, index_of
from stalltop.model.row_key import RowKey
from stalltop.model.sharing.sharing import sharings
from stalltop.model.window import LOSSES, SPLITS, Window
from stalltop.probes.nvml.readings import THROTTLE_REASONS


def clock(step: float = 1.0) -> Callable[[], float]:
    now = 1_700_000_000.0 - step

    def tick() -> float:
        nonlocal now
        now += step
        return now

    return tick


def windows(count: int, seed: int = 7, step: float = 1.0) -> list[Window]:
    source = SimulatedSource(seed, clock=clock(step))
    return [source.read() for _ in range(count)]


@cache
def period() -> tuple[Window, ...]:
    """Returns the windows of one period, after which the simulated faults repeat."""
    return tuple(windows(int(PERIOD_SECONDS)))


def test_rows_match_their_histograms() -> None:
    for window in windows(3):
        rows = window.rows
        assert len(set(rows.keys)) == len(rows.keys)
        assert np.array_equal(rows.histograms.totals(), rows.calls)
        highest = HIGHEST_OF_INDEX[rows.histograms.index[rows.histograms.start[1:] - 1]]
        busy = rows.calls > 0
        assert [index_of(int(value)) for value in rows.max_ns[busy]] == [
            index_of(int(value)) for value in highest[busy]
        ]
        assert np.all(rows.total_ns >= rows.max_ns)
        assert np.all(rows.total_ns <= rows.calls * np.maximum(rows.max_ns, 1))
        assert np.all(rows.errors <= rows.calls)
        assert rows.calls.dtype == rows.total_ns.dtype == np.uint64


def test_nested_calls_belong_to_an_outermost_call() -> None:
    (window,) = windows(1)
    rows = window.rows
    calls = {(key.pid, key.operation): int(count) for key, count in zip(rows.keys, rows.calls, strict=True)}
    total = {(key.pid, key.operation): int(ns) for key, ns in zip(rows.keys, rows.total_ns, strict=True)}
    nested = [key for key in rows.keys if key.nested]
    assert {key.layer for key in nested} == {"driver"}
    pid = next(key.pid for key in nested)
    assert calls[pid, "cuLaunchKernel"] == calls[pid, "cudaLaunchKernel"] > 1_000
    assert 0 < total[pid, "cuLaunchKernel"] < total[pid, "cudaLaunchKernel"]


def test_same_seed_and_clock_give_the_same_windows() -> None:
    first, second, other = windows(3), windows(3), windows(3, seed=8)
    assert all(np.array_equal(a.rows.calls, b.rows.calls) for a, b in zip(first, second, strict=True))
    assert [a.open_calls for a in first] == [b.open_calls for b in second]
    assert first[0].tenants == second[0].tenants
    assert not np.array_equal(first[0].rows.calls, other[0].rows.calls)


def test_the_window_has_the_requested_size() -> None:
    window = SimulatedSource(1, tenants=23, operations=12, clock=clock()).read()
    assert len(window.tenants) == 23
    per_process: dict[tuple[str, int], list[RowKey]] = {}
    for key in window.rows.keys:
        if key.layer != HOST_LAYER:
            per_process.setdefault((key.tenant, key.pid), []).append(key)
    assert {len(keys) for keys in per_process.values()} == {12}
    assert set(window.tenants) == {key.tenant for key in window.rows.keys}
    full = SimulatedSource(1, tenants=3, operations=40, clock=clock()).read().rows
    # The trainer has two processes with a row of host gaps each, and its worker has one of host work.
    assert len(full) == 4 * 40 + 4 + 1
    with pytest.raises(ValueError, match="at least one"):
        SimulatedSource(1, tenants=0)


def test_windows_have_what_the_screen_shows_and_it_changes() -> None:
    seen = period()
    assert all(window.simulated and not window.lost and set(window.loss) == set(LOSSES) for window in seen)
    assert {key.layer for key in seen[0].rows.keys} == {"runtime", "driver", "nccl", HOST_LAYER}
    assert max(call.age_ns for window in seen for call in window.open_calls) > 5_000_000_000
    assert len({window.devices.devices[0].utilization_percent for window in seen}) > 5
    system = seen[-1].system
    assert system is not None
    assert 0 < system.cpu_percent < 100
    totals = [int(window.rows.calls.sum()) for window in seen]
    assert max(totals) > 1.1 * min(totals)
    # Contention: in some seconds the median of synchronizing calls is clearly longer than in others.
    row = next(i for i, key in enumerate(seen[0].rows.keys) if key.operation == "cudaStreamSynchronize")
    medians = [int(window.rows.histograms.percentiles([50])[row, 0]) for window in seen]
    assert max(medians) > 2 * min(medians)


def test_length_and_reason_are_reported() -> None:
    source = SimulatedSource(1, reason="no compiler", clock=clock(2.5))
    first, second = source.read(), source.read()
    assert first.end == second.start
    assert second.seconds == pytest.approx(2.5)
    assert first.coverage.tracing == "no compiler"
    source.close()
    source.close()


def test_histograms_use_the_counters_of_hdr_histogram() -> None:
    values = [1, 127, 128, 255, 256, 257, 511, 512, 1_000_000, 2**31 + 12345, HIGHEST_NS]
    made = _histograms(np.array([values], np.int64), np.ones((1, len(values)), np.int64))
    expected: dict[int, int] = {}
    for value in values:
        expected[index_of(value)] = expected.get(index_of(value), 0) + 1
    assert dict(zip(made.index.tolist(), made.count.tolist(), strict=True)) == expected


def test_splits_add_up_and_charges_stay_within_them() -> None:
    for window in period()[::10]:
        rows = window.rows
        assert rows.split_ns is not None
        assert np.array_equal(rows.split_ns.sum(axis=1), rows.total_ns)
        at = {(key.pid, key.layer, key.operation): i for i, key in enumerate(rows.keys) if not key.nested}
        charged: dict[tuple[int, str, str, str], int] = {}
        for charge in window.evidence.charges:
            key = (charge.pid, charge.layer, charge.operation, charge.kind)
            charged[key] = charged.get(key, 0) + charge.ns
        for (pid, layer, operation, kind), ns in charged.items():
            assert ns <= rows.split_ns[at[pid, layer, operation], SPLITS.index(kind)]
        assert {HOST_GAP, HOST_WORK} <= {key.operation for key in rows.keys}
        assert {record.tenant for record in window.evidence.processes} <= set(window.tenants)
        assert {record.tenant for record in window.evidence.block_io} <= set(window.tenants)


def test_tenants_are_active_where_they_run_and_overlaps_stay_within_that() -> None:
    for window in windows(4, step=2.0)[1:]:
        here = {
            (device.label, process.tenant)
            for device in window.devices.devices
            for process in device.processes
        }
        active = {(each.device, each.tenant): each.active_ns for each in window.evidence.activity}
        assert active.keys() == here
        assert all(0 < ns <= 2_000_000_000 for ns in active.values())
        assert window.evidence.overlaps
        for pair in window.evidence.overlaps:
            one, two = active[pair.device, pair.tenant], active[pair.device, pair.other]
            assert 0 < pair.ns <= min(one, two)
            assert pair.ns >= one + two - 2_000_000_000


def test_a_tenant_that_waits_for_a_device_is_active_there() -> None:
    source = SimulatedSource(plot=PLOTS["mps"], clock=clock())
    source.read()
    seen = 0
    for _ in range(8):
        window = source.read()
        assert window.rows.split_ns is not None
        waited: dict[int, int] = {}
        spent: dict[int, int] = {}
        total = zip(
            window.rows.keys, window.rows.split_ns.tolist(), window.rows.total_ns.tolist(), strict=True
        )
        for key, split_ns, total_ns in total:
            if key.outermost and key.layer != HOST_LAYER:
                spent[key.pid] = spent.get(key.pid, 0) + total_ns
                if "Synchronize" in key.operation:
                    waited[key.pid] = waited.get(key.pid, 0) + split_ns[SPLITS.index("gpu")]
        (sharing,) = sharings(window)
        for one in sharing.sharers:
            for pid in one.pids:
                if spent.get(pid, 0) <= 1e9:  # the calls of this process did not overlap
                    assert (one.active_ns or 0) >= 0.99 * waited.get(pid, 0)
                    seen += pid in waited
    assert seen > 8


def test_culprits_have_used_what_they_are_charged_with() -> None:
    charged_cpu = False
    for window in period():
        evidence = window.evidence
        used = {process.pid: process.cpu_ns for process in evidence.processes}
        by_tenant: dict[str, int] = {}
        for process in evidence.processes:
            by_tenant[process.tenant] = by_tenant.get(process.tenant, 0) + process.cpu_ns
        assert {use.tenant: use.cpu_ns for use in evidence.tenants} == by_tenant
        taken: dict[int, int] = {}
        for charge in evidence.charges:
            if charge.kind == "runqueue":
                taken[charge.culprit_pid] = taken.get(charge.culprit_pid, 0) + charge.ns
        assert all(ns <= used[pid] for pid, ns in taken.items())
        charged_cpu |= bool(taken)
    assert charged_cpu


def test_throttle_reasons_are_those_of_the_driver() -> None:
    known = {name for _, name in THROTTLE_REASONS}
    shown = {
        reason
        for window in period()
        for device in window.devices.devices
        for reason in device.throttle_reasons
    }
    assert shown
    assert shown <= known


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("noisy-neighbour", "cpu_contention"),
        ("slow-disk", "loader_disk"),
        ("straggler", "nccl_straggler"),
    ],
)
def test_a_simulated_scenario_shows_its_cause(name: str, cause: str) -> None:
    of_plots = {"cpu_contention", "loader_disk", "nccl_straggler"}
    source, diagnosis = SimulatedSource(3, plot=PLOTS[name], clock=clock()), Diagnosis()
    seen: dict[str, Chain] = {}
    for _ in range(int(DISK_LOADED[1])):
        for chain in diagnosis.add(source.read()).chains:
            if chain.severity in ("critical", "high") and chain.cause in of_plots:
                seen[chain.cause] = chain
    assert set(seen) == {cause}
    assert_losses_nest(seen[cause])


def test_every_scenario_can_be_simulated() -> None:
    assert set(PLOTS) == set(scenario_names())


@pytest.mark.parametrize("name", scenario_names())
def test_a_simulated_scenario_has_the_tenants_of_the_real_one(name: str) -> None:
    """A container of a pod has the name POD/CONTAINER; the MPS server, which only serves the others, is left
    out."""
    scenario = load_scenario(name)
    real = {
        f"{plan.pod.name}/{plan.pod.container}" if plan.pod else plan.name
        for plan in scenario.tenants
        if plan.name != "mps"
    }
    window = simulated_source(scenario).read()
    assert {tenant.name for tenant in window.tenants.values()} == real
    assert window.simulated


def test_the_tour_shows_a_fault_of_each_family_while_its_caption_says_so() -> None:
    scenario = load_scenario("tour")
    plot = replace(PLOTS["tour"], timetable=scenario.timetable)
    source, diagnosis = SimulatedSource(3, plot=plot, clock=clock()), Diagnosis()
    seen: dict[str, set[str]] = {}
    for second in range(int(scenario.timetable.period)):
        fault = scenario.timetable.at(second)
        chains = diagnosis.add(source.read()).chains
        if fault is not None and second > fault.begin + 8:
            seen.setdefault(fault.family, set()).update(chain.cause for chain in chains if chain.open)
    causes = {
        "cpu": "cpu_contention",
        "disk": "loader_disk",
        "lock": "lock_contention",
        "rank": "nccl_straggler",
        "heat": "gpu_thermal",
    }
    assert set(seen) == set(causes)
    for family, cause in causes.items():
        assert seen[family] & set(causes.values()) == {cause}


def test_the_other_rank_waits_for_the_one_that_is_late() -> None:
    timetable = load_scenario("tour").timetable
    fault = next(fault for fault in timetable.faults if fault.family == "rank")
    source = SimulatedSource(3, plot=replace(PLOTS["tour"], timetable=timetable), clock=clock())
    windows = [source.read() for _ in range(int(fault.end))]
    begin, end = int(fault.begin), int(fault.end)
    ranks = windows[(begin + end) // 2].evidence.ranks
    (late,) = (rank for rank in ranks if rank.last)

    def waited_ns(pid: int, seconds: range) -> float:
        rows = [
            float(total / calls)
            for one in (windows[second] for second in seconds)
            for key, calls, total in zip(one.rows.keys, one.rows.calls, one.rows.total_ns, strict=True)
            if key.pid == pid and key.operation == "cudaStreamSynchronize" and calls
        ]
        return float(np.median(rows))

    longer = {
        rank.pid: waited_ns(rank.pid, range(begin + 1, end - 1))
        / waited_ns(rank.pid, range(begin - 8, begin - 1))
        for rank in ranks
    }
    late_longer = longer.pop(late.pid)
    assert min(longer.values()) > 1.2 * late_longer


def test_simulated_mig_instances_have_one_tenant_each() -> None:
    window = simulated_source(load_scenario("mig")).read()
    divided, whole = window.devices.devices
    assert [part.profile for part in divided.instances] == ["3g.40gb", "2g.20gb", "1g.10gb"]
    assert divided.mig
    assert not whole.mig
    assert divided.utilization_percent is None
    names = {
        label: {window.tenants[process.tenant].name for process in processes}
        for label, processes in (
            *((part.label, part.processes) for part in divided.instances),
            ("1", whole.processes),
        )
    }
    assert names == {
        "0:0": {"chat-0/server"},
        "0:1": {"embedder-0/main"},
        "0:2": {"notebook-anna/jupyter"},
        "1": {"trainer-0/train"},
    }
    assert {key.device for key in window.rows.keys if key.layer != HOST_LAYER} == set(names)


def test_simulated_pods_share_a_device_through_mps() -> None:
    source = SimulatedSource(3, plot=PLOTS["mps"], clock=clock())
    for _ in range(12):
        window = source.read()
        (sharing,) = sharings(window)
        assert (sharing.way, len(sharing.sharers), sharing.shared) == ("mps", 4, True)
        assert all(one.launches and one.waited_ns and one.given for one in sharing.sharers)
        assert [holding.use for holding in sharing.holdings] == ["used"] * 4
        assert not [chain for chain in explain(window) if chain.severity in ("critical", "high")]


def assert_losses_nest(chain: Chain) -> None:
    """Fails if the links below a link lose more time in total than that link."""
    steps = [link for link in chain.links if link.role != "factor" and link.ns_per_s is not None]
    for at, link in enumerate(steps):
        below: list[float] = []
        for other in steps[at + 1 :]:
            if other.depth <= link.depth:
                break
            if other.depth == link.depth + 1:
                below.append(other.ns_per_s or 0.0)
        assert sum(below) <= (link.ns_per_s or 0.0) * 1.0001, chain.links


def test_simulated_windows_say_that_they_do_not_show_a_users_scenario() -> None:
    own = replace(load_scenario("trio"), name="mine")
    assert simulated_source(own).read().coverage.tracing == "simulated; other tenants than those of mine"
    assert simulated_source(load_scenario("trio"), reason="why").read().coverage.tracing == "why"
    (window,) = windows(1)
    (missing,) = window.coverage.missing
    assert missing.pid not in {process.pid for process in window.evidence.processes}


def test_the_diagnosis_finds_the_simulated_faults() -> None:
    source, diagnosis = SimulatedSource(3, clock=clock()), Diagnosis()
    said: dict[int, list[Chain]] = {}
    for second in range(int(PERIOD_SECONDS)):
        window = diagnosis.add(source.read())
        said[second] = [chain for chain in window.chains if chain.open]
    names = {tenant.id: tenant.name for tenant in window.tenants.values()}

    def found(second: float) -> set[tuple[str, str, str]]:
        return {
            (chain.cause, names.get(chain.tenant, ""), names[chain.culprits[0].tenant])
            for chain in said[int(second)]
            if chain.severity in ("critical", "high") and chain.culprits
        }

    cpu = ("cpu_contention", "chat-server", "notebook-anna")
    disk = ("loader_disk", "bert-trainer", "notebook-ben")
    assert cpu in found(CPU_TAKEN[0] + 8)
    assert disk in found(DISK_LOADED[0] + 8)
    assert not found(CPU_TAKEN[0] - 5) & {cpu, disk}
    assert not found(DISK_LOADED[0] - 5) & {cpu, disk}


def test_simulated_launches_have_cuda_kernels() -> None:
    for window in windows(3):
        launched: dict[tuple[str, int, str, str, str, bool, str], list[KernelCount]] = {}
        for count in window.kernels:
            launched.setdefault(count.row, []).append(count)
        assert launched
        calls = dict(zip(window.rows.keys, window.rows.calls.tolist(), strict=True))
        for row, kernels in launched.items():
            key = RowKey(window.host, *row)
            assert key.outermost
            assert sum(kernel.calls for kernel in kernels) <= calls[key]
            for kernel in kernels:
                assert kernel.calls == sum(count for _, count in kernel.buckets)
