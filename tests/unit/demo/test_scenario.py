"""Tests parsing scenario files, messages for faulty ones, and the names of tenants."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stalltop.demo import source as demo_source
from stalltop.demo.build import NATIVE
from stalltop.demo.cgroups import container_id, container_path
from stalltop.demo.latencies import Latency
from stalltop.demo.scenario import load_scenario, parse_scenario, scenario_names
from stalltop.demo.simulated.windows import SimulatedSource
from stalltop.demo.source import NamedSource, why_simulated
from stalltop.model.errors import StalltopError, UsageError
from stalltop.probes.tenants.patterns import parse_best

TENANT = """
about = "one"
[[tenant]]
name = "a"
runtime = "docker"
[[tenant.process]]
name = "p"
threads = 2
cycle = ["cudaMalloc:2:64", "~100"]
[tenant.latency]
cuMemAlloc = { how = "futex", shape = "uniform", us = 3, longest_us = 9, spike = [0.1, 4], error_share = 0.2 }
"""


def test_every_shipped_scenario_is_parsed() -> None:
    assert "trio" in scenario_names()
    for name in scenario_names():
        scenario = load_scenario(name)
        assert scenario.about
        assert scenario.tenants
        # Every function with a latency exists in a stand-in library, and every tenant can get a cgroup.
        sources = "".join(path.read_text() for path in (NATIVE / "libraries").glob("*.c"))
        for tenant in scenario.tenants:
            assert container_path(tenant.runtime, container_id())
            assert tenant.processes
            for symbol in tenant.latencies:
                assert f", {symbol})" in sources or f", {symbol}," in sources or f"({symbol}," in sources, (
                    symbol
                )


def test_a_scenario_is_parsed_into_its_fields() -> None:
    (tenant,) = parse_scenario("x", TENANT).tenants
    (process,) = tenant.processes
    assert (tenant.name, tenant.runtime, process.name, process.threads) == ("a", "docker", "p", 2)
    assert process.cycle == "cudaMalloc:2:64 ~100"
    expected = Latency("futex", "uniform", 3000.0, 9000.0, 0.1, 4, 0.2, 1)
    assert dict(tenant.latencies) == {"cuMemAlloc": expected}
    assert expected.line("cuMemAlloc") == "cuMemAlloc futex uniform 3000.0 9000.0 0.1 4.0 0.2 1"


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ('about = "one"', "about = ", "Invalid value"),
        ('name = "p"', "", "'name' is missing"),
        ('runtime = "docker"', "", "'runtime' is missing"),
        ("~100", "sleep 3", "not an item of a cycle"),
        ("futex", "dance", "latency of cuMemAlloc has unknown keys or values"),
        ("us = 3", "seconds = 3", "latency of cuMemAlloc has unknown keys or values"),
        ("threads = 2", 'threads = "many"', "scenario x: invalid literal"),
        ("cuMemAlloc =", '"cuInit\\nx" =', "not the name of a function"),
        ("[0.1, 4]", "[0.1]", "not enough values"),
        ("error_share = 0.2", 'error_share = "often"', "could not convert"),
        ('"docker"', '"rkt"', "no cgroup path is known for the runtime 'rkt'"),
        ('"cudaMalloc:2:64", "~100"', "", "a cycle without items"),
    ],
)
def test_faults_in_a_scenario_are_reported(before: str, after: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_scenario("x", TENANT.replace(before, after))


def test_a_users_file_is_a_scenario(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TENANT.replace('name = "a"', 'name = "a\\u001b[31m"'))
    scenario = load_scenario(str(path))
    assert scenario.name == "mine"
    assert "\x1b" not in scenario.tenants[0].name
    with pytest.raises(UsageError, match="cannot read the scenario"):
        load_scenario(str(tmp_path / "other.toml"))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UsageError, match="no scenario is called nothing") as told:
        load_scenario("nothing")
    assert "trio" in told.value.remedy
    with pytest.raises(ValueError, match="'rkt'"):
        container_path("rkt", container_id())
    with pytest.raises(ValueError, match="space"):
        Latency("hold", path=NATIVE / "a b").line("cuInit")


@pytest.mark.parametrize("runtime", ["docker", "podman", "containerd", "cri-o", "slurm"])
def test_cgroup_paths_match_the_runtime(runtime: str) -> None:
    identity = "4711" if runtime == "slurm" else container_id("seed")
    found = parse_best(["/" + container_path(runtime, identity)])
    assert found is not None
    assert found.runtime == runtime
    assert found.container_id == ("" if runtime == "slurm" else identity)
    if runtime == "slurm":
        assert found.id == "slurm:job_4711/step_0"
    assert container_id("seed") == container_id("seed") != container_id()


def test_tenants_are_named_by_their_container_id() -> None:
    plain = SimulatedSource(1, tenants=4, operations=3)
    tenants = plain.read().tenants
    names = {tenant.container_id: tenant.name.upper() for tenant in tenants.values() if tenant.container_id}
    named = NamedSource(plain, names)
    window = named.read()
    assert len(names) == 3
    for key, tenant in tenants.items():
        expected = tenant.name.upper() if tenant.container_id else tenant.name
        assert window.tenants[key].name == expected
    named.close()


def test_the_reason_for_simulating_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert why_simulated() == "not started as root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def missing() -> None:
        raise StalltopError("no C compiler on this host", "apt install gcc")

    monkeypatch.setattr(demo_source, "compiler", missing)
    assert why_simulated() == "no C compiler on this host"
