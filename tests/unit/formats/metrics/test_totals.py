"""Tests the running totals of a host: they do not depend on how windows are merged, and their series end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stalltop.demo.simulated.windows import SimulatedSource
from stalltop.formats.metrics.labels import (
    ITSELF,
    LINUX,
    OTHER_CULPRIT,
    OTHER_TENANT,
    CallLabels,
    CulpritLabel,
    DeviceLabels,
    JobLabels,
    LossLabels,
    TenantLabels,
    WindowLabels,
)
from stalltop.formats.metrics.totals import (
    CALLS_COLUMN,
    ENDED_SECONDS,
    MOST_PROBLEMS,
    PARTS_COLUMN,
    TIME_COLUMN,
    HostTotals,
)
from stalltop.model.chain import Chain
from stalltop.model.devices.device import Device, Devices, MigInstance
from stalltop.model.evidence import HOST_GAP, HOST_LAYER, Charge, Evidence
from stalltop.model.merge.merging import merge
from stalltop.model.tenant import Tenant
from stalltop.model.window import SPLITS, Window
from tests.windows.by_hand import Calls, key, window

TRAIN = TenantLabels("train", container="train")
SERVE = TenantLabels("serve", "prod", "llm-0", "server")


def totals_of(*windows: Window, most: int = 100) -> HostTotals:
    totals = HostTotals(most)
    for one in windows:
        totals.add(one)
    return totals


def values(totals: HostTotals) -> dict[object, list[int]]:
    """Returns every total by its labels."""
    tables = (totals.calls, totals.losses, totals.activity, totals.figures, totals.xids)
    return {one.labels: one.values.tolist() for table in tables for one in table}


def at(second: int, *calls: Calls) -> Window:
    return window(calls, start=1_000.0 + second)


def test_merged_windows_give_the_same_totals() -> None:
    clock = [1_700_000_000.0]
    source = SimulatedSource(clock=lambda: clock[0])
    windows = []
    for _ in range(12):
        clock[0] += 1.0
        windows.append(source.read())
    one_by_one = totals_of(*windows, most=1_000)
    thinned = totals_of(merge(windows[:10]), merge(windows[10:]), most=1_000)
    assert values(one_by_one) == values(thinned)
    assert one_by_one.missed == thinned.missed
    assert one_by_one.probe_seconds == pytest.approx(thinned.probe_seconds)
    assert one_by_one.began == thinned.began


def test_calls_of_all_processes_and_devices_of_a_tenant_are_added_up() -> None:
    totals = totals_of(
        at(
            0,
            Calls(key(pid=1, device="0"), [1_000, 2_000], errors=1, bytes=64),
            Calls(key(pid=2, device="1"), [4_000]),
            Calls(key(pid=2, layer="driver", operation="cuLaunchKernel", nested=True), [900]),
            Calls(key(tenant="cri:bb"), [5_000]),
        )
    )
    found = {one.labels: one for one in totals.calls}
    assert set(found) == {CallLabels(TRAIN, "cudaLaunchKernel"), CallLabels(SERVE, "cudaLaunchKernel")}
    train = found[CallLabels(TRAIN, "cudaLaunchKernel")]
    assert train.values[: TIME_COLUMN + 1].tolist() == [3, 1, 64, 7_000]
    assert train.created == 1_000.0


def test_the_time_between_calls_has_parts_but_no_calls() -> None:
    gap = Calls(key(HOST_GAP, layer=HOST_LAYER), [3_000_000])
    (series,) = totals_of(window([gap], split=True)).calls
    assert series.labels.operation == HOST_GAP
    assert series.values[CALLS_COLUMN] == 0
    assert series.values[PARTS_COLUMN + SPLITS.index("running")] == 3_000_000
    assert int(series.values.sum()) == 3_000_000


def test_series_of_an_ended_tenant_end_and_begin_anew() -> None:
    call, other = Calls(key(), [1_000]), Calls(key(tenant="cri:bb"), [1_000])
    alone = {"cri:bb": at(0).tenants["cri:bb"]}
    totals = totals_of(at(0, call, other))
    last = int(ENDED_SECONDS)
    for second in (1, last, last + 1):
        totals.add(replace(at(second, other), tenants=alone))
        # The last value stays long enough for a scrape.
        names = {one.labels.who for one in totals.calls}
        assert names == ({TRAIN, SERVE} if second <= last else {SERVE})
    totals.add(at(last + 2, call))
    (again,) = (one for one in totals.calls if one.labels.who == TRAIN)
    assert again.values[CALLS_COLUMN] == 1
    assert again.created == 1_000.0 + last + 2


def test_a_living_tenant_without_calls_keeps_its_series() -> None:
    totals = totals_of(at(0, Calls(key(), [1_000])))
    for second in range(1, int(3 * ENDED_SECONDS), 30):
        totals.add(at(second))
    assert [one.labels.who for one in totals.calls] == [TRAIN]


def test_lost_time_is_split_by_culprit() -> None:
    row = ("docker:aa", 100, "python3", "runtime", "cudaLaunchKernel", "runqueue")
    charges = (
        Charge(*row, "cri:bb", 7, "encode", 5, 1),
        Charge(*row, "cri:bb", 8, "encode", 6, 1),
        Charge(*row, "docker:aa", 100, "python3", 7, 1),
        Charge(*row, "", 0, "", 8, 1),
        Charge(*row, "", 0, "others", 9, 1),
        Charge(*row, "", 12, "kworker", 10, 1),
    )
    losses = totals_of(replace(at(0), evidence=Evidence(charges=charges))).losses
    assert {one.labels: int(one.values[0]) for one in losses} == {
        LossLabels(TRAIN, "runqueue", CulpritLabel("serve")): 11,
        LossLabels(TRAIN, "runqueue", CulpritLabel(ITSELF)): 7,
        LossLabels(TRAIN, "runqueue", CulpritLabel(LINUX)): 8,
        LossLabels(TRAIN, "runqueue", OTHER_CULPRIT): 9,
        LossLabels(TRAIN, "runqueue", CulpritLabel("kworker")): 10,
    }


def test_lost_time_of_an_ended_culprit_ends() -> None:
    charge = Charge(
        *("docker:aa", 100, "python3", "runtime", "cudaLaunchKernel", "runqueue"),
        *("cri:bb", 7, "encode", 5, 1),
    )
    totals = totals_of(replace(at(0), evidence=Evidence(charges=(charge,))))
    alone = {"docker:aa": at(0).tenants["docker:aa"]}
    totals.add(replace(at(1, Calls(key(), [1])), tenants=alone))
    assert len(totals.losses) == 1
    totals.add(replace(at(int(ENDED_SECONDS) + 1, Calls(key(), [1])), tenants=alone))
    assert len(totals.losses) == 0


def chain(number: int, cause: str = "cpu_contention", lost: float = 1.0) -> Chain:
    return Chain(
        *(f"{cause}:{number}", cause, "title", "high", "summary", f"t:{number}", number, "p", "", ""),
        *(lost, 0.9, (), ()),
        since=900.0 + number,
    )


def test_problems_are_bounded_and_folded_by_cause() -> None:
    chains = tuple(chain(number, lost=1_000.0 + number) for number in range(MOST_PROBLEMS + 5))
    none = replace(chain(9_998), open=False), replace(chain(9_999), severity="info")
    totals = totals_of(replace(at(0), chains=(*chains, *none)))
    assert len(totals.problems) == MOST_PROBLEMS + 1
    assert totals.folded()["problem"] == 5
    (labels,) = (labels for labels in totals.problems if labels.who == OTHER_TENANT)
    assert (labels.cause, labels.severity, labels.by) == ("cpu_contention", "high", OTHER_CULPRIT)
    assert sum(each.lost_seconds for each in totals.problems.values()) == pytest.approx(
        sum(each.lost_ms_per_s for each in chains) / 1e3
    )
    totals.add(at(1))
    assert totals.problems == {}


def test_further_operations_are_counted_as_other() -> None:
    totals = totals_of(
        at(0, *(Calls(key(f"cuda{number}"), [1_000 * (number + 1)]) for number in range(5))), most=3
    )
    assert totals.folded()["calls"] == 2
    assert sum(int(one.values[CALLS_COLUMN]) for one in totals.calls) == 5
    assert {one.labels.operation for one in totals.calls} == {"cuda4", "cuda3", "cuda2", "other"}


def test_time_without_windows_is_counted() -> None:
    totals = totals_of(at(0), at(1), at(10), at(11))
    assert totals.unobserved_seconds == pytest.approx(8.0)


@pytest.mark.parametrize("name", ["other", "itself", "Linux kernel"])
def test_a_tenant_with_a_reserved_name_is_shown_by_its_id(name: str) -> None:
    one = replace(at(0), tenants={"docker:aa": Tenant("docker:aa", name)})
    assert WindowLabels(one).who("docker:aa").tenant == "docker:aa"


def test_a_job_has_its_number_and_the_host_no_labels() -> None:
    tenants = {"slurm:job_42/step_0": Tenant("slurm:job_42/step_0", "job 42.0", "job", "slurm")}
    labels = WindowLabels(replace(at(0), tenants=tenants))
    assert labels.who("slurm:job_42/step_0") == TenantLabels("job 42.0", hpc_job="42")
    assert labels.who("user:1000/slurm:job_42").hpc_job == ""
    assert list(labels.jobs()) == [JobLabels("42")]
    assert labels.who("") == TenantLabels("")


def test_all_steps_of_a_job_are_one_job_with_what_is_known_of_each() -> None:
    def step(number: str, step: str, user: str, **labels: str) -> Tenant:
        identity = f"slurm:job_{number}/step_{step}"
        return Tenant(identity, identity, "job", "slurm", user=user, labels=tuple(labels.items()))

    tenants = [
        step("100", "batch", "bob", partition="cpu"),
        step("42", "0", "", partition="gpu", job="train"),
        step("42", "1", "alice", gpus="0,1", account="vision"),
    ]
    labels = WindowLabels(replace(at(0), tenants={one.id: one for one in tenants}))
    assert list(labels.jobs()) == [
        JobLabels("42", "train", "gpu", "vision", "alice", "0,1"),
        JobLabels("100", "", "cpu", "", "bob"),
    ]


def test_a_mig_device_has_the_uuid_of_its_gpu() -> None:
    part = MigInstance(0, 3, "MIG-1", gpu_instance=9)
    devices = Devices((Device(0, "GPU-1", "A100", instances=(part,)),))
    labels = WindowLabels(replace(at(0), devices=devices))
    assert labels.gpu("0") == DeviceLabels("GPU-1", "0")
    assert labels.gpu("0:3") == DeviceLabels("GPU-1", "0", "9")
    assert labels.gpu("5") == DeviceLabels("", "5")
    assert labels.gpu("") == DeviceLabels()


def test_counters_of_gpus_add_up_and_unknown_ones_have_no_series() -> None:
    def on(second: int, energy: int | None, *xids: int) -> Window:
        device = Device(0, "GPU-1", "A100", energy_millijoules=energy, xids=xids)
        return replace(at(second), devices=Devices((device,)))

    totals = totals_of(on(0, 1_500, 79), on(1, 500, 79, 31), on(2, None))
    assert {one.labels.figure: int(one.values[0]) for one in totals.figures} == {"energy_millijoules": 2_000}
    assert {one.labels.xid: int(one.values[0]) for one in totals.xids} == {"79": 2, "31": 1}


def test_totals_are_exact_beyond_32_bits() -> None:
    totals = HostTotals(4)
    for second in range(3):
        one = at(second, Calls(key(), [100_000_000_000]))
        rows = replace(one.rows, calls=np.array([2**40], np.uint64))
        totals.add(replace(one, rows=rows))
    (series,) = totals.calls
    assert series.values[CALLS_COLUMN] == 3 * 2**40
    assert series.values[TIME_COLUMN] == 300_000_000_000
