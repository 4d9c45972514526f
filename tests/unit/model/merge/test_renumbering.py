"""Tests device labels in merged windows if a device gets the index that another device had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from stalltop.model.cuda_kernels import KernelCount
from stalltop.model.devices.activity import DeviceActivity, DeviceOverlap
from stalltop.model.devices.device import Device, GoneDevice, MigInstance
from stalltop.model.evidence import Evidence
from stalltop.model.merge.merging import merge
from stalltop.model.merge.packing import pack
from stalltop.model.merge.sliding import Sliding
from stalltop.model.rows.pivot import pivot
from stalltop.model.sharing.sharing import sharings
from stalltop.model.window import OpenCall, Window
from tests.windows.evidence import SERVE, TRAIN, row
from tests.windows.shared_devices import at, gpu, on

LOW, HIGH = sorted((SERVE, TRAIN))


def second_with(number: int, devices: Sequence[Device], calls: dict[str, int]) -> Window:
    """Returns a window of one second with calls by device label."""
    rows = [at(label, row("cudaLaunchKernel", count, running=1)) for label, count in calls.items()]
    evidence = Evidence(
        activity=tuple(DeviceActivity(label, TRAIN, count) for label, count in calls.items()),
        overlaps=tuple(DeviceOverlap(label, LOW, HIGH, count) for label, count in calls.items()),
    )
    kernels = tuple(
        KernelCount(TRAIN, 100, "train.py", "runtime", "cudaLaunchKernel", False, "k", n, 0, n, n, (), label)
        for label, n in calls.items()
    )
    made = on(*devices, rows=rows, evidence=evidence, kernels=kernels)
    return replace(made, start=float(number), seconds=1.0)


def card(index: int, uuid: str, *parts: str) -> Device:
    instances = tuple(MigInstance(index, at, uuid) for at, uuid in enumerate(parts))
    return replace(gpu(index=index), uuid=uuid, instances=instances, mig=bool(parts))


def counted(window: Window) -> dict[str, int]:
    """Returns calls by device, after checking that activity, overlaps and CUDA kernels have the same sums."""
    found = Counter[str]()
    for key, calls in zip(window.rows.keys, window.rows.calls.tolist(), strict=True):
        found[key.device] += calls
    assert len(set(window.rows.keys)) == len(window.rows.keys)
    assert found == {one.device: one.active_ns for one in window.evidence.activity}
    assert found == {one.device: one.ns for one in window.evidence.overlaps}
    assert found == {one.device: one.calls for one in window.kernels}
    return dict(found)


def slid(windows: Sequence[Window], seconds: float | None, begin: int) -> Window:
    sliding = Sliding(seconds, [pack(one) for one in windows[:begin]])
    for one in windows[begin:]:
        sliding.take_in(one)
    return sliding.window


WAYS: dict[str, Callable[[Sequence[Window]], Window]] = {
    "merged": merge,
    "merged one by one": lambda windows: merge([merge(windows[:2]), *windows[2:]]),
    "merged from behind": lambda windows: merge([windows[0], merge(windows[1:])]),
    "sliding": lambda windows: slid(windows, 100.0, 0),
    "sliding, from a history": lambda windows: slid(windows, 100.0, 2),
    "without end": lambda windows: slid(windows, None, 0),
    "without end, from a history": lambda windows: slid(windows, None, 2),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        # A device is lost, and another one takes its index.
        ([([card(0, "GPU-A")], {"0": 900}), ([card(0, "GPU-B")], {"0": 5})], {"GPU-A": 900, "0": 5}),
        # GPU-A has gone, and GPU-B gets its index.
        (
            [
                ([card(0, "GPU-A"), card(1, "GPU-B")], {"0": 900, "1": 7, "": 3}),
                ([card(0, "GPU-B")], {"0": 5}),
            ],
            {"GPU-A": 900, "0": 12, "": 3},
        ),
        # GPU-A is lost but still listed, and GPU-B gets its index.
        (
            [
                ([card(0, "GPU-A"), card(1, "GPU-B")], {"0": 900, "1": 7}),
                ([card(0, "GPU-B"), replace(card(0, "GPU-A"), lost=True)], {"0": 5}),
            ],
            {"GPU-A": 900, "0": 12},
        ),
        # GPU-A is lost, and later has its index again.
        (
            [
                ([card(0, "GPU-A")], {"0": 900}),
                ([card(0, "GPU-B")], {"0": 5}),
                ([card(0, "GPU-A"), card(1, "GPU-B")], {"0": 10, "1": 1}),
            ],
            {"0": 910, "1": 6},
        ),
        # MIG devices are recreated: MIG-b gets the index of MIG-a.
        (
            [
                ([card(0, "GPU-A", "MIG-a", "MIG-b")], {"0:0": 900, "0:1": 7}),
                ([card(0, "GPU-A", "MIG-b", "MIG-c")], {"0:0": 5, "0:1": 2}),
            ],
            {"MIG-a": 900, "0:0": 12, "0:1": 2},
        ),
        # The driver lists no device for a while, but no window shows another device, so all calls are of
        # GPU-A.
        (
            [([card(0, "GPU-A")], {"0": 900}), ([], {"0": 4}), ([card(0, "")], {"0": 5})],
            {"0": 909},
        ),
    ],
)
def test_calls_stay_with_their_device(
    way: str, looks: list[tuple[list[Device], dict[str, int]]], expected: dict[str, int]
) -> None:
    windows = [second_with(number, *what) for number, what in enumerate(looks)]
    if len(windows) == 2:
        windows.insert(1, second_with(1, looks[0][0], {}))
    assert counted(WAYS[way](windows)) == expected


def test_calls_leave_a_sliding_window_under_their_new_label() -> None:
    windows = [second_with(n, [card(0, "GPU-A")], {"0": 900}) for n in range(4)]
    windows += [second_with(n, [card(0, "GPU-B")], {"0": 5}) for n in range(4, 8)]
    sliding = Sliding(3.0)
    found = [counted(sliding.push(window)) for window in windows]
    assert found[3:6] == [{"0": 2700}, {"GPU-A": 1800, "0": 5}, {"GPU-A": 900, "0": 10}]
    assert found[6:] == [{"0": 15}, {"0": 15}]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        # GPU-A is lost and returns with another index; GPU-B keeps its index.
        (
            [
                ([card(0, "GPU-A")], {"0": 900}),
                ([card(0, "GPU-B")], {"0": 5}),
                ([card(0, "GPU-B"), card(1, "GPU-A")], {"0": 10, "1": 1}),
            ],
            {"0": 15, "1": 901},
        ),
        # GPU-B has index 1, then 0, and is lost; then GPU-A has index 0 again.
        (
            [
                ([card(0, "GPU-A"), card(1, "GPU-B")], {"0": 900, "1": 7}),
                ([card(0, "GPU-B")], {"0": 5}),
                ([card(0, "GPU-A")], {"0": 10}),
            ],
            {"0": 910, "GPU-B": 12},
        ),
        # The driver lists no device for a while, and then GPU-B has the index of GPU-A.
        (
            [([card(0, "GPU-A")], {"0": 900}), ([], {}), ([card(0, "GPU-B")], {"0": 5})],
            {"GPU-A": 900, "0": 5},
        ),
        # GPU-A and GPU-B have gone, and both had index 0: label 0 stays with GPU-B, which had it last.
        (
            [
                ([card(0, "GPU-A")], {"0": 900}),
                ([card(0, "GPU-B")], {"0": 5}),
                ([card(1, "GPU-C")], {"1": 2}),
            ],
            {"GPU-A": 900, "0": 5, "1": 2},
        ),
    ],
)
def test_a_device_keeps_one_name_if_all_its_windows_are_known(
    way: str, looks: list[tuple[list[Device], dict[str, int]]], expected: dict[str, int]
) -> None:
    assert counted(WAYS[way]([second_with(number, *what) for number, what in enumerate(looks)])) == expected


@pytest.mark.parametrize("seconds", [None, 100.0])
def test_counters_of_a_device_add_up_once_under_changing_labels(seconds: float | None) -> None:
    looks = [[card(0, "GPU-A"), card(1, "GPU-B")], [card(0, "GPU-B")], [card(0, "GPU-A"), card(1, "GPU-B")]]
    windows = [
        second_with(number, [replace(device, pcie_replays=10**number) for device in devices], {})
        for number, devices in enumerate(looks)
    ]
    found = slid(windows, seconds, 0).devices.devices
    assert [(device.uuid, device.pcie_replays) for device in found] == [("GPU-A", 101), ("GPU-B", 111)]


def test_users_of_a_former_device_are_not_shown_on_its_successor() -> None:
    before, now = second_with(0, [card(0, "GPU-A")], {"0": 900}), second_with(1, [card(0, "GPU-B")], {"0": 5})
    call = OpenCall(
        TRAIN, 100, 101, "train.py", "runtime", "cudaDeviceSynchronize", 9, ended=True, device="0"
    )
    both = merge([replace(before, open_calls=(call,)), now])
    assert [(one.label, [user.launches for user in one.sharers]) for one in sharings(both)] == [("0", [5])]
    assert [one.device for one in both.open_calls] == ["GPU-A"]
    idle = merge([before, second_with(1, [card(0, "GPU-B")], {})])
    assert [(one.way, one.sharers, one.unplaced) for one in sharings(idle)] == [("unused", (), ())]
    assert {label for (label,) in pivot(both, ["device"]).labels} == {"GPU 0", "GPU-A"}


@pytest.mark.parametrize("way", WAYS)
def test_a_device_that_comes_back_has_all_its_counts(way: str) -> None:
    looks = [[card(0, "GPU-A")], [card(0, "GPU-B")], [card(0, "GPU-A")]]
    windows = [
        second_with(
            number, [replace(device, pcie_replays=10**number, xids=(number,)) for device in devices], {}
        )
        for number, devices in enumerate(looks)
    ]
    devices = WAYS[way](windows).devices
    assert [(one.uuid, one.pcie_replays, one.xids) for one in devices.devices] == [("GPU-A", 101, (0, 2))]
    assert devices.gone == (GoneDevice("GPU-B", "0", (("pcie_replays", 10),), (1,)),)


def test_a_label_whose_device_is_not_told_stays_with_the_one_before() -> None:
    """In the second window the driver lists no device. Label 0 counts as GPU-A, which had it before. If this
    window is first merged with the next one, label 0 counts as GPU-B. No figure shows which of the two is
    right."""
    looks = [([card(0, "GPU-A")], {"0": 900}), ([], {"0": 4}), ([card(0, "GPU-B")], {"0": 5})]
    windows = [second_with(number, *what) for number, what in enumerate(looks)]
    for way in ("merged", "merged one by one", "sliding", "without end"):
        assert counted(WAYS[way](windows)) == {"GPU-A": 904, "0": 5}
    assert counted(WAYS["merged from behind"](windows)) == {"GPU-A": 900, "0": 9}
