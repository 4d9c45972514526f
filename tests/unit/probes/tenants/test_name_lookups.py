"""Tests that slow or hanging lookups of names delay nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stalltop.probes.tenants import name_lookups
from stalltop.probes.tenants import tenants as tenants_module
from stalltop.probes.tenants.jobs import Job
from stalltop.probes.tenants.names import NameFiles, Names
from stalltop.probes.tenants.tenants import Tenants
from tests.unit.probes.tenants.fake_host import FakeHost

MANY = 60
USERS = "/user.slice/user-{uid}.slice/user@{uid}.service/user.slice/docker-{id}.scope"
PATIENCE_SECONDS = 60.0


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_many_slow_names_delay_no_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def look_up(self: NameFiles, container_id: str, pod_uid: str = "", uid: int | None = None) -> Names:
        if not go_on.is_set():
            time.sleep(0.08)
        return Names(f"name-{int(container_id, 16)}")

    monkeypatch.setattr(NameFiles, "look_up", look_up)
    host = FakeHost(tmp_path)
    tenants = Tenants(tmp_path)
    callers = [(1000 + n, host.cgroup(f"/system.slice/docker-{n:064x}.scope")) for n in range(MANY)]
    began = time.monotonic()
    for caller in callers:
        tenants.find(*caller)
    tenants.refresh()
    assert time.monotonic() - began < 3.0  # one after the other they would take 4.8 s
    go_on.set()

    def named() -> bool:
        tenants.refresh()
        return all(tenants.find(*caller).name == f"name-{caller[0] - 1000}" for caller in callers)

    until(named)
    tenants.close()


def test_a_users_hanging_server_delays_only_names_of_that_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_is_back = threading.Event()

    def look_up(self: NameFiles, container_id: str, pod_uid: str = "", uid: int | None = None) -> Names:
        if uid == 1000:
            server_is_back.wait(PATIENCE_SECONDS)
        return Names("named")

    monkeypatch.setattr(NameFiles, "look_up", look_up)
    monkeypatch.setattr(name_lookups, "TOLD_SECONDS", 0.0)
    host = FakeHost(tmp_path)
    tenants = Tenants(tmp_path)
    theirs = 7, host.cgroup(USERS.format(uid=1000, id="a1" * 32))
    another = 8, host.cgroup(USERS.format(uid=1001, id="b2" * 32))
    roots = 9, host.cgroup(f"/system.slice/docker-{'c3' * 32}.scope")
    assert tenants.find(*theirs).name == "a1" * 6

    def named() -> bool:
        tenants.refresh()
        return tenants.find(*another).name == tenants.find(*roots).name == "named"

    until(named)
    until(lambda: len(tenants.missing()) == 1)
    (missing,) = tenants.missing()
    assert missing.what == "names"
    assert "files or daemons of user 1000 have not answered for" in missing.reason
    server_is_back.set()
    until(lambda: not tenants.missing())
    tenants.refresh()
    assert tenants.find(*theirs).name == "named"
    tenants.close()


def test_a_job_whose_environment_hangs_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, hangs, answers = 0.0, False, threading.Event()

    def job_of(pid: int, root: Path) -> Job:
        if hangs:
            answers.wait(PATIENCE_SECONDS)
        return Job("5")

    monkeypatch.setattr(tenants_module, "job_of", job_of)
    monkeypatch.setattr(tenants_module, "PATIENCE_SECONDS", 30.0)
    host = FakeHost(tmp_path)
    host.process(7, "/system.slice/slurmd.service")
    tenants = Tenants(tmp_path, lambda: now)
    cgroup = host.cgroup("/system.slice/slurmd.service")
    assert tenants.find(7, cgroup).id == "slurm:job_5"
    hangs = True
    monkeypatch.setattr(tenants_module, "PATIENCE_SECONDS", 0.01)
    for _ in range(3):
        now += 6.0
        tenants.refresh()
        assert tenants.find(7, cgroup).id == "slurm:job_5"
    answers.set()
    tenants.close()
