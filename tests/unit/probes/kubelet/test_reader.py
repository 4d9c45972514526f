"""Tests allocations and pods in each window, over real sockets, while pods are replaced and kubelets
restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.demo.grpc_server import GrpcServer
from stalltop.demo.kubelet import EVERY_SOCKET, Node
from stalltop.model.tenant import Tenant
from stalltop.probes.kubelet import pod_resources, reader
from stalltop.probes.kubelet.reader import KubeletAnswer, KubeletReader
from tests.unit.probes.patient import be_patient

A, B = "a1" * 32, "b2" * 32
POD = """
[[pods]]
namespace = "research"
name = "trainer-0"
uid = "{uid}"
labels = {{ app = "trainer" }}
ids = {{ train = "{container}" }}
[pods.containers.train]
"nvidia.com/gpu" = ["{gpu}"]
"""
FIRST = POD.format(uid="uid-1", container=A, gpu="GPU-0")
SECOND = POD.format(uid="uid-2", container=B, gpu="GPU-0")
ONE = Tenant("containerd:" + A, A[:12], runtime="containerd", container_id=A, pod="uid-1", pod_uid="uid-1")
TWO = Tenant("containerd:" + B, B[:12], runtime="containerd", container_id=B, pod="uid-2", pod_uid="uid-2")
BOTH = {ONE.id: ONE, TWO.id: TWO}
PATIENCE_SECONDS = 60.0


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    be_patient(monkeypatch)
    monkeypatch.setattr(reader, "ASK_SECONDS", 0.05)
    monkeypatch.setattr(reader, "SOON_SECONDS", 0.05)
    monkeypatch.setattr(reader, "IDLE_SECONDS", 0.1)


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[KubeletReader]:
    (tmp_path / "var/lib/kubelet").mkdir(parents=True)
    write(tmp_path, FIRST)
    found = KubeletReader(tmp_path)
    yield found
    found.close()


def write(root: Path, pods: str) -> None:
    (root / "new.toml").write_text(pods)
    (root / "new.toml").rename(root / "pods.toml")


def node(root: Path, *sockets: str) -> Node:
    return Node(root, root / "pods.toml", sockets or EVERY_SOCKET[:2])


def until(kubelet: KubeletReader, wanted: Callable[[KubeletAnswer], object]) -> KubeletAnswer:
    end = time.monotonic() + PATIENCE_SECONDS
    while not wanted(told := kubelet.read(BOTH)):
        assert time.monotonic() < end, told
        time.sleep(0.01)
    return told


def credited(told: KubeletAnswer) -> list[tuple[str, str]]:
    return [(one.pod_uid, one.tenant) for one in told.allocations]


@pytest.mark.parametrize("second", EVERY_SOCKET[1:])
def test_a_pod_and_its_successor_are_credited_in_turn(
    tmp_path: Path, kubelet: KubeletReader, second: str
) -> None:
    with node(tmp_path, EVERY_SOCKET[0], second):
        told = until(kubelet, credited)
        told = until(kubelet, lambda told: credited(told) == [("uid-1", ONE.id)])
        assert told.tenants[ONE.id].name == "trainer-0/train"
        assert told.tenants[ONE.id].labels == (("app", "trainer"),)
        assert told.tenants[TWO.id] == TWO
        for pods, wanted in ((SECOND, ("uid-2", TWO.id)), (FIRST, ("uid-1", ONE.id))) * 5:
            write(tmp_path, pods)
            end = time.monotonic() + PATIENCE_SECONDS
            while (found := credited(kubelet.read(BOTH))) != [wanted]:
                # Neither pod is ever credited with the device of the other pod.
                assert set(found) <= {("uid-1", ONE.id), ("uid-2", TWO.id), ("", "")}
                assert time.monotonic() < end
                time.sleep(0.001)


def test_two_pods_of_one_name_are_not_credited(tmp_path: Path, kubelet: KubeletReader) -> None:
    with node(tmp_path):
        until(kubelet, lambda told: credited(told) == [("uid-1", ONE.id)])
        write(tmp_path, FIRST + SECOND.replace("GPU-0", "GPU-1"))
        until(kubelet, lambda told: credited(told) == [("", ""), ("", "")])
        write(tmp_path, SECOND.replace("GPU-0", "GPU-1"))
        until(kubelet, lambda told: credited(told) == [("uid-2", TWO.id)])


def test_an_idle_pod_keeps_its_gpu(tmp_path: Path, kubelet: KubeletReader) -> None:
    with node(tmp_path):
        until(kubelet, lambda told: credited(told) == [("uid-1", ONE.id)])
        (one,) = kubelet.read({}).allocations
        assert (one.pod_uid, one.tenant, one.uuids) == ("uid-1", "", ("GPU-0",))


def test_a_restarted_kubelet_is_asked_again(
    tmp_path: Path, kubelet: KubeletReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "STALE_SECONDS", 0.3)
    with GrpcServer(tmp_path / EVERY_SOCKET[2], Node(tmp_path, tmp_path / "pods.toml").answer):
        with node(tmp_path):
            until(kubelet, lambda told: credited(told) == [("uid-1", ONE.id)])
        told = until(kubelet, lambda told: told.missing)
        assert "ago: no socket of a kubelet" in told.missing[0].reason
        assert credited(told) == [("uid-1", ONE.id)]  # the runtime still lists the pod
        write(tmp_path, SECOND)
        until(kubelet, lambda told: not told.allocations)
        with node(tmp_path):
            until(kubelet, lambda told: credited(told) == [("uid-2", TWO.id)] and not told.missing)


@pytest.mark.parametrize(("a_node", "told"), [(True, 1), (False, 0)], ids=["node", "folder without pods"])
def test_a_kubelet_that_never_answered_is_reported(tmp_path: Path, a_node: bool, told: int) -> None:
    now = 0.0
    (tmp_path / "var/lib/kubelet" / ("pods" if a_node else "")).mkdir(parents=True)
    found = KubeletReader(tmp_path, lambda: now)
    asked = 0

    def counted(*_: object, **__: object) -> pod_resources.PodResources:
        nonlocal asked
        asked += 1
        return pod_resources.PodResources(unavailable="no permission")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pod_resources, "read", counted)
        until(found, lambda _: asked >= 2)
        assert found.read(BOTH).missing == ()  # not reported yet, as the kubelet may be starting
        now = reader.STALE_SECONDS
        missing = found.read(BOTH).missing
    assert [one.reason for one in missing] == ["not known: no permission"] * told
    found.close()


def test_old_allocations_are_forgotten(
    tmp_path: Path, kubelet: KubeletReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    with node(tmp_path):
        until(kubelet, lambda told: credited(told) == [("uid-1", ONE.id)])
    assert credited(kubelet.read(BOTH))
    monkeypatch.setattr(reader, "FORGOTTEN_SECONDS", 0.2)
    until(kubelet, lambda told: not told.allocations)


def test_a_hanging_kubelet_delays_no_window(
    tmp_path: Path, kubelet: KubeletReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, asked = True, 0
    answers = Node(tmp_path, tmp_path / "pods.toml")
    with node(tmp_path):
        until(kubelet, lambda told: credited(told) == [("uid-1", ONE.id)])

    def hang(method: str) -> bytes | None:
        nonlocal asked
        asked += 1
        while hangs:
            time.sleep(0.01)
        return answers.answer(method)

    monkeypatch.setattr(pod_resources, "SECONDS", 0.5)
    with GrpcServer(tmp_path / EVERY_SOCKET[0], hang), GrpcServer(tmp_path / EVERY_SOCKET[1], answers.answer):
        until(kubelet, lambda _: asked)
        for _ in range(1_000):  # windows are made while the request to the kubelet hangs
            assert credited(kubelet.read(BOTH)) == [("uid-1", ONE.id)]
        hangs = False
        write(tmp_path, SECOND)
        until(kubelet, lambda told: credited(told) == [("uid-2", TWO.id)])


def test_a_new_unlisted_pod_is_asked_for_at_once(
    tmp_path: Path, kubelet: KubeletReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    with node(tmp_path):
        until(kubelet, lambda told: credited(told) == [("uid-1", ONE.id)])
        monkeypatch.setattr(reader, "ASK_SECONDS", 1e6)
        end = time.monotonic() + 0.5
        while time.monotonic() < end:  # after this, no regular request to the kubelet is due for days
            kubelet.read({ONE.id: ONE})
            time.sleep(0.01)
        write(tmp_path, FIRST + SECOND.replace("trainer-0", "other"))
        other = replace(TWO, container_id="")
        until(kubelet, lambda _: kubelet.read({TWO.id: other}).tenants[TWO.id].pod == "other")


def test_without_a_kubelet_nothing_is_asked(tmp_path: Path) -> None:
    found = KubeletReader(tmp_path)
    assert found.read(BOTH) == KubeletAnswer(BOTH)
    (tmp_path / "var/lib/kubelet").mkdir(parents=True)
    write(tmp_path, FIRST)
    with node(tmp_path):
        until(found, lambda told: credited(told) == [("uid-1", ONE.id)])
    found.close()
    found.close()


def test_scheduled_tenants_are_those_whose_allocations_are_known(
    tmp_path: Path, kubelet: KubeletReader
) -> None:
    """A pod that the kubelet has not listed yet, or cannot list, does not count as a pod without devices."""
    service = Tenant("unit:a.service", "a", "unit", "systemd")
    nerdctl = Tenant("containerd:c", "c", "container", "containerd", container_id="c")
    everybody = {one.id: one for one in (ONE, TWO, service, nerdctl)}

    def scheduled(wanted: set[str]) -> None:
        until(kubelet, lambda _: set(kubelet.read(everybody).scheduled) == wanted)

    both = FIRST + SECOND.replace("trainer-0", "other-0").replace('["GPU-0"]', "[]")
    answers = Node(tmp_path, tmp_path / "pods.toml")
    with GrpcServer(tmp_path / EVERY_SOCKET[1], answers.answer):
        with GrpcServer(tmp_path / EVERY_SOCKET[0], answers.answer):
            scheduled({ONE.id, service.id})
            write(tmp_path, both)
            scheduled({ONE.id, TWO.id, service.id})
            write(tmp_path, FIRST + SECOND)  # both pods now have the same name, so neither is known
            scheduled({service.id})
            write(tmp_path, FIRST)
            scheduled({ONE.id, service.id})
        write(tmp_path, both)
        told = until(kubelet, lambda told: told.tenants[TWO.id].pod == "other-0")
        assert (credited(told), told.scheduled) == ([("uid-1", ONE.id)], ())
        old = GrpcServer(
            tmp_path / EVERY_SOCKET[0],
            lambda method: answers.answer(method) if method != pod_resources.LIST else b"",
        )
        with old:  # a kubelet that has just started lists no pods yet
            scheduled({service.id})


def test_allocatable_devices_are_refreshed_now_and_then(
    tmp_path: Path, kubelet: KubeletReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = '\n[allocatable]\n"nvidia.com/gpu" = ["{}"]\n'
    monkeypatch.setattr(reader, "ALLOCATABLE_SECONDS", 0.1)
    with node(tmp_path):
        write(tmp_path, FIRST + there.format("GPU-0"))
        until(kubelet, lambda told: told.allocatable == (("nvidia.com/gpu", ("GPU-0",)),))
        write(tmp_path, FIRST + there.format("GPU-1"))
        until(kubelet, lambda told: told.allocatable == (("nvidia.com/gpu", ("GPU-1",)),))


@pytest.mark.parametrize("method", ["_ask", "_left"])
def test_no_error_ends_the_thread(
    tmp_path: Path, kubelet: KubeletReader, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    called = 0

    def fail(*_: object) -> None:
        nonlocal called
        called += 1
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(reader._Poll, method, fail)
        until(kubelet, lambda _: called >= 2)
    with node(tmp_path):
        until(kubelet, lambda told: credited(told) == [("uid-1", ONE.id)])


def test_tenants_that_are_gone_are_forgotten_without_a_kubelet_too(tmp_path: Path) -> None:
    found = KubeletReader(tmp_path)
    for number in range(100):
        tenant = replace(ONE, id=f"docker:{number}")
        assert found.read({tenant.id: tenant}).tenants == {tenant.id: tenant}
    assert len(found._named) <= 2
    found.close()
