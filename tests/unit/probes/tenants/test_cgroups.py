"""Tests cgroup layouts, memberships and the tree of cgroups on a fake host."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stalltop.probes.tenants import cgroups
from stalltop.probes.tenants.cgroups import CgroupTree, Membership, Mount, layout, membership
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


def test_a_missing_mount_has_no_cgroups(tmp_path: Path) -> None:
    tree = CgroupTree(Mount(tmp_path / "missing", "/"))
    tree.refresh()
    assert tree.path(1) is None
    assert tree.id("/a") == 0
