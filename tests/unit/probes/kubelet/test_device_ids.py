"""Tests that allocations get the UUIDs of devices, whatever ids a device plugin uses."""

from __future__ import annotations

import pytest

from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.device import Device, Devices, MigInstance
from stalltop.probes.kubelet.device_ids import uuids_of, with_uuids

PARTS = (
    MigInstance(1, 0, "MIG-a", gpu_instance=7, compute_instance=0),
    MigInstance(1, 1, "MIG-b", gpu_instance=8, compute_instance=0),
    MigInstance(1, 2, "MIG-c", gpu_instance=8, compute_instance=1),
)
HOST = Devices(
    (
        Device(0, "GPU-aa", "H100", minor=4),
        Device(1, "GPU-bb", "H100", minor=5, instances=PARTS),
        Device(2, "", ""),
    )
)


@pytest.mark.parametrize(
    ("called", "meant"),
    [
        ("GPU-aa", "GPU-aa"),
        ("GPU-aa::3", "GPU-aa::3"),
        ("MIG-b", "MIG-b"),
        ("0", "GPU-aa"),
        ("0::3", "GPU-aa::3"),
        ("1:1", "MIG-b"),
        ("1:1::2", "MIG-b::2"),
        ("nvidia4", "GPU-aa"),
        ("nvidia4/vgpu3", "GPU-aa::3"),
        ("nvidia5/gi7", "MIG-a"),
        ("nvidia5/gi7/vgpu0", "MIG-a::0"),
        ("MIG-GPU-bb/8/1", "MIG-c"),
        # No UUID belongs to these: a GPU instance with two compute instances, a GPU of another host, a GPU
        # without UUID, and unknown ids.
        ("nvidia5/gi8", "nvidia5/gi8"),
        ("nvidia0", "nvidia0"),
        ("2", "2"),
        ("pool/gpu-4", "pool/gpu-4"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_ids_of_plugins_become_uuids(called: str, meant: str) -> None:
    (found,) = with_uuids([Allocation("n", "p", "c", "nvidia.com/gpu", (called,))], HOST)
    assert found.devices == (meant,)


def test_names_of_resource_claims_become_uuids() -> None:
    (found,) = with_uuids([Allocation("n", "p", "c", "gpu.nvidia.com", ("node-1/gpu-4", "node-1/x"))], HOST)
    assert found.devices == ("GPU-aa", "node-1/x")


def test_without_devices_ids_stay_as_they_are() -> None:
    one = Allocation("n", "p", "c", "nvidia.com/gpu", ("0", "GPU-aa::1"))
    assert with_uuids([one], Devices()) == (one,)
    assert with_uuids([], HOST) == ()


def test_allocatable_devices_are_given_by_uuid() -> None:
    there = (
        ("nvidia.com/gpu", ("nvidia4/vgpu0", "nvidia4/vgpu1")),
        ("nvidia.com/mig-1g.10gb", ("MIG-b", "x")),
    )
    assert uuids_of(there, HOST) == ("GPU-aa", "MIG-b")
    assert uuids_of((), HOST) == ()
