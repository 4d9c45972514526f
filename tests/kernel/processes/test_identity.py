"""Tests that counted calls go to the tenants that made them, with real processes in real cgroups."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stalltop.demo.cgroups import Cgroups, container_id, container_path
from stalltop.model.finding import can_trace
from stalltop.model.tenant import Tenant
from stalltop.probes.readiness.checks import check
from stalltop.probes.readiness.surroundings import this_host
from stalltop.probes.tenants.cgroups import layout
from stalltop.probes.tenants.tenants import Tenants
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.traced_program import FUNCTIONS, TracedProgram, points, read_calls, wait_until

pytestmark = pytest.mark.beside


@pytest.fixture(scope="module")
def kernel(driver: Path) -> Iterator[KernelSide]:
    kernel = KernelSide(slots=64, threads=64, functions=FUNCTIONS)
    library = driver.with_name("libtraced.so")
    assert not kernel.attach(str(library), points(library)).failed
    yield kernel
    kernel.close()


@pytest.fixture
def cgroups() -> Iterator[Cgroups]:
    with Cgroups() as made:
        yield made


def joining(*places: Path) -> Callable[[], None]:
    """Return a function that moves the calling process into the cgroups ``places``."""

    def join() -> None:
        for place in places:
            (place / "cgroup.procs").write_text(str(os.getpid()))

    return join


def counted(kernel: KernelSide, tenants: Tenants) -> dict[str, int]:
    """Return the number of calls since the previous read, by the id of the tenant."""
    counts = read_calls(kernel)
    result: dict[str, int] = {}
    for key, calls in zip(counts.keys, counts.calls.tolist(), strict=True):
        tenant = tenants.find(key.tgid, key.cgroup_id).id
        result[tenant] = result.get(tenant, 0) + calls
    return result


def test_each_call_goes_to_the_tenant_that_made_it(
    kernel: KernelSide, driver: Path, cgroups: Cgroups
) -> None:
    tenants = Tenants()  # created before any of the cgroups
    ids = {runtime: container_id() for runtime in ("docker", "podman", "containerd", "cri-o")}
    paths = {f"{runtime}:{full}": container_path(runtime, full) for runtime, full in ids.items()}
    job = str(10**8 + os.getpid())
    paths[f"slurm:job_{job}/step_0"] = container_path("slurm", job)
    places = {tenant: cgroups.make(path) for tenant, path in paths.items()}
    own = cgroups.make(f"jobs-of-{os.getpid()}/train")
    places[f"cgroup:{own.stat().st_ino}"] = own
    expected = {}
    for number, (tenant, place) in enumerate(places.items(), 1):
        with TracedProgram(driver, joining(place)) as program:
            program(f"call plain {number}")
            expected[tenant] = number
    # All processes have ended by now; their cgroups still exist.
    assert counted(kernel, tenants) == expected


def test_a_tenant_keeps_its_name_after_its_process_and_cgroup_are_gone(
    kernel: KernelSide, driver: Path, cgroups: Cgroups
) -> None:
    full = container_id()
    place = cgroups.make(container_path("docker", full))
    inode = place.stat().st_ino
    tenants = Tenants()
    with TracedProgram(driver, joining(place)) as program:
        program("call plain 3")
    wait_until(lambda: "populated 0" in (place / "cgroup.events").read_text(), "the cgroup is empty")
    cgroups.close()
    assert not place.exists()
    tenants.refresh()
    assert counted(kernel, tenants) == {f"docker:{full}": 3}
    found = tenants.find(program.pid, inode)
    assert found == Tenant(
        id=f"docker:{full}",
        name=full[:12],
        kind="container",
        runtime="docker",
        container_id=full,
        cgroup_id=inode,
        cgroup_path="/" + container_path("docker", full),
    )
    tenants.forget(program.pid)


def test_a_process_that_changes_its_cgroup_counts_for_both_tenants(
    kernel: KernelSide, driver: Path, cgroups: Cgroups
) -> None:
    one, other = container_id(), container_id()
    places = [cgroups.make(container_path("docker", full)) for full in (one, other)]
    tenants = Tenants()
    with TracedProgram(driver, joining(places[0])) as program:
        program("call plain 5")
        (places[1] / "cgroup.procs").write_text(str(program.pid))
        program("call plain 7")
        assert counted(kernel, tenants) == {f"docker:{one}": 5, f"docker:{other}": 7}


def test_a_container_known_only_by_cgroup_v1_is_a_tenant(kernel: KernelSide, driver: Path) -> None:
    if layout().kind != "hybrid":
        pytest.skip("this host has no cgroup v1")
    controllers = ("memory", "pids", "cpu", "freezer")
    found = [Path("/sys/fs/cgroup") / name for name in controllers]
    hierarchy = next(path for path in found if (path / "cgroup.procs").exists())
    full = container_id()
    place = hierarchy / "docker" / full
    had_parent = place.parent.exists()
    place.mkdir(parents=True)
    try:
        tenants = Tenants()
        with TracedProgram(driver, joining(place)) as program:
            program("call plain 4")
            assert counted(kernel, tenants) == {f"docker:{full}": 4}
            assert tenants.find(program.pid, 0).cgroup_path == f"/docker/{full}"
    finally:
        wait_until(lambda: not (place / "cgroup.procs").read_text(), "the cgroup is empty")
        place.rmdir()
        if not had_parent:
            place.parent.rmdir()


def test_a_process_without_a_container_is_a_tenant_by_its_name(kernel: KernelSide, driver: Path) -> None:
    tenants = Tenants()
    root = layout().unified
    assert root is not None
    with TracedProgram(driver, joining(root.point)) as program:
        program("call plain 2")
        [(tenant, calls)] = counted(kernel, tenants).items()
        assert calls == 2
        assert tenant == f"process:{os.getuid()}/driver"
        assert tenants.find(program.pid, 1).name == "driver"


def test_the_readiness_check_traces_calls_of_its_own(kernel: KernelSide) -> None:
    findings = check(this_host())
    [trial] = [finding for finding in findings if finding.name == "trial"]
    assert trial.verdict == "ok"
    assert "every call counted" in trial.seen
    assert can_trace(findings)
