"""Tests cgroup layouts, memberships and the tree of cgroups on a fake host."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from stalltop.probes.tenants import cgroups
from stalltop.probes.tenants.cgroups import CgroupTree, Membership, Mount, layout, membership
from stalltop.probes.tenants.directory_watch import DirectoryWatch
from tests.unit.probes.tenants.fake_host import FakeHost


@pytest.mark.parametrize("kind", ["unified", "hybrid", "legacy", "none"])
def test_layout_is_detected(tmp_path: Path, kind: str) -> None:
    host = FakeHost(tmp_path, kind)
    found = layout(tmp_path)
    assert found.kind == kind
    assert found.unified == (Mount(host.point, "/") if kind in ("unified", "hybrid") else None)


def test_layout_decodes_blanks_and_takes_the_widest_mount(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.write(
        "proc/self/mountinfo",
        "1 2 0:3 /docker/abc /part rw - cgroup2 c rw\n"
        "1 2 0:3 / /with\\040blank rw - cgroup2 c rw\n"
        "broken\n\n",
    )
    assert layout(tmp_path).unified == Mount(tmp_path / "with blank", "/")


def test_layout_without_mountinfo_is_none(tmp_path: Path) -> None:
    assert layout(tmp_path).kind == "none"


def test_membership_is_read_from_proc(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.process(7, "4:memory:/docker/a:b\n3:cpu,cpuacct:/docker/a:b\n1:name=systemd:/x (deleted)\n0::/y\n")
    assert membership(7, tmp_path) == Membership("/y", ("/docker/a:b", "/x"))
    assert membership(8, tmp_path) is None
    host.write("proc/9/cgroup", b"nonsense\n\n\xff\n")
    assert membership(9, tmp_path) == Membership()


def test_ids_and_paths_follow_the_tree(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    a, b = host.cgroup("/slice/a"), host.cgroup("/slice/b")
    host.write("sys/fs/cgroup/slice/a/cgroup.procs", "")
    tree = CgroupTree(Mount(host.point, "/"))
    assert tree.path(a) == "/slice/a"
    assert tree.path(b) == "/slice/b"
    assert tree.path(host.point.stat().st_ino) == "/"
    assert tree.path(1 << 60) is None
    assert tree.id("/slice/a") == a
    assert tree.id("/slice/none") == tree.id("relative") == tree.id("/../slice") == tree.id("/a\0") == 0

    deep = host.cgroup("/slice/a/deep/deeper")
    assert tree.path(deep) is None
    tree.refresh()
    assert tree.path(deep) == "/slice/a/deep/deeper"


def test_a_removed_cgroup_keeps_its_path(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    inner = host.cgroup("/slice/a/inner")
    tree = CgroupTree(Mount(host.point, "/"))
    shutil.rmtree(host.point / "slice/a")
    tree.refresh()
    assert tree.path(inner) == "/slice/a/inner"
    assert tree.id("/slice/a/inner") == 0


def test_a_cgroup_replaced_by_another_is_noticed(tmp_path: Path) -> None:
    # The parent has as many children as before, so its link count does not show the change.
    host = FakeHost(tmp_path)
    host.cgroup("/slice/a")
    tree = CgroupTree(Mount(host.point, "/"))
    (host.point / "slice/a").rename(tmp_path / "kept-so-that-its-inode-is-not-used-again")
    b = host.cgroup("/slice/b")
    tree.refresh()
    assert tree.path(b) == "/slice/b"
    (host.point / "slice/b").rename(tmp_path / "kept-too")
    again = host.cgroup("/slice/b")
    assert again != b
    tree.refresh()
    assert tree.path(again) == "/slice/b"


def test_a_partial_mount_gets_full_paths(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    a = host.cgroup("/a")
    tree = CgroupTree(Mount(host.point, "/docker/x"))
    assert tree.path(a) == "/docker/x/a"
    assert tree.path(host.point.stat().st_ino) == "/docker/x"
    assert tree.id("/docker/x/a") == a
    assert tree.id("/elsewhere/a") == 0


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "MAX_GONE", 10)
    monkeypatch.setattr(cgroups, "MAX_DIRECTORIES", 30)
    host = FakeHost(tmp_path)
    ids = [host.cgroup(f"/g{n}") for n in range(50)]
    tree = CgroupTree(Mount(host.point, "/"))
    assert sum(tree.path(n) is not None for n in ids) == 29  # 30 with the root
    host.point.rename(tmp_path / "kept-so-that-no-inode-is-used-again")
    host.point.mkdir()
    tree.refresh()
    assert sum(tree.path(n) is not None for n in ids) == 10
    tree.made({(1 << 60) + n: f"/made-{n}" for n in range(50)})
    assert sum(tree.path((1 << 60) + n) is not None for n in range(50)) == 10


def test_a_cgroup_that_was_made_and_removed_meanwhile_has_its_path(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    there = host.cgroup("/slice/a")
    tree = CgroupTree(Mount(host.point, "/"))
    tree.made({there: "/said", 1 << 60: "/slice/gone"})
    assert tree.path(there) == "/slice/a"
    assert tree.path(1 << 60) == "/slice/gone"
    assert not tree.has(1 << 60)


def test_a_missing_mount_has_no_cgroups(tmp_path: Path) -> None:
    tree = CgroupTree(Mount(tmp_path / "missing", "/"))
    tree.refresh()
    assert tree.path(1) is None
    assert tree.id("/a") == 0


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns a list that gets the path of each directory that is examined or listed."""
    seen: list[str] = []
    status, scandir = cgroups._status, os.scandir

    def noted_status(path: str) -> os.stat_result | None:
        seen.append(path)
        return status(path)

    def noted_scandir(path: str) -> Any:
        seen.append(path)
        return scandir(path)

    monkeypatch.setattr(cgroups, "_status", noted_status)
    monkeypatch.setattr(os, "scandir", noted_scandir)
    return seen


def test_only_directories_that_changed_are_looked_at(tmp_path: Path, looked_at: list[str]) -> None:
    host = FakeHost(tmp_path)
    for number in range(300):
        host.cgroup(f"/slice/{number}/inner")
    tree = CgroupTree(Mount(host.point, "/"))
    looked_at.clear()
    tree.refresh()
    assert looked_at == []
    new = host.cgroup("/slice/5/inner/new/deep")
    (host.point / "slice/9/inner").rmdir()
    tree.refresh()
    assert tree.path(new) == "/slice/5/inner/new/deep"
    assert tree.id("/slice/9/inner") == 0
    below = ["slice/5/inner", "slice/5/inner/new", "slice/5/inner/new/deep", "slice/9"]
    assert sorted(looked_at) == [str(host.point / path) for path in below]


@pytest.mark.parametrize("watches", [0, 5])
def test_without_enough_watches_each_directory_is_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watches: int
) -> None:
    real, left = DirectoryWatch.add, [watches]

    def add(self: DirectoryWatch, path: str) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, "no more watches")
        return real(self, path)

    monkeypatch.setattr(DirectoryWatch, "add", add)
    host = FakeHost(tmp_path)
    first = [host.cgroup(f"/slice/{number}/inner") for number in range(10)]
    tree = CgroupTree(Mount(host.point, "/"))
    later = [host.cgroup(f"/slice/{number}/inner/new") for number in range(10)]
    tree.refresh()
    found = [tree.path(one) for one in (*first, *later)]
    assert found == [f"/slice/{n}/inner" for n in range(10)] + [f"/slice/{n}/inner/new" for n in range(10)]


def test_changes_beyond_the_queue_are_found(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    tree = CgroupTree(Mount(host.point, "/"))
    longest = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for number in range(longest // 2 + 8):
        (host.point / f"{number}").mkdir()
        (host.point / f"{number}").rmdir()
    last = host.cgroup("/last")
    tree.refresh()
    assert tree.path(last) == "/last"
