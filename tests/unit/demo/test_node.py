"""Tests the input that the demo writes for the stand-in driver and kubelet."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from stalltop.demo.build import Built
from stalltop.demo.cgroups import container_id, container_path, pod_uid
from stalltop.demo.kubelet import Node
from stalltop.demo.node import DemoNode, Present, nvml_text, pods_text
from stalltop.demo.scenario import PodPlan, ProcessPlan, load_scenario, parse_scenario
from stalltop.model.errors import UsageError
from stalltop.probes.kubelet.pod_resources import LIST
from stalltop.probes.options import MonitorOptions

GIVEN = {"nvidia.com/gpu.shared": ("GPU-0::0", "GPU-0::1")}
POD = PodPlan("lab", 'odd "name"\\', "main", GIVEN)


def process(gpu: str, memory_mib: int = 1, *, mps: bool = False) -> ProcessPlan:
    return ProcessPlan("p", "cuInit", gpu=gpu, memory_mib=memory_mib, mps=mps)


def test_processes_are_listed_on_their_devices() -> None:
    first = Present("a", None, ((10, process("0", mps=True)), (11, process("0")), (12, process(""))))
    second = Present("b", None, ((20, process("0", 2, mps=True)), (21, process("0:3"))))
    assert nvml_text({"devices": "1"}, [first, second]).splitlines() == [
        "devices=1",
        "0.mps=10:1048576,20:2097152",
        "0.compute=11:1048576",
        "0:3.compute=21:1048576",
    ]


def test_pods_are_served_with_their_uids_and_devices(tmp_path: Path) -> None:
    identity = container_id("one")
    text = pods_text([Present(identity, POD, ()), Present("other", None, ())])
    (pod,) = tomllib.loads(text)["pods"]
    assert (pod["namespace"], pod["name"], pod["uid"]) == ("lab", POD.name, pod_uid(identity))
    assert pod["ids"] == {"main": identity}
    assert pod["containers"] == {"main": {name: list(devices) for name, devices in GIVEN.items()}}
    (tmp_path / "pods").write_text(text)
    assert b"GPU-0::1" in (Node(tmp_path, tmp_path / "pods").answer(LIST) or b"")


def test_the_uid_is_that_of_the_cgroup() -> None:
    identity = container_id("one")
    assert pod_uid(identity).replace("-", "_") in container_path("containerd", identity)


def test_the_monitor_is_pointed_at_the_stand_ins(tmp_path: Path) -> None:
    node = DemoNode(load_scenario("mps"), Built(tmp_path))
    try:
        node.show([Present(container_id("one"), POD, ((10, process("0", mps=True)),))])
        options = node.options(MonitorOptions(memory=7))
        assert options.memory == 7
        assert options.nvml_environment["LD_LIBRARY_PATH"] == str(tmp_path)
        shown = Path(options.nvml_environment["NVML_STANDIN_SCENARIO"])
        assert "0.mps=10:1048576" in shown.read_text()
        assert options.host_root != MonitorOptions().host_root
    finally:
        node.close()
    assert not shown.exists()
    node.close()


def test_a_scenario_without_devices_and_pods_uses_this_host(tmp_path: Path) -> None:
    node = DemoNode(load_scenario("trio"), Built(tmp_path))
    assert node.options(MonitorOptions()) == MonitorOptions()
    node.close()


TENANT = '[[tenant]]\nname = "t"\nruntime = "docker"\nprocess = [{ name = "p", cycle = ["cuInit"]%s }]'


def test_stand_in_values_are_single_lines() -> None:
    assert parse_scenario("mine", "gpu = { devices = 1 }\n" + TENANT % "").gpu == {"devices": "1"}
    with pytest.raises(UsageError, match="not one line of text"):
        parse_scenario("mine", 'gpu = { "0.name" = "a\\nb" }\n' + TENANT % "")


def test_a_process_is_placed_on_a_device_by_its_label() -> None:
    (tenant,) = parse_scenario("mine", TENANT % ', gpu = "0:3"').tenants
    assert tenant.processes[0].gpu == "0:3"
    with pytest.raises(UsageError, match="not the label of a device"):
        parse_scenario("mine", TENANT % ', gpu = "GPU-0"')
