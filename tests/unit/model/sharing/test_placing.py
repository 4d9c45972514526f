"""Tests which rows belong to which devices."""

from __future__ import annotations

from dataclasses import replace

from stalltop.model.devices.device import Device, DeviceProcess, Devices, MigInstance
from stalltop.model.devices.labels import gpus_of, is_wanted, label_of, order_of, parts_of, text_of, wanted_of
from stalltop.model.merge.merging import merge
from stalltop.model.rows.pivot import NO_DEVICE, pivot
from stalltop.model.sharing.placing import placement
from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, window


def device(index: int, *processes: DeviceProcess) -> Device:
    return Device(index, f"GPU-{index}", "H100", processes=processes)


def on(*devices: Device, host: str = "gpu7") -> Window:
    calls = [
        Calls(key(tenant="docker:aa", pid=100, host=host), [1_000]),
        Calls(key("cudaMalloc", tenant="cri:bb", pid=200, host=host), [2_000]),
        Calls(key("cudaFree", tenant="cri:cc", pid=300, host=host), [4_000]),
    ]
    return replace(window(calls, host=host), devices=Devices(devices))


TRAIN, SERVE = DeviceProcess(100, "C", tenant="docker:aa"), DeviceProcess(200, "C", tenant="cri:bb")


def test_a_process_is_on_the_devices_that_list_it() -> None:
    found = placement(on(device(3, TRAIN, SERVE), device(0, TRAIN)))
    assert found.devices(key(tenant="docker:aa", pid=100)) == ("0", "3")
    assert found.devices(key(tenant="cri:bb", pid=200)) == ("3",)
    assert found.devices(key(tenant="cri:cc", pid=300)) == ()


def test_the_same_pid_of_another_tenant_is_another_process() -> None:
    found = placement(on(device(1, TRAIN)))
    assert found.devices(key(tenant="cri:bb", pid=100)) == ()


def test_a_listed_process_without_a_tenant_matches_by_pid_on_its_own_host() -> None:
    found = placement(on(device(1, DeviceProcess(300, "C"))))
    assert found.devices(key(tenant="cri:cc", pid=300)) == ("1",)
    assert found.devices(key(tenant="cri:cc", pid=300, host="gpu8")) == ()


def test_rows_are_grouped_by_device_and_others_are_labelled_as_unknown() -> None:
    groups = pivot(on(device(0, TRAIN), device(1, TRAIN, SERVE)), ["device"])
    assert groups.labels == (("GPU 0-1",), ("GPU 1",), (NO_DEVICE,))
    assert groups.total_ns.tolist() == [1_000, 2_000, 4_000]


def test_a_process_that_moves_to_another_device_changes_its_group() -> None:
    assert pivot(on(device(0, TRAIN)), ["device"]).labels[0] == ("GPU 0",)
    assert pivot(on(device(2, TRAIN)), ["device"]).labels[0] == ("GPU 2",)


def test_devices_of_one_index_on_two_hosts_are_two() -> None:
    fleet = merge([on(device(0, TRAIN)), on(device(0, TRAIN), host="gpu8")])
    groups = pivot(fleet, ["device"])
    assert groups.keys[:2] == (("gpu7/0",), ("gpu8/0",))


def test_device_labels_are_shown_as_ranges() -> None:
    lists = ((), ("",), ("2",), ("10", "2", "0", "1"), ("0:11", "1", "0:2", "0:1"))
    assert [text_of(one) for one in lists] == ["", "", "2", "0-2,10", "1,0:1,0:2,0:11"]


def test_labels_are_built_parsed_and_sorted() -> None:
    assert (label_of(0), label_of(0, 3), label_of(12, 0)) == ("0", "0:3", "12:0")
    assert [parts_of(label) for label in ("0", "0:3", "", "x", "0:", ":1", "1:2:3", "٣", "-1", "9" * 30)] == [
        *((0, None), (0, 3)),
        *[None] * 8,
    ]
    assert sorted(["1", "", "0:10", "0:9", "0", "x"], key=order_of) == ["0", "0:9", "0:10", "1", "", "x"]
    assert gpus_of(["1:2", "0", "1:3", "", "x"]) == (0, 1)


def test_a_list_of_wanted_devices_matches_gpus_and_instances() -> None:
    wanted = wanted_of("0:3, 2-3,7")
    assert [is_wanted(wanted, label) for label in ("0:3", "0", "0:4", "2", "3:1", "7", "70", "")] == [
        *(True, False, False, True, True, True, False, False)
    ]
    assert not wanted_of("all")
    assert not wanted_of("")


def test_a_row_with_a_device_is_only_on_that_device() -> None:
    found = placement(on(device(0, TRAIN), device(1, TRAIN)))
    assert found.devices(key(tenant="docker:aa", pid=100, device="1")) == ("1",)
    assert found.devices(key(tenant="docker:aa", pid=100)) == ("0", "1")


def test_a_process_on_a_mig_device_is_not_on_the_whole_gpu() -> None:
    instances = (
        MigInstance(0, 2, "MIG-c", processes=(TRAIN,)),
        MigInstance(0, 1, "MIG-b", processes=(TRAIN,)),
    )
    found = placement(on(replace(device(0, TRAIN, SERVE), mig=True, instances=instances)))
    assert found.devices(key(tenant="docker:aa", pid=100)) == ("0:1", "0:2")
    assert found.devices(key(tenant="cri:bb", pid=200)) == ("0",)


def test_rows_of_one_process_on_two_devices_are_separated() -> None:
    calls = [
        Calls(key(device="1"), [1_000]),
        Calls(key(device="0:3"), [2_000]),
        Calls(key("cudaFree"), [4_000]),
    ]
    both = Devices((device(0, DeviceProcess(100, "C", tenant="docker:aa")), device(1)))
    found = pivot(replace(window(calls), devices=both), ["device"])
    assert found.labels == (("GPU 0",), ("GPU 0:3",), ("GPU 1",))
    assert found.total_ns.tolist() == [4_000, 2_000, 1_000]
