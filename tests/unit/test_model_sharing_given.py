"""What a scheduler gave, beside who uses it; and hosts put together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.model.devices.activity import DeviceActivity
from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.placing import placement
from stalltop.model.devices.sharing import Use, sharing_of, sharings
from stalltop.model.evidence import Evidence
from stalltop.model.merge.merging import fleet
from stalltop.model.window import Coverage, OpenCall, Window
from tests.unit.evidence_windows import BATCH, HOST, SERVE, TRAIN, row
from tests.unit.shared_devices import POD, at, client, divided, gpu, on, pod


@pytest.mark.parametrize(
    ("use", "made"),
    [
        ("used", on(gpu(client(100, TRAIN)), rows=[row("cudaLaunchKernel", 1, running=1)])),
        ("idle", on(gpu(client(100, TRAIN)))),
        ("absent", on(gpu())),
    ],
)
def test_a_device_that_was_given_stands_beside_its_use(use: Use, made: Window) -> None:
    made = replace(made, allocations=(pod("trainer-0", TRAIN), pod("elsewhere", TRAIN, "GPU-9")))
    (holding,) = sharings(made)[0].holdings
    assert (holding.allocation.pod, holding.use) == ("trainer-0", use)


@pytest.mark.parametrize(("uid", "use"), [("uid-9", "absent"), ("uid-2", "unknown"), ("", "unknown")])
def test_a_pod_of_which_nobody_was_seen_does_nothing_with_its_device(uid: str, use: Use) -> None:
    made = on(gpu(), allocations=(pod("sleeper-0", uid=uid),))
    made = replace(
        made, tenants={**made.tenants, POD.id: POD}
    )  # uid-2: at work, in which container is not sure
    (holding,) = sharings(made)[0].holdings
    assert holding.use == use


def test_an_instance_that_was_given_is_told_with_it_and_with_its_gpu() -> None:
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
        # The pod before of that name: its allocation is nobody's of now.
        ((pod("web-0", uid="uid-1"),), False),
        ((pod("web-0", uid="uid-2"),), None),
        ((pod("web-0"),), None),
        ((pod("db-0"),), False),
        ((pod("other", SERVE, "GPU-9"),), False),
        # What it was given is called otherwise than the devices of this host.
        ((pod("web-0", POD.id, "pool/gpu-0", uid="uid-2"),), None),
        ((pod("web-0", device="pool/gpu-0"),), None),
    ],
)
def test_who_was_given_a_device_is_told_by_uid(
    allocations: tuple[Allocation, ...], given: bool | None
) -> None:
    device = gpu(client(400, POD.id))
    made = on(device, allocations=allocations)
    made = replace(made, tenants={**made.tenants, POD.id: POD})
    assert sharing_of(made, device).sharers[0].given is given


def test_nobody_is_said_not_to_be_given_what_nobody_was_asked_about() -> None:
    device = gpu(client(100, TRAIN), client(200, SERVE))
    made = on(device, allocations=(pod("other", TRAIN),))

    def given(said: Coverage) -> list[bool | None]:
        return [one.given for one in sharing_of(replace(made, coverage=said), device).sharers]

    assert given(made.coverage) == [False, True]
    assert given(replace(made.coverage, scheduled=(TRAIN,))) == [None, True]
    assert given(replace(made.coverage, schedulable=("GPU-9",))) == [None, True]
    assert given(Coverage()) == [None, True]
    # Of one host's scheduler nothing follows for the next one.
    plain = replace(on(gpu(client(200, SERVE), index=1)), host="other", coverage=Coverage())
    assert [one.given for found in sharings(fleet([made, plain])) for one in found.sharers] == [
        False,
        True,
        None,
    ]


def test_of_whom_nothing_is_known_a_device_may_be() -> None:
    device = gpu(client(400, POD.id))
    made = on(device, allocations=(pod("other", SERVE),))
    assert sharing_of(made, device).sharers[0].given is None  # nothing is known of it


def test_devices_of_several_hosts_keep_their_own_tenants() -> None:
    """Of those that the driver does not list, too, and of the only GPU of a host nobody tells the label."""
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
