"""Tests that slow or hanging lookups of names delay nothing."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from stalltop.probes.tenants import name_lookups
from stalltop.probes.tenants import tenants as tenants_module
from stalltop.probes.tenants.jobs import Job
from stalltop.probes.tenants.name_lookups import NamesHere
from stalltop.probes.tenants.names import NameFiles, Names
from stalltop.probes.tenants.tenants import NAME_TRIES, UNANSWERED_SECONDS, Tenants
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


class SilentUser(NamesHere):
    """Names of which those of user 1000 get no answer, while ``silent`` is true."""

    silent = True
    looks = 0

    def files(self, container_id: str, pod_uid: str, uid: int | None) -> Names:
        if uid == 1000:
            self.looks += 1
            if self.silent:
                raise OSError(errno.ETIMEDOUT, "no answer")
        return Names("named")

    def unanswering(self) -> Collection[int]:
        return [1000] if self.silent else []


def test_a_user_whose_files_do_not_answer_is_told_and_asked_again_until_they_do(tmp_path: Path) -> None:
    now = 0.0
    sources = SilentUser(tmp_path, tmp_path)
    host = FakeHost(tmp_path)
    tenants = Tenants(tmp_path, lambda: now, sources=sources)
    theirs = 7, host.cgroup(USERS.format(uid=1000, id="a1" * 32))
    another = 8, host.cgroup(USERS.format(uid=1001, id="b2" * 32))
    roots = 9, host.cgroup(f"/system.slice/docker-{'c3' * 32}.scope")
    assert tenants.find(*theirs).name == "a1" * 6

    def named(*callers: tuple[int, int]) -> bool:
        tenants.refresh()
        return all(tenants.find(*caller).name == "named" for caller in callers)

    until(lambda: named(another, roots))
    (missing,) = tenants.missing()
    assert (missing.what, missing.reason) == (
        "names",
        "files or daemons of user 1000 do not answer: ids are shown",
    )
    for _ in range(2 * NAME_TRIES):  # A look-up without an answer is no try.
        looks = sources.looks
        now += UNANSWERED_SECONDS

        def looked() -> bool:
            tenants.refresh()
            return sources.looks > looks  # noqa: B023

        until(looked)
    sources.silent = False
    now += UNANSWERED_SECONDS
    until(lambda: named(theirs))
    assert not tenants.missing()
    tenants.close()


def test_a_job_whose_environment_hangs_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, hangs, answers = 0.0, False, threading.Event()

    def job_of(pid: int, root: Path) -> Job:
        if hangs:
            answers.wait(PATIENCE_SECONDS)
        return Job("5")

    monkeypatch.setattr(name_lookups, "job_of", job_of)
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
