"""Tests joining allocations to pods and tenants by UID while pods come, end or are replaced."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.model.devices.allocation import Allocation
from stalltop.model.tenant import Tenant
from stalltop.probes.kubelet.joining import Binder, is_scheduled, known, with_pod, with_tenants
from stalltop.probes.kubelet.pod import Pod, PodContainer

A, B = "a1" * 32, "b2" * 32
NAME = "research", "trainer-0"
ONE = Allocation("research", "trainer-0", "train", "nvidia.com/gpu", ("GPU-0", "GPU-1"))
POD = Pod("uid-1", "research", "trainer-0", (("app", "trainer"),), (PodContainer("train", A),))
TENANT = Tenant("containerd:" + A, A[:12], runtime="containerd", container_id=A, pod="uid-1", pod_uid="uid-1")


@pytest.mark.parametrize(
    ("before", "after", "uid"),
    [
        ({NAME: "uid-1"}, {NAME: "uid-1"}, "uid-1"),
        ({}, {NAME: "uid-1"}, ""),  # the pod appeared while the kubelet answered
        ({NAME: "uid-1"}, {}, ""),
        ({NAME: "uid-1"}, {NAME: "uid-2"}, ""),
        ({}, {}, ""),
    ],
    ids=["there all the time", "comes", "goes", "is replaced", "is not known"],
)
def test_a_pod_is_identified_by_a_name_that_stays(
    before: dict[tuple[str, str], str], after: dict[tuple[str, str], str], uid: str
) -> None:
    (found,) = Binder().bound((ONE,), before, after)
    assert found == replace(ONE, pod_uid=uid)


def test_two_pods_of_one_name_are_not_identified() -> None:
    found = Binder().bound((ONE, replace(ONE, devices=("GPU-2",))), {NAME: "uid-1"}, {NAME: "uid-1"})
    assert [one.pod_uid for one in found] == ["", ""]


def test_an_allocation_is_never_moved_to_another_pod() -> None:
    # After a forced deletion the kubelet already lists the next pod of this name, while the runtime is still
    # ending the first one.
    binder = Binder()
    names = {NAME: "uid-1"}
    assert binder.bound((ONE,), names, names)[0].pod_uid == "uid-1"
    other = replace(ONE, devices=("GPU-2",))
    assert binder.bound((other,), names, names)[0].pod_uid == ""
    assert binder.bound((replace(ONE, devices=("GPU-1",)),), names, names)[0].pod_uid == "uid-1"
    names = {NAME: "uid-2"}
    assert binder.bound((other,), names, names)[0].pod_uid == "uid-2"


def test_a_users_container_with_the_id_of_a_pods_container_is_not_in_the_pod() -> None:
    users = replace(TENANT, id="user:1000/" + TENANT.id, pod="", pod_uid="")
    assert with_pod(users, known([POD])) == users


@pytest.mark.parametrize(
    ("tenant", "known_whole"),
    [
        (TENANT, True),
        (replace(TENANT, pod_uid="uid-2"), False),
        (replace(TENANT, pod="", pod_uid=""), False),  # a container of an unknown pod
        (Tenant("systemd:a.service", "a", kind="unit", cgroup_path="/system.slice/a.service"), True),
        (Tenant("cgroup:77", "cgroup 77", kind="unit"), False),  # a removed cgroup, of an unknown kind
        (Tenant("process:ended", "ended processes", kind="process"), False),
    ],
)
def test_tenants_are_fully_known_if_their_pod_was_listed_or_they_have_none(
    tenant: Tenant, known_whole: bool
) -> None:
    assert is_scheduled(tenant, {"uid-1"}) is known_whole


def test_a_tenant_finds_its_pod_by_container_id() -> None:
    found = with_pod(replace(TENANT, pod="", pod_uid=""), known([POD]))
    assert (found.name, found.pod, found.namespace) == ("trainer-0/train", "trainer-0", "research")
    assert (found.container, found.pod_uid, found.labels) == ("train", "uid-1", (("app", "trainer"),))


def test_a_tenant_finds_its_pod_by_uid() -> None:
    other = replace(TENANT, container_id=B, id="containerd:" + B)
    assert with_pod(other, known([POD])).name == f"trainer-0/{B[:12]}"
    pod = Tenant("kubernetes:uid-1", "uid-1", "pod", "kubernetes", pod="uid-1", pod_uid="uid-1")
    assert with_pod(pod, known([POD])).name == "trainer-0"


def test_a_tenant_of_another_pod_stays_as_it_is() -> None:
    other = replace(TENANT, pod_uid="uid-2")
    assert with_pod(other, known([POD])) == other
    unit = Tenant("systemd:ollama.service", "ollama", "unit", "systemd")
    assert with_pod(unit, known([POD])) == unit


def joined(*tenants: Tenant, pod: Pod = POD) -> str:
    found = known([pod])
    given = replace(ONE, pod_uid="uid-1")
    (one,) = with_tenants([given], {one.id: with_pod(one, found) for one in tenants}, found)
    return one.tenant


def test_an_allocation_goes_to_the_tenant_of_its_container() -> None:
    sidecar = replace(TENANT, id="containerd:" + B, container_id=B)
    pod = replace(POD, containers=(*POD.containers, PodContainer("sidecar", B)))
    assert joined(TENANT) == TENANT.id
    assert joined(TENANT, sidecar, pod=pod) == TENANT.id
    assert joined(sidecar, pod=pod) == ""
    assert joined() == ""


def test_an_allocation_goes_to_the_restarted_container() -> None:
    again = replace(TENANT, id="containerd:" + B, container_id=B, container="train")
    before = PodContainer("train", A, running=False)
    pod = replace(POD, containers=(before, PodContainer("train", B)))
    assert joined(TENANT, again, pod=pod) == again.id
    # The kubelet lists only the ended container, so the allocation may be that of either container.
    assert joined(TENANT, again, pod=replace(POD, containers=(before,))) == ""


def test_a_tenant_of_the_previous_pod_gets_no_allocation() -> None:
    found = known([replace(POD, uid="uid-2", containers=(PodContainer("train", B),))])
    first = replace(TENANT, name="trainer-0/train", namespace="research", pod="trainer-0", container="train")
    (one,) = with_tenants([replace(ONE, pod_uid="uid-2")], {first.id: with_pod(first, found)}, found)
    assert one.tenant == ""
    (unsure,) = with_tenants([ONE], {first.id: first}, known([POD]))
    assert unsure.tenant == ""
