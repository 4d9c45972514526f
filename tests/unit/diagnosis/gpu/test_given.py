"""Tests the cause ``gpu_not_given``: a tenant uses a device that was allocated to another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.diagnosis.engine import explain
from stalltop.model.chain import Chain
from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.device import Device, MigInstance
from stalltop.model.window import Window
from tests.windows.evidence import BATCH, SERVE, TRAIN, Spent, row
from tests.windows.shared_devices import at, client, gpu, on

LAUNCHES = [
    at("0", row("cudaLaunchKernel", 100, running=1, tenant=TRAIN, pid=100)),
    at("0", row("cudaLaunchKernel", 30, running=1, tenant=BATCH, pid=300, program="job")),
]


def given(tenant: str, device: str = "GPU-0") -> Allocation:
    return Allocation("lab", f"pod-{tenant}", "main", "nvidia.com/gpu", (device,), "uid", tenant)


def told(made: Window) -> list[Chain]:
    return [chain for chain in explain(made) if chain.cause == "gpu_not_given"]


def shared(*rows: Spent) -> Window:
    return on(gpu(client(100, TRAIN), client(300, BATCH)), rows=rows or LAUNCHES)


def test_a_tenant_that_works_on_anothers_device_is_named() -> None:
    (chain,) = told(replace(shared(), allocations=(given(TRAIN),)))
    assert (chain.tenant, chain.severity, chain.lost_ms_per_s) == (BATCH, "low", 0.0)
    assert chain.summary == "batch-job uses GPU 0, which Kubernetes did not give it"
    assert [link.text for link in chain.links[1:]] == [
        "job launches 30 kernels a second on GPU 0",
        f"it was given to lab/pod-{TRAIN}",
    ]


@pytest.mark.parametrize(
    "made",
    [
        shared(),
        replace(shared(), allocations=(given(TRAIN), given(BATCH))),
        replace(shared(LAUNCHES[0]), allocations=(given(TRAIN),)),
        replace(shared(), allocations=(given(TRAIN), given(BATCH, "pool/gpu-0"))),
    ],
    ids=["no scheduler", "both have an allocation", "it only holds a context", "unknown device id"],
)
def test_harmless_users_of_a_device_are_not_named(made: Window) -> None:
    assert told(made) == []


def test_mig_instances_are_allocated_separately() -> None:
    instances = (
        MigInstance(0, 0, "MIG-a", processes=(client(100, TRAIN, "C"),)),
        MigInstance(0, 1, "MIG-b", processes=(client(300, BATCH, "C"),)),
    )
    device: Device = gpu(mig=True, instances=instances)
    rows = [at("0:0", LAUNCHES[0]), at("0:1", LAUNCHES[1])]
    made = on(device, rows=rows, allocations=(given(TRAIN, "MIG-a"), given(SERVE, "MIG-b")))
    (chain,) = told(made)
    assert chain.summary == "batch-job uses GPU 0:1, which Kubernetes did not give it"
