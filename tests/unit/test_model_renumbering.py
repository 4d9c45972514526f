"""Labels of devices that pass from one device to another, while windows are put together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from stalltop.model.cuda_kernels import KernelCount
from stalltop.model.devices.activity import DeviceActivity, DeviceOverlap
from stalltop.model.devices.device import Device, MigInstance
from stalltop.model.devices.sharing import sharings
from stalltop.model.evidence import Evidence
from stalltop.model.merge.merging import merge
from stalltop.model.merge.packing import pack
from stalltop.model.merge.sliding import Sliding
from stalltop.model.rows.pivot import pivot
from stalltop.model.window import OpenCall, Window
from tests.unit.evidence_windows import SERVE, TRAIN, row
from tests.unit.shared_devices import at, gpu, on

LOW, HIGH = sorted((SERVE, TRAIN))


def look(number: int, devices: Sequence[Device], calls: dict[str, int]) -> Window:
    """One window of a second with calls by label."""
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
    """Calls by device: the same in all that has a label."""
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
        # One that is lost, and another that has its number then.
        ([([card(0, "GPU-A")], {"0": 900}), ([card(0, "GPU-B")], {"0": 5})], {"GPU-A": 900, "0": 5}),
        # The same ones with other numbers: one is not there any more.
        (
            [
                ([card(0, "GPU-A"), card(1, "GPU-B")], {"0": 900, "1": 7, "": 3}),
                ([card(0, "GPU-B")], {"0": 5}),
            ],
            {"GPU-A": 900, "0": 12, "": 3},
        ),
        # It is still told, as lost.
        (
            [
                ([card(0, "GPU-A"), card(1, "GPU-B")], {"0": 900, "1": 7}),
                ([card(0, "GPU-B"), replace(card(0, "GPU-A"), lost=True)], {"0": 5}),
            ],
            {"GPU-A": 900, "0": 12},
        ),
        # It comes back.
        (
            [
                ([card(0, "GPU-A")], {"0": 900}),
                ([card(0, "GPU-B")], {"0": 5}),
                ([card(0, "GPU-A"), card(1, "GPU-B")], {"0": 10, "1": 1}),
            ],
            {"0": 910, "1": 6},
        ),
        # MIG devices are made anew.
        (
            [
                ([card(0, "GPU-A", "MIG-a", "MIG-b")], {"0:0": 900, "0:1": 7}),
                ([card(0, "GPU-A", "MIG-b", "MIG-c")], {"0:0": 5, "0:1": 2}),
            ],
            {"MIG-a": 900, "0:0": 12, "0:1": 2},
        ),
        # Nobody knows of another one: the driver tells nothing for a while.
        (
            [([card(0, "GPU-A")], {"0": 900}), ([], {"0": 4}), ([card(0, "")], {"0": 5})],
            {"0": 909},
        ),
    ],
)
def test_calls_stay_with_the_device_that_they_ran_on(
    way: str, looks: list[tuple[list[Device], dict[str, int]]], expected: dict[str, int]
) -> None:
    windows = [look(number, *what) for number, what in enumerate(looks)]
    if len(windows) == 2:
        windows.insert(1, look(1, looks[0][0], {}))
    assert counted(WAYS[way](windows)) == expected


def test_what_leaves_a_sliding_window_leaves_under_its_new_name() -> None:
    windows = [look(n, [card(0, "GPU-A")], {"0": 900}) for n in range(4)]
    windows += [look(n, [card(0, "GPU-B")], {"0": 5}) for n in range(4, 8)]
    sliding = Sliding(3.0)
    found = [counted(sliding.push(window)) for window in windows]
    assert found[3:6] == [{"0": 2700}, {"GPU-A": 1800, "0": 5}, {"GPU-A": 900, "0": 10}]
    assert found[6:] == [{"0": 15}, {"0": 15}]


@pytest.mark.parametrize(
    "way", [way for way in WAYS if way not in ("merged one by one", "merged from behind")]
)
@pytest.mark.parametrize(
    ("looks", "expected"),
    [
        # It comes back to another number, and no other device moves.
        (
            [
                ([card(0, "GPU-A")], {"0": 900}),
                ([card(0, "GPU-B")], {"0": 5}),
                ([card(0, "GPU-B"), card(1, "GPU-A")], {"0": 10, "1": 1}),
            ],
            {"0": 15, "1": 901},
        ),
        # One that is lost has two numbers before that, and the second one is another's in the end.
        (
            [
                ([card(0, "GPU-A"), card(1, "GPU-B")], {"0": 900, "1": 7}),
                ([card(0, "GPU-B")], {"0": 5}),
                ([card(0, "GPU-A")], {"0": 10}),
            ],
            {"0": 910, "GPU-B": 12},
        ),
    ],
)
def test_one_device_has_one_name_where_all_its_windows_are_known(
    way: str, looks: list[tuple[list[Device], dict[str, int]]], expected: dict[str, int]
) -> None:
    """A merged window says nothing of devices that are gone at its end: merged again, it cannot tell."""
    assert counted(WAYS[way]([look(number, *what) for number, what in enumerate(looks)])) == expected


@pytest.mark.parametrize("seconds", [None, 100.0])
def test_what_devices_counted_is_counted_once_where_labels_change(seconds: float | None) -> None:
    looks = [[card(0, "GPU-A"), card(1, "GPU-B")], [card(0, "GPU-B")], [card(0, "GPU-A"), card(1, "GPU-B")]]
    windows = [
        look(number, [replace(device, pcie_replays=10**number) for device in devices], {})
        for number, devices in enumerate(looks)
    ]
    found = slid(windows, seconds, 0).devices.devices
    assert [(device.uuid, device.pcie_replays) for device in found] == [("GPU-A", 101), ("GPU-B", 111)]


def test_who_uses_a_device_now_is_not_told_of_the_one_before() -> None:
    before, now = look(0, [card(0, "GPU-A")], {"0": 900}), look(1, [card(0, "GPU-B")], {"0": 5})
    call = OpenCall(
        TRAIN, 100, 101, "train.py", "runtime", "cudaDeviceSynchronize", 9, ended=True, device="0"
    )
    both = merge([replace(before, open_calls=(call,)), now])
    assert [(one.label, [user.launches for user in one.sharers]) for one in sharings(both)] == [("0", [5])]
    assert [one.device for one in both.open_calls] == ["GPU-A"]
    idle = merge([before, look(1, [card(0, "GPU-B")], {})])
    assert [(one.way, one.sharers, one.unplaced) for one in sharings(idle)] == [("unused", (), ())]
    assert {label for (label,) in pivot(both, ["device"]).labels} == {"GPU 0", "GPU-A"}


@pytest.mark.parametrize("way", [way for way in WAYS if "one by one" not in way])
def test_a_device_that_was_gone_for_a_while_is_another_one_all_the_same(way: str) -> None:
    looks = [look(0, [card(0, "GPU-A")], {"0": 900}), look(1, [], {}), look(2, [card(0, "GPU-B")], {"0": 5})]
    assert counted(WAYS[way](looks)) == {"GPU-A": 900, "0": 5}
