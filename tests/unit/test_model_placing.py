"""Which rows are on which devices."""

from __future__ import annotations

from dataclasses import replace

from model.device import Device, DeviceProcess, Devices
from model.merging import merge
from model.pivot import NO_DEVICE, pivot
from model.placing import placement, text_of
from model.window import Window
from tests.unit.windows import Calls, key, window


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
    assert found.devices(key(tenant="docker:aa", pid=100)) == (0, 3)
    assert found.devices(key(tenant="cri:bb", pid=200)) == (3,)
    assert found.devices(key(tenant="cri:cc", pid=300)) == ()


def test_the_same_process_id_of_another_tenant_is_another_process() -> None:
    found = placement(on(device(1, TRAIN)))
    assert found.devices(key(tenant="cri:bb", pid=100)) == ()


def test_where_the_tenant_of_a_process_is_not_told_its_id_counts_on_its_own_host() -> None:
    found = placement(on(device(1, DeviceProcess(300, "C"))))
    assert found.devices(key(tenant="cri:cc", pid=300)) == (1,)
    assert found.devices(key(tenant="cri:cc", pid=300, host="gpu8")) == ()


def test_rows_are_grouped_by_device_and_what_is_not_known_is_called_so() -> None:
    groups = pivot(on(device(0, TRAIN), device(1, TRAIN, SERVE)), ["device"])
    assert groups.labels == (("GPU 0-1",), ("GPU 1",), (NO_DEVICE,))
    assert groups.total_ns.tolist() == [1_000, 2_000, 4_000]


def test_a_process_that_comes_to_another_device_is_grouped_anew() -> None:
    assert pivot(on(device(0, TRAIN)), ["device"]).labels[0] == ("GPU 0",)
    assert pivot(on(device(2, TRAIN)), ["device"]).labels[0] == ("GPU 2",)


def test_devices_of_one_number_on_two_hosts_are_two() -> None:
    fleet = merge([on(device(0, TRAIN)), on(device(0, TRAIN), host="gpu8")])
    groups = pivot(fleet, ["device"])
    assert groups.keys[:2] == (("gpu7/0",), ("gpu8/0",))


def test_devices_in_words() -> None:
    assert [text_of(one) for one in ((), (2,), (0, 1, 2, 3, 6))] == ["", "2", "0-3,6"]
