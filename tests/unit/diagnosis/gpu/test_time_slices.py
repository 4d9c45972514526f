"""Tests who is found to hold a time-sliced GPU, by the driver's log of context switches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.gpu.causes import gpu_causes
from stalltop.diagnosis.gpu.sharing import MOST_NEIGHBOURS
from stalltop.diagnosis.gpu.time_slices import COPY_BYTES_PER_SECOND
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.model.chain import Link
from stalltop.model.devices.activity import DeviceActivity
from stalltop.model.devices.device import Device, DeviceProcess, Devices
from stalltop.model.evidence import Evidence
from stalltop.model.sharing.ways import TURNS_PER_SECOND
from tests.unit.diagnosis.programs import found
from tests.windows.evidence import BATCH, SERVE, TRAIN, Spent, row, window

MS = 1_000_000
SYNC = "cudaStreamSynchronize"


def gpu(*resident: tuple[int, str, int], switches: int | None = 450, **others: object) -> Device:
    """Returns a GPU with processes (PID, tenant, time on the GPU in ms)."""
    processes = tuple(
        DeviceProcess(pid, "C", 1 << 30, tenant, process=f"p{pid}", resident_ns=ms * MS)
        for pid, tenant, ms in resident
    )
    told = Device(
        0, "GPU-0", "H200", processes=processes, context_switches=switches, context_log_ns=1_000 * MS
    )
    return replace(told, **others)  # type: ignore[arg-type]


def neighbours(device: Device, *rows: Spent) -> list[Suspicion]:
    return [one for one in found(window(rows, devices=Devices((device,)))) if one.cause == "gpu_neighbours"]


def culprits(told: Suspicion) -> list[Link]:
    return [link for link in told.links if link.role == "culprit"]


def test_the_process_that_has_the_gpu_meanwhile_is_named_with_its_share() -> None:
    device = gpu((100, TRAIN, 200), (7, BATCH, 700))
    (told,) = neighbours(device, row(SYNC, 40, gpu=800))
    assert told.tenant == TRAIN
    assert told.lost_ns_per_s == pytest.approx(600 * MS)
    (culprit,) = culprits(told)
    assert (culprit.tenant, culprit.pid, culprit.process) == (BATCH, 7, "p7")
    assert "70% of the time" in culprit.text
    assert "while p7 (pid 7) of batch-job has it" in told.summary
    assert told.unknown == ()


def test_both_sides_of_a_shared_gpu_may_lose_time() -> None:
    device = gpu((100, TRAIN, 500), (7, BATCH, 450))
    found = neighbours(
        device, row(SYNC, 40, gpu=950), row(SYNC, 40, gpu=900, tenant=BATCH, pid=7, program="batch.py")
    )
    assert {(one.tenant, round(one.lost_ns_per_s / MS)) for one in found} == {(TRAIN, 450), (BATCH, 450)}


def test_waits_in_copies_to_the_host_count() -> None:
    device = gpu((100, TRAIN, 100), (7, BATCH, 850))
    (told,) = neighbours(device, row("cudaMemcpyAsync DtoH", 40, running=500))
    assert told.lost_ns_per_s == pytest.approx(400 * MS)


def test_a_process_loses_no_more_than_others_had() -> None:
    device = gpu((100, TRAIN, 100), (7, BATCH, 60))
    (told,) = neighbours(device, row(SYNC, 40, gpu=900))
    assert told.lost_ns_per_s == pytest.approx(60 * MS)


def test_the_part_of_the_same_tenant_is_not_charged_to_others() -> None:
    device = gpu((100, TRAIN, 100), (101, TRAIN, 600), (7, BATCH, 200))
    (told,) = neighbours(device, row(SYNC, 40, gpu=900))
    assert told.lost_ns_per_s == pytest.approx(200 * MS)
    assert [link.pid for link in culprits(told)] == [7]


def test_untraced_processes_and_many_processes_are_named() -> None:
    others = [(pid, SERVE, 10 * pid) for pid in range(7, 12)]
    (told,) = neighbours(gpu((100, TRAIN, 100), *others), row(SYNC, 40, gpu=900))
    named = culprits(told)
    assert [link.pid for link in named] == [11, 10, 9, 0]
    assert len(named) == MOST_NEIGHBOURS + 1
    (told,) = neighbours(gpu((100, TRAIN, 100), (7, "", 700)), row(SYNC, 40, gpu=900))
    assert [link.pid for link in culprits(told)] == [7]


def test_a_throttled_gpu_does_not_hide_who_holds_it() -> None:
    device = gpu((100, TRAIN, 200), (7, BATCH, 700), throttle_reasons=("power cap",))
    assert len(neighbours(device, row(SYNC, 40, gpu=800))) == 1


@pytest.mark.parametrize(
    "device",
    [
        gpu((100, TRAIN, 780), (7, BATCH, 30)),
        gpu((100, TRAIN, 0), (7, BATCH, 990), switches=int(TURNS_PER_SECOND) - 1),
        gpu((100, TRAIN, 200), (7, BATCH, 700), switches=None),
        gpu((100, TRAIN, 200), (101, TRAIN, 700)),
    ],
    ids=["has the GPU itself", "no turns", "no log", "processes of one tenant"],
)
def test_nobody_is_named_if_no_other_tenant_has_the_gpu_meanwhile(device: Device) -> None:
    assert neighbours(device, row(SYNC, 40, gpu=800)) == []


def test_the_rest_of_the_waits_is_for_the_own_work() -> None:
    device = gpu((100, TRAIN, 700), (7, BATCH, 250))
    rows = (row(SYNC, 40, gpu=950), row("cudaMemcpyAsync HtoD", 20, running=5, tenant=BATCH, pid=7))
    facts = Facts(window(rows, devices=Devices((device,))))
    [bound] = [one for one in gpu_causes(facts) if one.cause == "gpu_bound"]
    assert bound.lost_ns_per_s == pytest.approx(700 * MS)
    assert "waits for the work it gave the device, 70% of its time" in bound.summary


def test_time_of_copies_is_no_wait_for_a_time_slice() -> None:
    device = gpu((100, TRAIN, 100), (7, BATCH, 850))
    moved = row("cudaMemcpyAsync DtoH", 40, running=700, bytes_=round(0.6 * COPY_BYTES_PER_SECOND))
    assert neighbours(device, moved) == []


def test_threads_that_wait_for_the_same_work_count_once() -> None:
    device = gpu((100, TRAIN, 240), (7, BATCH, 700))
    waits = row(SYNC, 40, gpu=960)  # of four threads
    active = Evidence(activity=(DeviceActivity("0", TRAIN, 250 * MS),))
    made = window([waits], devices=Devices((device,)), evidence=active)
    assert [one for one in found(made) if one.cause == "gpu_neighbours"] == []


def test_only_calls_on_the_shared_gpu_count() -> None:
    device = gpu((100, TRAIN, 10), (7, BATCH, 900))
    other = replace(gpu((100, TRAIN, 0), switches=None), index=1, uuid="GPU-1")
    both = Devices((device, other))
    for label, named in (("1", 0), ("", 0), ("0", 1)):
        made = window([row(SYNC, 40, gpu=800, device=label)], devices=both)
        assert len([one for one in found(made) if one.cause == "gpu_neighbours"]) == named


def test_a_merged_window_is_longer_than_the_log() -> None:
    device = gpu((100, TRAIN, 200), (7, BATCH, 700))
    made = window([row(SYNC, 400, gpu=8_000)], devices=Devices((device,)), seconds=10.0)
    (told,) = [one for one in found(made) if one.cause == "gpu_neighbours"]
    assert told.lost_ns_per_s == pytest.approx(600 * MS)
    assert "70% of the time" in culprits(told)[0].text


def test_the_log_knows_better_than_earlier_waits() -> None:
    times = [1001.0 - ago for ago in range(60, 4, -2)]
    earlier = {
        ("kernels_per_s", TRAIN, 100): [(time, 1000.0) for time in times],
        ("device_wait_ns", TRAIN, 100): [(time, 8e6) for time in times],
    }
    rows = [
        *(row("cudaLaunchKernel", 1000, running=8), row(SYNC, 40, gpu=700)),
        row("cudaLaunchKernel", 5000, running=50, tenant=BATCH, pid=7, program="batch.py"),
    ]
    for device, named in (
        (gpu((100, TRAIN, 690), (7, BATCH, 10)), 0),
        (gpu((100, TRAIN, 690), (7, BATCH, 10), switches=None), 1),
    ):
        made = found(window(rows, devices=Devices((device,))), series=earlier)
        assert len([one for one in made if one.cause == "gpu_neighbours"]) == named
