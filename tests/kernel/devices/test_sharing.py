"""Tests how pods that share a GPU through MPS or MIG appear in windows.

The driver and the kubelet are stand-ins with the real interfaces. The pods' calls are real and are traced.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest

from stalltop.demo.build import Built
from stalltop.demo.cgroups import pod_uid
from stalltop.demo.scenario import Scenario, load_scenario, parse_scenario
from stalltop.demo.source import TracedTenants
from stalltop.demo.tenants import DemoTenants
from stalltop.formats.text import sharing_text
from stalltop.model.sharing.sharing import Sharing, sharings
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from tests.kernel.harness import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make cgroups")

LOOKS = 12
PODS = {"chat-0/server", "embedder-0/main", "notebook-anna/jupyter", "trainer-0/train"}


@contextmanager
def traced(scenario: Scenario, built: Built) -> Iterator[tuple[DemoTenants, TracedTenants]]:
    """Run the tenants of ``scenario`` and trace them."""
    tenants = DemoTenants(scenario, built=built)
    tenants.start()
    source = TracedTenants(tenants)
    try:
        yield tenants, source
    finally:
        source.close()


def look(source: TracedTenants, seconds: float = 0.3) -> tuple[Window, Sharing]:
    """Wait for ``seconds`` and read a window.

    Returns the window, and the sharing of the device by the demo's own tenants, which is empty while NVML
    starts.
    """
    time.sleep(seconds)
    window = source.read()
    sharing = next(iter(sharings(window)), Sharing("", "", "unknown"))
    # Leave out other programs on this host that call the stand-in libraries: they use the device, too.
    own = identities(source)
    sharers = tuple(one for one in sharing.sharers if window.tenants[one.tenant].container_id in own)
    return window, replace(sharing, sharers=sharers)


def identities(source: TracedTenants) -> set[str]:
    """Return the ids of the demo's containers that run now."""
    return {one.identity for one in source._tenants._running}


def names(window: Window, sharing: Sharing) -> set[str]:
    return {window.tenants[one.tenant].name for one in sharing.sharers}


def complete(window: Window, sharing: Sharing) -> bool:
    """Return whether all pods are known by name, are at work, and use the device allocated to them."""
    return (
        names(window, sharing) == PODS
        and all(one.at_work for one in sharing.sharers)
        and [holding.use for holding in sharing.holdings] == ["used"] * len(PODS)
    )


def agrees(window: Window, sharing: Sharing) -> None:
    """Check that each allocation with a known tenant names the same pod and container as the tenant."""
    for holding in sharing.holdings:
        given = holding.allocation
        if given.tenant:
            tenant = window.tenants[given.tenant]
            assert (tenant.pod_uid, tenant.namespace, tenant.pod, tenant.container) == (
                given.pod_uid,
                given.namespace,
                given.pod,
                given.container,
            )


def no_split(window: Window, sharing: Sharing) -> None:
    """Check that the whole device has a utilization, and that no tenant has one of its own."""
    said = sharing_text.statement(sharing, window)
    assert f"the device is 93% busy; {sharing_text.NO_SPLIT}" in said
    assert all(one.sample_percent is None for one in sharing.sharers)


def seen(source: TracedTenants, gone: str = "") -> bool:
    """Read a window; return whether it is complete and no longer contains the tenant ``gone``."""
    window, sharing = look(source)
    agrees(window, sharing)
    return complete(window, sharing) and gone not in {one.tenant for one in sharing.sharers}


def container(window: Window, sharing: Sharing, name: str) -> Tenant:
    """Return the tenant ``name`` among those that share the device."""
    (found,) = (one.tenant for one in sharing.sharers if window.tenants[one.tenant].name == name)
    return window.tenants[found]


def test_four_pods_share_a_gpu_through_mps_in_twelve_windows(built: Built) -> None:
    """All pods are at work in every window, utilization is not divided among them, and after a pod is
    replaced its allocation belongs to the new pod only."""
    with traced(load_scenario("mps"), built) as (tenants, source):
        wait_until(lambda: seen(source), deadline=90, what="four pods at work with their allocations")
        before, identity, together = None, "", set[str]()
        for number in range(LOOKS):
            window, sharing = look(source, 0.4)
            assert sharing.way == "mps"
            assert names(window, sharing) == PODS
            assert [window.tenants[one.tenant].name for one in sharing.sharers if not one.at_work] == []
            assert all(one.memory_bytes for one in sharing.sharers)
            together |= {window.tenants[one.tenant].name for one in sharing.sharers if one.overlaps}
            no_split(window, sharing)
            agrees(window, sharing)
            assert [one.tenant for one in sharing.sharers if one.given is False] == []
            if number == LOOKS // 2:
                before = container(window, sharing, "chat-0/server")
                identity = tenants.replaced("chat")
                wait_until(partial(seen, source, before.id), deadline=90, what="the pod that replaces it")
        assert together == PODS
        after = container(window, sharing, "chat-0/server")
        assert before is not None
        assert (after.container_id, after.pod_uid) == (identity, pod_uid(identity))
        assert after.pod_uid != before.pod_uid
        given = {holding.allocation.pod: holding.allocation for holding in sharing.holdings}
        assert (given["chat-0"].pod_uid, given["chat-0"].tenant) == (after.pod_uid, after.id)


INSTANCES = 7


def seven_instances() -> Scenario:
    """Return a scenario of seven containers, each with its own MIG instance in CUDA_VISIBLE_DEVICES."""
    lines = ["[gpu]", "devices = 1", "mig = 1", f'instances = "{",".join(["1g.10gb"] * INSTANCES)}"']
    lines += [f'"0:{n}.uuid" = "MIG-{n}c0ffee"' for n in range(INSTANCES)]
    for n in range(INSTANCES):
        lines += ["[[tenant]]", f'name = "tenant {n}"', 'runtime = "docker"']
        lines += [f'environment = {{ CUDA_VISIBLE_DEVICES = "MIG-{n}c0ffee" }}']
        lines += ["[[tenant.process]]", f'name = "worker-{n}"', "memory_mib = 64"]
        lines += [f'gpu = "0:{n}"'] if n % 2 else []  # for the other instances the driver lists no process
        lines += ['cycle = ["cudaLaunchKernel:4:0", "cudaStreamSynchronize", "~50000"]']
    return parse_scenario("instances", "\n".join(lines))


def test_seven_instances_have_the_calls_of_their_tenants(built: Built) -> None:
    with traced(seven_instances(), built) as (_, source):
        tenants = [[f"tenant {n}"] for n in range(INSTANCES)]
        labels = {f"worker-{n}": f"0:{n}" for n in range(INSTANCES)}

        def found() -> bool:
            window, sharing = look(source)
            own = identities(source)
            launches = [
                key
                for key in window.rows.keys
                if key.operation == "cudaLaunchKernel" and window.tenants[key.tenant].container_id in own
            ]
            launching = [
                [window.tenants[one.tenant].name for one in part.sharers if one.launches]
                for part in sharing.parts
            ]
            return launching == tenants and {key.process: key.device for key in launches} == labels

        wait_until(
            found, deadline=90, what="seven instances with one tenant each, and rows with their instance"
        )
        _, sharing = look(source, 1.0)
        assert (sharing.way, sharing.shared) == ("mig", False)
        assert [part.uuid for part in sharing.parts] == [f"MIG-{n}c0ffee" for n in range(INSTANCES)]
        assert {part.way for part in sharing.parts} == {"exclusive"}
