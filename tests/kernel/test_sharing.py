"""Pods that share a GPU through MPS or by MIG, as they are seen.

Driver and kubelet are stand-ins behind their real interfaces; the calls are really traced.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from stalltop.demo.build import Built
from stalltop.demo.cgroups import pod_uid
from stalltop.demo.scenario import Scenario, load_scenario, parse_scenario
from stalltop.demo.source import TracedTenants
from stalltop.demo.tenants import DemoTenants
from stalltop.formats.text import sharing_text
from stalltop.model.devices.sharing import Sharing, sharings
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from tests.kernel.harness import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make cgroups")

LOOKS = 12
PODS = {"chat-0/server", "embedder-0/main", "notebook-anna/jupyter", "trainer-0/train"}


@contextmanager
def traced(scenario: Scenario, built: Built) -> Iterator[tuple[DemoTenants, TracedTenants]]:
    """Its tenants, running, and what traces them."""
    tenants = DemoTenants(scenario, built=built)
    tenants.start()
    source = TracedTenants(tenants)
    try:
        yield tenants, source
    finally:
        source.close()


def look(source: TracedTenants, seconds: float = 1.0) -> tuple[Window, Sharing]:
    """The window after so long, and who shares its device; nobody does where NVML is still starting."""
    time.sleep(seconds)
    window = source.read()
    return window, next(iter(sharings(window)), Sharing("", "", "unknown"))


def names(window: Window, sharing: Sharing) -> set[str]:
    return {window.tenants[one.tenant].name for one in sharing.sharers}


def complete(window: Window, sharing: Sharing) -> bool:
    """Whether everything has been seen: pods by name, at work, and what each was given."""
    return (
        names(window, sharing) == PODS
        and all(one.at_work for one in sharing.sharers)
        and [holding.use for holding in sharing.holdings] == ["used"] * len(PODS)
    )


def agrees(window: Window, sharing: Sharing) -> None:
    """Allocation and telemetry: no tenant is credited with what another pod was given."""
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
    """The whole is said to be busy, and nobody a part of it."""
    said = sharing_text.statement(sharing, window)
    assert f"the device is 93% busy; {sharing_text.NO_SPLIT}" in said
    assert all(one.sample_percent is None for one in sharing.sharers)


def seen(source: TracedTenants, gone: str = "") -> bool:
    """Look: whether everything is there, and the tenant ``gone`` is not."""
    window, sharing = look(source, 0.3)
    agrees(window, sharing)
    return complete(window, sharing) and gone not in {one.tenant for one in sharing.sharers}


def container(window: Window, name: str) -> Tenant:
    """The one of this name that works on the device."""
    (sharing,) = sharings(window)
    (found,) = (one.tenant for one in sharing.sharers if window.tenants[one.tenant].name == name)
    return window.tenants[found]


def test_four_pods_through_mps_in_twelve_looks(built: Built) -> None:
    """None is ever at zero, no split is claimed, and a pod that is replaced passes nothing on."""
    with traced(load_scenario("mps"), built) as (tenants, source):
        wait_until(lambda: seen(source), deadline=90, what="four pods at work, with what they were given")
        before, identity, together = None, "", set[str]()
        for number in range(LOOKS):
            window, sharing = look(source)
            assert sharing.way == "mps"
            assert names(window, sharing) == PODS
            assert [window.tenants[one.tenant].name for one in sharing.sharers if not one.at_work] == []
            assert all(one.memory_bytes for one in sharing.sharers)
            together |= {window.tenants[one.tenant].name for one in sharing.sharers if one.overlaps}
            no_split(window, sharing)
            agrees(window, sharing)
            assert [one.tenant for one in sharing.sharers if one.given is False] == []
            if number == LOOKS // 2:
                before = container(window, "chat-0/server")
                identity = tenants.replaced("chat")
                wait_until(partial(seen, source, before.id), deadline=90, what="the pod in its place")
        assert together == PODS
        after = container(window, "chat-0/server")
        assert before is not None
        assert (after.container_id, after.pod_uid) == (identity, pod_uid(identity))
        assert after.pod_uid != before.pod_uid
        given = {holding.allocation.pod: holding.allocation for holding in sharing.holdings}
        assert (given["chat-0"].pod_uid, given["chat-0"].tenant) == (after.pod_uid, after.id)


INSTANCES = 7


def seven_instances() -> Scenario:
    """Seven containers, each with an instance of its own, that it is told by its environment."""
    lines = ["[gpu]", "devices = 1", "mig = 1", f'instances = "{",".join(["1g.10gb"] * INSTANCES)}"']
    lines += [f'"0:{n}.uuid" = "MIG-{n}c0ffee"' for n in range(INSTANCES)]
    for n in range(INSTANCES):
        lines += ["[[tenant]]", f'name = "tenant {n}"', 'runtime = "docker"']
        lines += [f'environment = {{ CUDA_VISIBLE_DEVICES = "MIG-{n}c0ffee" }}']
        lines += ["[[tenant.process]]", f'name = "worker-{n}"', "memory_mib = 64"]
        lines += [f'gpu = "0:{n}"'] if n % 2 else []  # of the others the driver lists no process
        lines += ['cycle = ["cudaLaunchKernel:4:0", "cudaStreamSynchronize", "~50000"]']
    return parse_scenario("instances", "\n".join(lines))


def test_seven_instances_have_the_calls_of_their_tenants(built: Built) -> None:
    with traced(seven_instances(), built) as (_, source):
        tenants = [[f"tenant {n}"] for n in range(INSTANCES)]
        labels = {f"worker-{n}": f"0:{n}" for n in range(INSTANCES)}

        def found() -> bool:
            window, sharing = look(source, 0.3)
            launches = [key for key in window.rows.keys if key.operation == "cudaLaunchKernel"]
            launching = [
                [window.tenants[one.tenant].name for one in part.sharers if one.launches]
                for part in sharing.parts
            ]
            return launching == tenants and {key.process: key.device for key in launches} == labels

        wait_until(found, deadline=90, what="seven instances with a tenant each, and rows that know theirs")
        _, sharing = look(source)
        assert (sharing.way, sharing.shared) == ("mig", False)
        assert [part.uuid for part in sharing.parts] == [f"MIG-{n}c0ffee" for n in range(INSTANCES)]
        assert {part.way for part in sharing.parts} == {"exclusive"}
