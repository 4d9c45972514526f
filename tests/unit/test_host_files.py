"""Where the host's files are looked for."""

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
    """Be in this PID namespace, where the first process has this root."""
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
def test_links_of_the_host_stay_on_the_host(
    tmp_path: Path, link: str, target: str, path: str, leads_to: str
) -> None:
    place = tmp_path / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)
    assert host_files.inside(tmp_path, path) == tmp_path / leads_to


def test_they_are_where_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/host")
    assert host_files.host_files() == Path("/host")


def test_in_a_container_they_are_the_first_processs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen(monkeypatch, INITIAL, tmp_path)
    assert host_files.host_files() == Path("/proc/1/root")


def test_on_the_host_they_are_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, INITIAL, Path("/"))
    assert host_files.host_files() == Path("/")


def test_the_first_process_of_a_container_is_not_the_hosts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen(monkeypatch, "pid:[4026532000]", tmp_path)
    assert host_files.host_files() == Path("/")


def test_who_may_not_look_there_has_ones_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen(monkeypatch, INITIAL, tmp_path / "not there")
    assert host_files.host_files() == Path("/")
