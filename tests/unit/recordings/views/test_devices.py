"""Tests devices in queries: processes, allocations, activity and overlaps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stalltop.model.devices.activity import DeviceActivity
from stalltop.model.devices.device import DeviceProcess, MigInstance
from stalltop.model.sharing.placing import placement
from stalltop.recordings.query import ready
from stalltop.recordings.query.ask import answer
from stalltop.recordings.read.reading import open_file
from tests.windows.full import full_window
from tests.windows.recordings import following, record


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return record(tmp_path / "r.stalltop", following(3))


def asked(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with open_file(path) as recorded:
        return list(answer(recorded, sql, 60).rows)


def test_an_allocation_joins_its_device_and_tenant(file: Path) -> None:
    found = asked(
        file,
        "SELECT DISTINCT a.pod, a.pod_container, uuid, replica, device, name FROM allocations a"
        " LEFT JOIN containers c ON c.cgroup_id = a.cgroup_id ORDER BY uuid",
    )
    assert found == [
        ("llm-0", "server", "GPU-5f2c", "2", "0", "serve"),
        ("train-0", "main", "MIG-aa", None, "0:3", None),
        ("train-0", "main", "MIG-bb", None, "0:4", None),
    ]


def test_an_overlap_is_listed_for_both_tenants(file: Path) -> None:
    sides = asked(
        file,
        "SELECT c.name, o.name, device, SUM(overlap_ns) FROM overlaps v"
        " JOIN containers c ON c.cgroup_id = v.cgroup_id JOIN containers o ON o.cgroup_id = v.other_cgroup_id"
        " GROUP BY 1, 2 ORDER BY 1",
    )
    assert sides == [("serve", "train", "0", 960_000_000), ("train", "serve", "0", 960_000_000)]
    assert asked(file, "SELECT device, SUM(active_ns) FROM activity GROUP BY device") == [
        ("0", 3 * 1_400_000_000),
        ("0:3", 3 * 700_000_000),
    ]


def test_processes_and_mig_devices_are_listed(file: Path) -> None:
    assert asked(
        file,
        "SELECT DISTINCT name, pid, device, d.kind, memory_bytes FROM device_processes d"
        " JOIN containers USING (cgroup_id) ORDER BY pid",
    ) == [("train", 100, "0", "C", 70_000_000_000), ("serve", 200, "0:3", "C", 500_000_000)]
    assert asked(file, "SELECT DISTINCT device, uuid, profile FROM mig_devices ORDER BY device") == [
        ("0:3", "MIG-aa", "1g.10gb"),
        ("0:4", "MIG-bb", ""),
    ]


@pytest.mark.parametrize(("compute", "device"), [(0, "0:3"), (None, "0:3"), (1, "0")])
def test_a_process_listed_with_its_gpu_is_on_its_mig_device(
    compute: int | None, device: str, tmp_path: Path
) -> None:
    window = full_window()
    (first, *others) = window.devices.devices
    holder = DeviceProcess(100, "C", 7, "docker:aa", gpu_instance=9, compute_instance=compute)
    instance = MigInstance(0, 3, "MIG-aa", gpu_instance=9, compute_instance=0)
    gpu = replace(first, processes=(holder,), instances=(instance,))
    made = replace(window, devices=replace(window.devices, devices=(gpu, *others)))
    path = record(tmp_path / "r.stalltop", [made])
    assert asked(path, "SELECT device, pid, memory_bytes FROM device_processes") == [(device, 100, 7)]
    assert placement(made).by_process == {("docker:aa", 100): (device,)}


def test_calls_are_counted_on_each_allocated_gpu(tmp_path: Path) -> None:
    window = full_window()
    keys = tuple(
        key._replace(device="0" if key.tenant == "cri:bb" else key.device) for key in window.rows.keys
    )
    given = replace(window.allocations[0], devices=("GPU-5f2c::0", "MIG-aa"))
    made = replace(window, rows=replace(window.rows, keys=keys), allocations=(given,))
    path = record(tmp_path / "r.stalltop", [made])
    calls = {row[4]: row[7:9] for row in asked(path, ready.query("allocations"))}
    assert calls == {"0": (5, None), "0:3": (0, None)}


READY = {
    "allocations": ("prod", "llm-0", "server", "nvidia.com/gpu.shared", "0", 6.0, 4.2, None, 15, "gpu7"),
    "overlaps": ("0", "serve", 4.2, "train", 0.96, 22.9),
    "gpu-tenants": ("not measured", "serve", 15, 0, 0.0),
}


@pytest.mark.parametrize("name", READY)
def test_named_queries_show_who_shares_a_gpu(name: str, file: Path) -> None:
    first = asked(file, ready.query(name))[0]
    for found, expected in zip(first, READY[name], strict=False):
        assert found == pytest.approx(expected) if isinstance(expected, float) else found == expected


@pytest.mark.parametrize("name", READY)
def test_named_queries_run_on_a_file_without_device_figures(name: str, tmp_path: Path) -> None:
    one = full_window()
    unplaced = replace(
        one,
        rows=replace(one.rows, keys=tuple(key._replace(device="") for key in one.rows.keys)),
        evidence=replace(one.evidence, activity=(), overlaps=()),
        allocations=(),
    )
    found = asked(record(tmp_path / "r.stalltop", [unplaced]), ready.query(name))
    assert {row[0] for row in found} == ({"not measured"} if name == "gpu-tenants" else set())


@pytest.mark.parametrize(
    ("tenant", "labels", "expected"),
    [
        ("cri:bb", ("0", "0"), [4.2]),
        # If the activity, or the tenant of the allocation, is unknown, the answer is NULL and not zero.
        ("cri:bb", ("0", ""), [None]),
        ("cri:bb", ("", ""), [None]),
        ("", ("0", "0"), [None]),  # the tenant of the allocation is unknown
        ("cri:cc", ("0", "0"), [0.0]),  # the tenant is known and was not active
    ],
)
def test_unknown_activity_on_an_allocated_gpu_is_null(
    tenant: str, labels: tuple[str, str], expected: list[float | None], tmp_path: Path
) -> None:
    """``labels`` are the devices on which docker:aa and cri:bb were active; '' if unknown."""
    made = []
    activity = DeviceActivity(labels[0], "docker:aa", 10**9), DeviceActivity(labels[1], "cri:bb", 14 * 10**8)
    for window in following(3):
        known = {**window.tenants, "cri:cc": replace(window.tenants["cri:bb"], id="cri:cc", cgroup_id=77)}
        made.append(
            replace(
                window,
                tenants=known,
                evidence=replace(window.evidence, activity=activity),
                allocations=tuple(replace(one, tenant=tenant) for one in window.allocations[:1]),
            )
        )
    path = record(tmp_path / "r.stalltop", made)
    rows = asked(path, f"SELECT active_s FROM ({ready.query('allocations').rstrip(chr(10) + ';')})")
    assert [value for (value,) in rows] == expected
