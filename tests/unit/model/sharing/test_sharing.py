"""Tests which tenants share which device, and which figures of each tenant are known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.model.devices.activity import DeviceActivity, DeviceOverlap
from stalltop.model.devices.device import Device, DeviceProcess, MigInstance
from stalltop.model.evidence import Evidence, ProcessUse
from stalltop.model.sharing.sharing import Sharer, sharing_of, sharings, unplaced
from stalltop.model.sharing.ways import LISTS, Way, way_of
from stalltop.model.window import OpenCall
from stalltop.probes.nvml import processes as nvml_processes
from stalltop.probes.tenants.tenants import ENDED
from tests.windows.evidence import BATCH, SERVE, TRAIN, row
from tests.windows.shared_devices import GIB, SERVER, at, client, divided, gpu, on, pod, sharer


@pytest.mark.parametrize(
    ("way", "device"),
    [
        ("unused", gpu()),
        ("unknown", gpu(notes=("compute processes: no permission",))),
        ("unknown", gpu(lost=True)),
        ("unknown", gpu(notes=("fan, MPS clients: unknown error",))),
        ("unknown", gpu(client(1, TRAIN, "C"), notes=("MPS clients: unknown error",))),
        ("unused", gpu(notes=("graphics processes, MPS clients: not supported", "fan: unknown error"))),
        ("unknown", gpu(notes=("compute processes: not supported",))),
        ("unknown", gpu(utilization_percent=93.0)),
        ("unknown", gpu(memory_used_bytes=60 * GIB)),
        ("unused", gpu(utilization_percent=0.0, memory_used_bytes=GIB)),
        ("unknown", gpu(virtualization="vGPU host")),
        ("unknown", gpu(client(1, TRAIN, "C"), virtualization="vGPU host")),
        ("exclusive", gpu(client(1, TRAIN, "C"))),
        ("exclusive", gpu(client(1, TRAIN, "C"), client(2, TRAIN, "C"))),
        ("time-sliced", gpu(client(1, TRAIN, "C"), client(2, SERVE, "C"))),
        ("time-sliced", gpu(client(1, "", "C"), client(2, "", "G"))),
        ("mps", gpu(client(1, TRAIN), client(2, SERVE))),
        ("mps", gpu(SERVER)),
        ("mig", gpu(mig=True)),
        ("mig", gpu(instances=(MigInstance(0, 0, "MIG-a"),))),
        ("vgpu", gpu(client(1, TRAIN, "C"), virtualization="vGPU")),
        ("exclusive", gpu(client(1, TRAIN, "C"), virtualization="passthrough")),
    ],
)
def test_the_way_of_sharing_follows_from_processes_and_notes(way: Way, device: Device) -> None:
    assert way_of(device) == way


def test_notes_use_the_names_of_the_process_lists() -> None:
    assert tuple(name for name, _, _ in nvml_processes.LISTS) == LISTS


def test_processes_of_unknown_tenants_form_one_entry() -> None:
    device = gpu(client(1, "", "C"), client(2, "", "C"))
    sharing = sharing_of(on(device), device)
    assert (sharing.way, [one.pids for one in sharing.sharers]) == ("time-sliced", [(1, 2)])
    assert (sharing.shared, way_of(device)) == (False, "time-sliced")


def test_the_mps_server_is_no_tenant() -> None:
    device = gpu(SERVER, client(1, TRAIN), client(2, SERVE))
    sharing = sharing_of(on(device), device)
    assert (sharing.way, [one.tenant for one in sharing.sharers]) == ("mps", [SERVE, TRAIN])


def test_each_tenant_has_its_figures_and_no_share_of_the_device() -> None:
    device = gpu(SERVER, client(100, TRAIN), client(200, SERVE), utilization_percent=97.0)
    rows = [
        row("cudaLaunchKernel", 900, running=3),
        row("cudaGraphLaunch", 100, running=1),
        row("cudaMemcpyAsync HtoD", 10, bytes_=4096, running=1),
        row("cudaMemcpy DtoH", 5, bytes_=1000, gpu=50, disk=7),
        row("cudaStreamSynchronize", 20, gpu=400, runqueue=90, running=10),
        row("cuStreamSynchronize", 20, gpu=399, nested=True),
        row(spent_ms={"sleep": 400.0}),
        row("cudaLaunchKernel", 7, running=3, tenant=SERVE, pid=200),
    ]
    made = on(device, rows=rows)
    sharing = sharing_of(made, device)
    assert (sharing.shared, sharing.busy_percent) == (True, 97.0)
    train, serve = sharer(sharing, TRAIN), sharer(sharing, SERVE)
    assert (train.calls, train.launches, train.copied_bytes) == (1035, 1000, 5096)
    # Only calls that wait for the device count, with their GPU and running time. Their disk and run-queue
    # time does not count, nor does the nested call.
    assert train.waited_ns == 460_000_000
    assert (serve.calls, serve.launches, serve.waited_ns) == (7, 7, 0)
    assert (train.memory_bytes, train.memory_traced, train.active_ns) == (GIB, False, None)
    assert not {name for name in Sharer.__dataclass_fields__ if "share" in name or "busy" in name}


def test_only_the_part_of_a_call_within_the_window_counts() -> None:
    device = gpu(client(100, TRAIN, "C"))
    made = on(device, rows=[row("cudaDeviceSynchronize", 1, gpu=20_000)])
    assert sharer(sharing_of(made, device), TRAIN).waited_ns == 1_000_000_000


def test_a_caller_is_listed_even_if_the_driver_does_not_list_it() -> None:
    """The driver lists no caller that has ended. On GPUs before Volta it lists only the MPS server, not the
    clients."""
    device = gpu(SERVER, client(200, SERVE))
    made = on(device, gpu(index=1), rows=[at("0", row("cudaLaunchKernel", 5, running=1))])
    assert sharer(sharing_of(made, device), TRAIN).launches == 5
    assert sharings(made)[1].way == "unused"
    # On a host with one device, every row belongs to it.
    alone = on(gpu(), rows=[row("cudaLaunchKernel", 5, running=1)])
    assert [one.tenant for one in sharings(alone)[0].sharers] == [TRAIN]
    assert sharings(alone)[0].way == "exclusive"


def test_a_tenant_inside_a_long_call_is_at_work() -> None:
    device = gpu(client(100, TRAIN, "C"))
    waiting = OpenCall(TRAIN, 100, 101, "train.py", "runtime", "cudaDeviceSynchronize", 20 * 10**9)
    inner = replace(waiting, layer="driver", nested=True)
    over = replace(waiting, tid=102, ended=True)
    found = sharer(sharing_of(on(device, open_calls=(waiting, inner, over)), device), TRAIN)
    assert (found.calls, found.in_flight, found.at_work) == (0, 1, True)


@pytest.mark.parametrize(("listed", "way"), [((), "unused"), ((client(100, TRAIN, "C"),), "exclusive")])
def test_ended_processes_are_no_tenant(listed: tuple[DeviceProcess, ...], way: Way) -> None:
    """The tenant of ended processes is unknown. Their calls are listed, but not counted as another tenant."""
    ended = row("cudaLaunchKernel", 5, running=1, tenant=ENDED, pid=400)
    sharing = sharing_of(on(gpu(*listed), rows=[ended]), gpu(*listed))
    assert (sharing.way, sharing.shared, len(sharing.sharers)) == (way, False, len(listed) + 1)
    assert sharer(sharing, ENDED).launches == 5
    assert len(sharing.tenants) == len(listed)


def test_calls_that_may_have_run_on_another_device_say_so() -> None:
    devices = gpu(client(100, TRAIN, "C")), gpu(client(100, TRAIN, "C"), index=1)
    both = on(*devices, rows=[row("cudaLaunchKernel", 5, running=1)])
    assert [(one.sharers[0].calls, one.sharers[0].also) for one in sharings(both)] == [
        (5, ("1",)),
        (5, ("0",)),
    ]
    measured = on(*devices, rows=[at("1", row("cudaLaunchKernel", 5, running=1))])
    assert [(one.sharers[0].calls, one.sharers[0].also) for one in sharings(measured)] == [(0, ()), (5, ())]


@pytest.mark.parametrize(
    ("listed", "traced", "expected"),
    [
        ([GIB, 2 * GIB], 7, (3 * GIB, False)),
        ([GIB, None], 7, (7, True)),
        ([None, None], None, (None, False)),
        ([0, 0], 7, (0, False)),
    ],
)
def test_memory_comes_from_the_driver_or_else_from_traced_calls(
    listed: list[int | None], traced: int | None, expected: tuple[int | None, bool]
) -> None:
    device = gpu(
        *(replace(client(100 + at, TRAIN, "C"), memory_bytes=size) for at, size in enumerate(listed))
    )
    made = on(device, evidence=Evidence(processes=(ProcessUse(TRAIN, 100, "train.py", held_bytes=traced),)))
    found = sharer(sharing_of(made, device), TRAIN)
    assert (found.memory_bytes, found.memory_traced) == expected


def test_overlaps_are_listed_for_both_tenants_on_one_device() -> None:
    devices = gpu(client(100, TRAIN), client(200, SERVE), client(300, BATCH)), gpu(index=1)
    low, high = sorted((TRAIN, SERVE))
    evidence = Evidence(
        activity=(
            DeviceActivity("0", TRAIN, 640),
            DeviceActivity("0", SERVE, 200),
            DeviceActivity("1", TRAIN, 9),
        ),
        overlaps=(
            DeviceOverlap("0", low, high, 150),
            DeviceOverlap("0", BATCH, TRAIN, 300),
            DeviceOverlap("1", low, high, 8),
        ),
    )
    sharing = sharing_of(on(*devices, evidence=evidence), devices[0])
    train, serve, batch = (sharer(sharing, tenant) for tenant in (TRAIN, SERVE, BATCH))
    assert (train.active_ns, train.overlaps) == (640, ((BATCH, 300), (SERVE, 150)))
    assert (serve.active_ns, serve.overlaps) == (200, ((TRAIN, 150),))
    assert (batch.active_ns, batch.overlaps) == (None, ())


def test_activity_on_an_unknown_device_counts_if_there_is_only_one() -> None:
    evidence = Evidence(activity=(DeviceActivity("", TRAIN, 640),))
    alone = gpu(client(100, TRAIN))
    assert sharing_of(on(alone, evidence=evidence), alone).sharers[0].active_ns == 640
    assert sharing_of(on(alone, gpu(index=1), evidence=evidence), alone).sharers[0].active_ns is None


def test_driver_samples_add_up_with_the_age_of_the_oldest_and_not_under_mps() -> None:
    sampled = (
        client(1, TRAIN, "C", sm_percent=30.0, sample_age_seconds=0.5),
        client(2, TRAIN, "C", sm_percent=80.0, sample_age_seconds=4.0),
        client(3, SERVE, "C", sm_percent=10.0, sample_age_seconds=1.0),
        client(4, SERVE, "C"),
    )
    device = gpu(*sampled)
    sharing = sharing_of(on(device), device)
    train, serve = sharer(sharing, TRAIN), sharer(sharing, SERVE)
    assert (train.sample_percent, train.sample_age_seconds) == (100.0, 4.0)
    assert (serve.sample_percent, serve.sample_age_seconds) == (None, None)
    mps = gpu(*(replace(one, kind="M+C") for one in sampled))
    assert {one.sample_percent for one in sharing_of(on(mps), mps).sharers} == {None}


def test_calls_on_an_unknown_gpu_are_listed_for_every_gpu() -> None:
    serve = row("cudaLaunchKernel", 700, running=3, tenant=SERVE, pid=200)
    asks = row("cudaGetDeviceCount", 9, running=3, tenant=BATCH, pid=300)
    train = at("0", row("cudaLaunchKernel", 900, running=3))
    waiting = OpenCall(SERVE, 200, 201, "serve.py", "runtime", "cudaDeviceSynchronize", 20 * 10**9)
    made = on(gpu(), gpu(index=1), rows=[serve, asks, train], open_calls=(waiting,))
    one, two = sharings(made)
    assert [(user.tenant, user.launches, user.in_flight) for user in one.unplaced] == [(SERVE, 700, 1)]
    assert one.unplaced == two.unplaced == unplaced(made)
    assert [(each.way, [user.tenant for user in each.sharers]) for each in (one, two)] == [
        ("unknown", [TRAIN]),
        ("unknown", []),
    ]
    # A tenant's calls without a known device are listed on the GPUs on which the tenant has no other calls.
    both = on(gpu(), gpu(index=1), rows=[at("0", serve), serve])
    assert [[user.tenant for user in found.unplaced] for found in sharings(both)] == [[], [SERVE]]
    # Without GPUs nothing is listed. With a GPU, calls with the label of another, unknown GPU are listed.
    assert unplaced(on(rows=[serve])) == ()
    assert [user.tenant for user in unplaced(on(gpu(), rows=[at("7", serve)]))] == [SERVE]


@pytest.mark.parametrize(("listed_on", "active_ns"), [((0,), 640), ((0, 1), None), ((), None)])
def test_activity_on_an_unknown_gpu_counts_if_the_process_is_on_one_only(
    listed_on: tuple[int, ...], active_ns: int | None
) -> None:
    devices = [gpu(*([client(100, TRAIN)] if n in listed_on else []), index=n) for n in range(2)]
    evidence = Evidence(activity=(DeviceActivity("", TRAIN, 640), DeviceActivity("0", SERVE, 9)))
    rows = [row("cudaLaunchKernel", 5, running=1), at("0", row("cudaFree", 1, tenant=SERVE, running=1))]
    first = sharings(on(*devices, rows=rows, evidence=evidence))[0]
    found = [(user.active_ns, user.overlaps_sure) for user in first.sharers if user.tenant == TRAIN]
    assert found == ([(active_ns, False)] if listed_on else [])
    # The overlaps of the other tenants are incomplete, too.
    assert not sharer(first, SERVE).overlaps_sure


@pytest.mark.parametrize("listed_with_instances", [True, False])
def test_seven_instances_have_separate_tenants(listed_with_instances: bool) -> None:
    device = divided(listed_with_instances)
    rows = [
        at(f"0:{n}", row("cudaLaunchKernel", 10 + n, running=1, tenant=f"docker:{n}", pid=100 + n))
        for n in range(7)
    ]
    sharing = sharing_of(on(device, rows=rows), device)
    assert (sharing.way, sharing.shared, len(sharing.sharers)) == ("mig", False, 7)
    assert [part.label for part in sharing.parts] == [f"0:{n}" for n in range(7)]
    assert [part.uuid for part in sharing.parts] == [f"MIG-{n}" for n in range(7)]
    for n, part in enumerate(sharing.parts):
        assert part.way == "exclusive"
        assert [(one.tenant, one.launches) for one in part.sharers] == [(f"docker:{n}", 10 + n)]


@pytest.mark.parametrize("compute_instance", [0, None])
def test_calls_without_a_device_belong_to_the_instance_of_their_process(compute_instance: int | None) -> None:
    holder = client(100, TRAIN, "C", gpu_instance=1, compute_instance=compute_instance)
    instances = tuple(MigInstance(0, n, f"MIG-{n}", gpu_instance=n, compute_instance=0) for n in range(3))
    device = gpu(holder, mig=True, instances=instances)
    made = on(device, rows=[row("cudaLaunchKernel", 5, running=1)])
    parts = sharing_of(made, device).parts
    assert [[(user.tenant, user.calls) for user in part.sharers] for part in parts] == [[], [(TRAIN, 5)], []]


def test_active_time_on_several_instances_is_not_added() -> None:
    instances = tuple(MigInstance(0, n, f"MIG-{n}", processes=(client(1, TRAIN, "C"),)) for n in range(3))
    device = gpu(mig=True, instances=instances)
    active = tuple(DeviceActivity(f"0:{n}", TRAIN, 900_000_000) for n in range(3))
    sharing = sharing_of(on(device, evidence=Evidence(activity=active)), device)
    assert [(one.active_ns, one.overlaps) for one in sharing.sharers] == [(None, ())]
    assert [part.sharers[0].active_ns for part in sharing.parts] == [900_000_000] * 3


def test_an_instance_without_a_process_list_is_not_unused() -> None:
    instances = MigInstance(0, 0, "MIG-0", listed=False), MigInstance(0, 1, "MIG-1")
    device = gpu(mig=True, instances=instances)
    sharing = sharing_of(on(device, allocations=(pod("p", TRAIN, "MIG-0"),)), device)
    assert [(part.way, part.watched) for part in sharing.parts] == [("unknown", False), ("unused", True)]
    assert not sharing.watched
    assert [(one.use, one.why) for one in sharing.holdings] == [("unknown", "list")]
    lost = sharing_of(on(replace(device, lost=True)), replace(device, lost=True))
    assert [part.watched for part in lost.parts] == [False, False]


def test_processes_can_share_an_instance() -> None:
    instance = MigInstance(0, 2, "MIG-2", processes=(client(1, TRAIN, "C"), client(2, SERVE, "C")))
    device = gpu(mig=True, instances=(instance,))
    (part,) = sharing_of(on(device), device).parts
    assert (part.way, part.shared) == ("time-sliced", True)


@pytest.mark.parametrize(
    ("switches", "known"), [(450, True), (3, False), (None, False)], ids=["turns", "no turns", "no log"]
)
def test_tenants_that_take_turns_have_their_time_on_the_gpu(switches: int | None, known: bool) -> None:
    listed = (client(1, TRAIN, "C", resident_ns=600_000_000), client(2, SERVE, "C", resident_ns=300_000_000))
    own = client(3, SERVE, "C", resident_ns=50_000_000)
    device = gpu(*listed, own, context_switches=switches, context_log_ns=1_000_000_000)
    sharing = sharing_of(on(device), device)
    shares = {one.tenant: one.resident_percent for one in sharing.sharers}
    assert shares == ({TRAIN: 60.0, SERVE: 35.0} if known else {TRAIN: None, SERVE: None})
    assert sharing.switches_per_second == (switches if known else None)
    half = replace(device, context_log_ns=2_000_000_000)  # of a longer window, partly without the log
    shares = {one.tenant: one.resident_percent for one in sharing_of(on(half), half).sharers}
    assert shares == ({TRAIN: 30.0, SERVE: 17.5} if known else {TRAIN: None, SERVE: None})
