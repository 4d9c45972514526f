"""Tests which devices a program sees, by its environment: CUDA's rules, and cases that these rules leave
open."""

from __future__ import annotations

import pytest

from stalltop.model.devices.device import Device, MigInstance
from stalltop.probes.cuda_devices.visible_devices import VisibleGpu, gpus_of, uuids_by_label, visible_devices


def gpu(index: int, name: str = "NVIDIA H100", instances: int = 0) -> Device:
    parts = tuple(
        MigInstance(
            index, number, f"MIG-{index}{number}aa0000-1111-2222-3333-444455556666", "", number + 1, 0
        )
        for number in range(instances)
    )
    return Device(index, f"GPU-{index}bcd0000-aaaa-bbbb-cccc-dddd00000000", name, instances=parts)


FOUR = gpus_of([gpu(index) for index in range(4)])
MIXED = gpus_of([gpu(0, "Tesla T4"), gpu(1), gpu(2)])
ONE = gpus_of([gpu(0)])
MIG = gpus_of([gpu(0, instances=7), gpu(1, instances=1)])
ONE_MIG = gpus_of([gpu(0, instances=3)])
ALL = ("0", "1", "2", "3")
BY_BUS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.mark.parametrize(
    ("gpus", "chosen", "more", "expected"),
    [
        pytest.param(FOUR, None, {}, ALL, id="all"),
        pytest.param((), None, {}, (), id="no GPU"),
        pytest.param(FOUR, "2", {}, ("2",), id="one"),
        pytest.param(FOUR, "3,0", {}, ("3", "0"), id="in the order of the list"),
        pytest.param(FOUR, " 1 , 2", {}, ("1", "2"), id="blanks"),
        pytest.param(FOUR, "", {}, (), id="none"),
        pytest.param(FOUR, "-1", {}, (), id="-1"),
        pytest.param(FOUR, "NoDevFiles", {}, (), id="a word"),
        pytest.param(FOUR, "1,-1,2", {}, ("1",), id="stops at -1"),
        pytest.param(FOUR, "1,7,2", {}, ("1",), id="stops at an unknown index"),
        pytest.param(FOUR, "1,1", {}, None, id="a duplicate: undocumented"),
        pytest.param(FOUR, "GPU-2bcd", {}, ("2",), id="a UUID prefix"),
        pytest.param(FOUR, "gpu-3BCD0000-aaaa,GPU-0bcd", {}, ("3", "0"), id="in any case"),
        pytest.param(FOUR, "GPU-", {}, (), id="an ambiguous UUID prefix"),
        pytest.param(FOUR, "GPU-9,1", {}, (), id="an unknown UUID"),
        pytest.param(FOUR, "GPU-1bcd,3", {}, ("1", "3"), id="UUID and index"),
        pytest.param(MIXED, None, {}, None, id="different models, fastest first"),
        pytest.param(MIXED, "1", {}, None, id="an index among different models"),
        pytest.param(MIXED, "1", BY_BUS, ("1",), id="indices by bus"),
        pytest.param(MIXED, None, BY_BUS, ("0", "1", "2"), id="all by bus"),
        pytest.param(MIXED, "GPU-0bcd", {}, ("0",), id="a UUID needs no order"),
        pytest.param(ONE, "0", {}, ("0",), id="the only one"),
        pytest.param(MIG, None, {}, None, id="one of many MIG devices"),
        pytest.param(MIG, "0", {}, None, id="an index among MIG devices"),
        pytest.param(MIG, "MIG-03aa", {}, ("0:3",), id="a MIG device"),
        pytest.param(
            MIG, "MIG-GPU-0bcd0000-aaaa-bbbb-cccc-dddd00000000/7/0", {}, ("0:6",), id="by its old name"
        ),
        pytest.param(MIG, "GPU-0bcd", {}, None, id="a GPU with several"),
        pytest.param(MIG, "GPU-1bcd", {}, ("1:0",), id="a GPU with one"),
        pytest.param(gpus_of([gpu(0, instances=1)]), None, {}, ("0:0",), id="the only MIG device"),
        pytest.param(
            ONE_MIG, None, {"NVIDIA_VISIBLE_DEVICES": "0:2"}, None, id="ignored outside a container"
        ),
    ],
)
def test_the_environment_decides_the_visible_devices(
    gpus: tuple[VisibleGpu, ...], chosen: str | None, more: dict[str, str], expected: tuple[str, ...] | None
) -> None:
    environment = more if chosen is None else more | {"CUDA_VISIBLE_DEVICES": chosen}
    assert visible_devices(environment, gpus) == expected


@pytest.mark.parametrize(
    ("given", "chosen", "expected"),
    [
        ("0:2", None, ("0:2",)),
        ("MIG-01aa", None, ("0:1",)),
        ("0:2", "0", ("0:2",)),
        ("0:2,0:1", None, None),
        ("all", None, None),
        ("void", None, None),
        ("0:9", None, None),
        ("", "MIG-00aa", ("0:0",)),
    ],
)
def test_a_container_sees_its_mig_device(
    given: str, chosen: str | None, expected: tuple[str, ...] | None
) -> None:
    environment = {"NVIDIA_VISIBLE_DEVICES": given}
    if chosen is not None:
        environment["CUDA_VISIBLE_DEVICES"] = chosen
    assert visible_devices(environment, ONE_MIG, contained=True) == expected


def test_nvidia_visible_devices_does_not_decide_about_whole_gpus() -> None:
    """Container images set the variable for all their containers, so only the device files show which GPUs a
    container has."""
    assert visible_devices({"NVIDIA_VISIBLE_DEVICES": "3"}, FOUR, contained=True) == ALL


def test_seven_mig_devices_have_seven_labels() -> None:
    assert uuids_by_label(MIG) == {
        **{f"0:{number}": f"0{number}aa0000-1111-2222-3333-444455556666" for number in range(7)},
        "1:0": "10aa0000-1111-2222-3333-444455556666",
    }, "a GPU in MIG mode runs nothing itself"
    assert uuids_by_label(FOUR)["2"] == "2bcd0000-aaaa-bbbb-cccc-dddd00000000"
