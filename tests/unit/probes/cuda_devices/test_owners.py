"""Tests the owners of processes that the driver lists on a device."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.model.devices.device import Device, DeviceProcess, Devices, MigInstance
from stalltop.probes.cuda_devices.owners import holders, numbered_otherwise, with_owners
from stalltop.probes.tenants import host_files
from stalltop.probes.tenants.tenants import ENDED, Tenants, process_name
from tests.unit.probes.tenants.fake_host import FakeHost

A = "a1" * 32
HERE, GONE = DeviceProcess(7, "C"), DeviceProcess(4_100_001, "C")


def test_listed_processes_that_do_not_exist_have_no_tenant(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.process(7, f"/system.slice/docker-{A}.scope")
    tenants = Tenants(tmp_path)
    instance = MigInstance(0, 0, "MIG-0", processes=(HERE, replace(GONE, pid=4_100_002)))
    gpu = Device(0, "GPU-0", "H100", processes=(HERE, GONE), instances=(instance,))
    found = with_owners(Devices((gpu,)), tenants.holder, lambda pid: process_name(pid, tmp_path))
    for processes in (found.devices[0].processes, found.devices[0].instances[0].processes):
        assert [(one.tenant, one.process) for one in processes] == [(f"docker:{A}", "python"), ("", "")]
    assert holders(found) == {7}
    assert tenants.find(8, 1).id == ENDED  # a PID from counted calls gets the tenant ENDED


def test_a_process_listed_only_on_an_instance_is_a_holder(tmp_path: Path) -> None:
    instance = MigInstance(0, 0, "MIG-0", processes=(HERE,))
    devices = Devices((Device(0, "GPU-0", "H100", instances=(instance,)),))
    assert holders(with_owners(devices, lambda pid: "someone", str)) == {7}


def test_a_process_that_starts_later_gets_its_tenant(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    tenants = Tenants(tmp_path)
    assert tenants.holder(7) == ""
    host.process(7, f"/system.slice/docker-{A}.scope")
    assert tenants.holder(7) == f"docker:{A}"


@pytest.mark.parametrize(("namespace", "otherwise"), [(4026531836, False), (4026532300, True)])
def test_a_container_with_its_own_pid_namespace_is_detected(
    monkeypatch: pytest.MonkeyPatch, namespace: int, otherwise: bool
) -> None:
    monkeypatch.setattr(os, "readlink", lambda _: f"pid:[{namespace}]")
    assert numbered_otherwise() is otherwise
    assert host_files.sees_host_pids() is not otherwise


def test_an_unknown_pid_namespace_counts_as_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> str:
        raise OSError

    monkeypatch.setattr(os, "readlink", fail)
    assert not numbered_otherwise()
