"""Tests in which folder stalltop finds the root of the host's file system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stalltop.probes.tenants import host_files
from stalltop.probes.tenants.host_files import VARIABLE

INITIAL = "pid:[4026531836]"


@pytest.fixture(autouse=True)
def _untold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def seen(monkeypatch: pytest.MonkeyPatch, namespace: str, first: Path) -> None:
    """Simulates a PID namespace whose first process has the root ``first``."""
    original = os.stat
    monkeypatch.setattr(os, "readlink", lambda _: namespace)
    monkeypatch.setattr(
        os, "stat", lambda path, **more: original(first if str(path) == "/proc/1/root" else path, **more)
    )


@pytest.mark.parametrize(
    ("link", "target", "path", "leads_to"),
    [
        ("var/lib/docker", "/data/docker", "var/lib/docker/x", "data/docker/x"),
        ("var/lib/docker", "../../data/docker", "var/lib/docker/x", "data/docker/x"),
        ("var/lib/docker", "../../../../../data", "var/lib/docker/x", "data/x"),
        ("var/lib/docker", "/var/lib/docker", "var/lib/docker/x", "var/lib/docker/x"),
        ("elsewhere", "/data", "var/lib/docker/x", "var/lib/docker/x"),
        ("a", "/etc", "a/passwd", "etc/passwd"),
    ],
)
def test_links_resolve_below_the_host_root(
    tmp_path: Path, link: str, target: str, path: str, leads_to: str
) -> None:
    place = tmp_path / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)
    assert host_files.inside(tmp_path, path) == tmp_path / leads_to


def test_the_environment_variable_sets_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/host")
    assert host_files.host_files() == Path("/host")


def test_in_a_container_with_the_hosts_pids_the_root_is_that_of_pid_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen(monkeypatch, INITIAL, tmp_path)
    assert host_files.host_files() == Path("/proc/1/root")


def test_on_the_host_the_root_is_slash(monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, INITIAL, Path("/"))
    assert host_files.host_files() == Path("/")


def test_in_a_pid_namespace_of_its_own_the_root_is_slash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen(monkeypatch, "pid:[4026532000]", tmp_path)
    assert host_files.host_files() == Path("/")


def test_without_permission_the_root_is_slash(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen(monkeypatch, INITIAL, tmp_path / "not there")
    assert host_files.host_files() == Path("/")
