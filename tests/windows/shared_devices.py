"""Makes devices that several tenants share, and windows with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stalltop.model.devices.activity import DeviceActivity, DeviceOverlap
from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.device import Device, DeviceProcess, Devices, MigInstance
from stalltop.model.evidence import Evidence
from stalltop.model.sharing.sharing import Sharer, Sharing
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from tests.windows.evidence import BATCH, SERVE, TRAIN, Spent, row, window

GIB = 1 << 30
POD = Tenant("cri:new", "new", "pod", "containerd", pod="web-0", namespace="lab", pod_uid="uid-2")
SERVER = DeviceProcess(9, "C", 30 << 20, "unit:mps", process="nvidia-cuda-mps")


def gpu(*processes: DeviceProcess, index: int = 0, **told: object) -> Device:
    return Device(index, f"GPU-{index}", "H100", processes=processes, **told)  # type: ignore[arg-type]


def on(*devices: Device, rows: Sequence[Spent] = (), **others: object) -> Window:
    """Returns a window with ``devices``. In its coverage Kubernetes can allocate all of them, and schedules
    all tenants."""
    made = window(rows, devices=Devices(devices))
    given = tuple(uuid for one in devices for uuid in (one.uuid, *(part.uuid for part in one.instances)))
    said = replace(made.coverage, scheduled=(*made.tenants, POD.id), schedulable=given)
    return replace(made, **{"coverage": said, **others})  # type: ignore[arg-type]


def client(pid: int, tenant: str, kind: str = "M+C", **told: object) -> DeviceProcess:
    return DeviceProcess(pid, kind, GIB, tenant, **told)  # type: ignore[arg-type]


def at(device: str, spent: Spent) -> Spent:
    return spent._replace(key=spent.key._replace(device=device))


def sharer(sharing: Sharing, tenant: str) -> Sharer:
    return next(one for one in sharing.sharers if one.tenant == tenant)


def divided(listed_with_instances: bool) -> Device:
    holders = {
        n: client(100 + n, f"docker:{n}", "C", gpu_instance=7 + n, compute_instance=0) for n in range(7)
    }
    instances = tuple(
        MigInstance(
            0, n, f"MIG-{n}", "1g.10gb", 7 + n, 0,
            processes=(holders[n],) if listed_with_instances else (),
        )
        for n in range(7)
    )  # fmt: skip
    return gpu(*(() if listed_with_instances else holders.values()), mig=True, instances=instances)


def pod(name: str, tenant: str = "", device: str = "GPU-0::1", uid: str = "") -> Allocation:
    return Allocation("lab", name, "main", "nvidia.com/gpu.shared", (device,), uid, tenant)


def shared() -> tuple[Window, Device]:
    """Returns a shared device: two tenants with activity, and a third one without an allocation."""
    device = gpu(client(100, TRAIN), client(200, SERVE), client(300, BATCH), utilization_percent=93.0)
    low, high = sorted((TRAIN, SERVE))
    made = on(
        device,
        rows=[row("cudaLaunchKernel", 900, running=3), row("cudaDeviceSynchronize", 9, gpu=450)],
        evidence=Evidence(
            activity=(DeviceActivity("0", TRAIN, 600_000_000), DeviceActivity("0", SERVE, 150_000_000)),
            overlaps=(DeviceOverlap("0", low, high, 150_000_000),),
        ),
        allocations=(
            Allocation("lab", "train-0", "main", "nvidia.com/gpu", ("GPU-0::0", "GPU-0::1"), "u1", TRAIN),
            Allocation("lab", "idle-0", "main", "nvidia.com/gpu", ("GPU-0::2",), "u2", "cri:idle"),
            Allocation("lab", "serve-0", "main", "nvidia.com/gpu", ("GPU-0::3",), "u3", SERVE),
        ),
    )
    return made, device
