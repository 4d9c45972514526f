"""Tests allocations of a scheduler beside the use of devices, and sharing on several hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.model.devices.activity import DeviceActivity
from stalltop.model.devices.allocation import Allocation
from stalltop.model.evidence import Evidence
from stalltop.model.merge.merging import fleet
from stalltop.model.sharing.placing import placement
from stalltop.model.sharing.sharing import Use, sharing_of, sharings
from stalltop.model.window import Coverage, OpenCall, Window
from tests.windows.evidence import BATCH, HOST, SERVE, TRAIN, row
from tests.windows.shared_devices import POD, at, client, divided, gpu, on, pod


@pytest.mark.parametrize(
    ("use", "made"),
    [
        ("used", on(gpu(client(100, TRAIN)), rows=[row("cudaLaunchKernel", 1, running=1)])),
        ("idle", on(gpu(client(100, TRAIN)))),
        ("absent", on(gpu())),
    ],
)
def test_an_allocation_shows_the_use_of_its_device(use: Use, made: Window) -> None:
    made = replace(made, allocations=(pod("trainer-0", TRAIN), pod("elsewhere", TRAIN, "GPU-9")))
    (holding,) = sharings(made)[0].holdings
    assert (holding.allocation.pod, holding.use) == ("trainer-0", use)


@pytest.mark.parametrize(("uid", "use"), [("uid-9", "absent"), ("uid-2", "unknown"), ("", "unknown")])
def test_an_allocation_without_a_seen_tenant_is_absent_or_unknown(uid: str, use: Use) -> None:
    made = on(gpu(), allocations=(pod("sleeper-0", uid=uid),))
    # A container of pod uid-2 is at work. The allocation may belong to this pod, unless it has another UID.
    made = replace(made, tenants={**made.tenants, POD.id: POD})
    (holding,) = sharings(made)[0].holdings
    assert holding.use == use


def test_an_allocated_instance_is_shown_with_itself_and_its_gpu() -> None:
    device = divided(True)
    made = on(device, allocations=(pod("p", "docker:3", "MIG-3"),))
    sharing = sharing_of(made, device)
    assert [len(part.holdings) for part in sharing.parts] == [0, 0, 0, 1, 0, 0, 0]
    assert [one.given for one in sharing.parts[3].sharers] == [True]
    assert len(sharing.holdings) == 1


@pytest.mark.parametrize(
    ("allocations", "given"),
    [
        ((), None),
        ((pod("other", SERVE),), False),
        ((pod("web-0", POD.id, uid="uid-2"),), True),
        # The GPU was allocated to the previous pod of this name.
        ((pod("web-0", uid="uid-1"),), False),
        ((pod("web-0", uid="uid-2"),), None),
        ((pod("web-0"),), None),
        ((pod("db-0"),), False),
        ((pod("other", SERVE, "GPU-9"),), False),
        # The device plugin uses ids that match no device of this host.
        ((pod("web-0", POD.id, "pool/gpu-0", uid="uid-2"),), None),
        ((pod("web-0", device="pool/gpu-0"),), None),
    ],
)
def test_the_uid_decides_whether_a_tenant_was_allocated_a_device(
    allocations: tuple[Allocation, ...], given: bool | None
) -> None:
    device = gpu(client(400, POD.id))
    made = on(device, allocations=allocations)
    made = replace(made, tenants={**made.tenants, POD.id: POD})
    assert sharing_of(made, device).sharers[0].given is given


def test_without_knowledge_of_the_tenant_nothing_is_said_about_its_allocation() -> None:
    device = gpu(client(100, TRAIN), client(200, SERVE))
    made = on(device, allocations=(pod("other", TRAIN),))

    def given(said: Coverage) -> list[bool | None]:
        return [one.given for one in sharing_of(replace(made, coverage=said), device).sharers]

    assert given(made.coverage) == [False, True]
    assert given(replace(made.coverage, scheduled=(TRAIN,))) == [None, True]
    assert given(replace(made.coverage, schedulable=("GPU-9",))) == [None, True]
    assert given(Coverage()) == [None, True]
    # The result is None for a tenant of another host, for which no allocations are known.
    plain = replace(on(gpu(client(200, SERVE), index=1)), host="other", coverage=Coverage())
    assert [one.given for found in sharings(fleet([made, plain])) for one in found.sharers] == [
        False,
        True,
        None,
    ]


def test_an_unknown_tenant_may_have_an_allocation() -> None:
    device = gpu(client(400, POD.id))
    made = on(device, allocations=(pod("other", SERVE),))
    assert sharing_of(made, device).sharers[0].given is None  # unknown


def test_devices_of_several_hosts_keep_their_tenants() -> None:
    """When windows of several hosts are merged, each device keeps its tenants. This includes tenants that the
    driver does not list, and activity without a device label on a host with only one GPU."""
    listed = client(100, TRAIN, "C")
    rows = [
        at("0", row("cudaLaunchKernel", 900, running=3)),
        at("0", row("cudaLaunchKernel", 700, running=3, tenant=SERVE, pid=200)),
    ]
    waiting = OpenCall(SERVE, 200, 201, "serve.py", "runtime", "cudaDeviceSynchronize", 10**9, device="0")
    evidence = Evidence(activity=(DeviceActivity("", TRAIN, 640), DeviceActivity("0", SERVE, 7)))
    one = on(gpu(listed), rows=rows, open_calls=(waiting,), evidence=evidence)
    other = [row("cudaLaunchKernel", 5, running=3, tenant=BATCH)]
    other[0] = other[0]._replace(key=other[0].key._replace(host="other"))
    two = on(gpu(client(100, "", "C")), rows=other, host="other")

    def users(made: Window) -> list[list[tuple[str, int, int, int | None]]]:
        return [
            [(user.tenant, user.launches, user.in_flight, user.active_ns) for user in found.sharers]
            for found in sharings(made)
        ]

    assert users(one) == [[(SERVE, 700, 1, 7), (TRAIN, 900, 0, 640)]]
    assert users(fleet([one, two])) == [
        [(f"{HOST}/{SERVE}", 700, 1, 7), (f"{HOST}/{TRAIN}", 900, 0, 640)],
        [(f"other/{BATCH}", 5, 0, None), ("", 0, 0, None)],
    ]
    assert [device.host for device in fleet([one]).devices.devices] == [HOST]
    assert users(fleet([one])) == users(fleet([one, two]))[:1]


def test_a_process_of_an_unknown_tenant_is_placed_on_its_own_host() -> None:
    rows = [row("cudaLaunchKernel", 5, running=3)]
    one = on(gpu(client(100, "", "C"), index=3), gpu(), rows=rows)
    two = replace(one, host="other", rows=replace(one.rows, keys=(rows[0].key._replace(host="other"),)))
    for made in (one, fleet([one, two])):
        where = placement(made)
        assert {where.devices(key) for key in made.rows.keys} == {("3",)}
