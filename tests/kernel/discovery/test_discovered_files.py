"""Tests that each file is probed once, whatever its path, and that its probes are removed when it is deleted
or changed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from stalltop.probes.binaries.file_identity import FileIdentity
from stalltop.probes.libraries import discovery, known_files
from tests.kernel.children import Child, until
from tests.kernel.discovery.tracing import TracedDiscovery


def test_a_copy_at_another_path_is_another_file(
    tracing: TracedDiscovery, library: Path, tmp_path: Path
) -> None:
    (tmp_path / "copy").mkdir()
    copy = Path(shutil.copy(library, tmp_path / "copy" / "libcudart.so.12"))
    tracing.libraries.start()
    with Child() as one, Child() as two:
        one.load(library)
        two.load(copy)
        tracing.update()
        one.call(library, "cudaMalloc", 4)
        two.call(copy, "cudaMalloc", 6)
        assert tracing.calls(one.pid) == {"cudaMalloc": 4}
        assert tracing.calls(two.pid) == {"cudaMalloc": 6}
    assert sorted(tracing.attached) == ["copy/libcudart.so.12", "libcudart.so.12"]


MOUNTS = """
set -e
mount -t tmpfs none {root}
mkdir {root}/lower {root}/upper_a {root}/upper_b {root}/work_a {root}/work_b {root}/a {root}/b {root}/bound
cp {library} {root}/lower/libcudart.so.12
mount -t overlay overlay -o lowerdir={root}/lower,upperdir={root}/upper_a,workdir={root}/work_a {root}/a
mount -t overlay overlay -o lowerdir={root}/lower,upperdir={root}/upper_b,workdir={root}/work_b {root}/b
mount --bind {root}/lower {root}/bound
exec "$@"
"""


def test_one_file_under_overlays_and_bind_mounts_counts_once(
    tracing: TracedDiscovery, library: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    script = MOUNTS.format(root=root, library=library)
    tracing.libraries.start()
    private = ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh"]
    with Child(private) as owner:
        enter = ["nsenter", "-t", str(owner.pid), "-m"]
        with Child(enter) as a, Child(enter) as b, Child(enter) as bound:
            for child, place in [(owner, "lower"), (a, "a"), (b, "b"), (bound, "bound")]:
                child.load(root / place / "libcudart.so.12")
                tracing.update()
                assert child.pid in tracing.libraries.traced_pids(), place
            for number, (child, place) in enumerate([(owner, "lower"), (a, "a"), (b, "b"), (bound, "bound")]):
                child.call(root / place / "libcudart.so.12", "cudaMalloc", 10 + number)
                assert tracing.calls(child.pid) == {"cudaMalloc": 10 + number}, place
            assert len(tracing.attached) == 1
            assert list(tracing.rows.values()) == [(2, 4)]
            # ``touch`` in a container changes the file, so the overlay makes a copy, which is another file.
            a.do("load", root / "a" / "libcudart.so.12")
            with Child([*enter, "sh", "-c", f'touch {root}/b/libcudart.so.12; exec "$@"', "sh"]) as changed:
                changed.load(root / "b" / "libcudart.so.12")
                tracing.update()
                changed.call(root / "b" / "libcudart.so.12", "cudaMalloc", 9)
                assert tracing.calls(changed.pid) == {"cudaMalloc": 9}
                assert len(tracing.attached) == 2


def test_a_deleted_file_and_its_successor_are_both_probed(
    tracing: TracedDiscovery, library: Path, built: Path
) -> None:
    with Child() as old, Child() as new:
        old.load(library)
        library.unlink()
        shutil.copy(built / "other" / "libcudart.so.12", library)
        new.load(library)
        tracing.libraries.start()
        old.call(library, "cudaMalloc", 3)
        new.call(library, "cudaMalloc", 5)
        assert tracing.calls(old.pid) == {"cudaMalloc": 3}
        assert tracing.calls(new.pid) == {"cudaMalloc": 5}
        assert set(tracing.rows) == {
            ("libcudart.so.12", "runtime"),
            ("libcudart.so.12 (deleted)", "runtime"),
        }


def test_a_file_overwritten_in_place_is_probed_again(
    tracing: TracedDiscovery, library: Path, built: Path
) -> None:
    tracing.libraries.start()
    with Child() as child:
        child.load(library)
        tracing.update()
        child.call(library, "cudaMalloc", 1)
    inode = library.stat().st_ino
    library.write_bytes((built / "other" / "libcudart.so.12").read_bytes())
    assert library.stat().st_ino == inode
    tracing.update()  # removes the probes of the old content before a process executes the new content
    assert tracing.rows == {}
    with Child() as child:
        assert until(
            lambda: child.do("maps_unchanged", library) == 1
        )  # another tracer on this host may take longer to remove its probes from the file
        child.load(library)
        tracing.update()
        child.call(library, "cudaMalloc", 8)
        assert tracing.calls(child.pid) == {"cudaMalloc": 8}
    assert len(tracing.attached) == 2


def test_an_unloaded_library_is_released_and_found_again(
    tracing: TracedDiscovery, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "RECHECK_SECONDS", 0.0)
    monkeypatch.setattr(known_files, "LINGER_SECONDS", 0.0)
    tracing.libraries.start()
    with Child() as child:
        for times in (1, 2):
            child.load(library)
            tracing.update()
            assert child.pid in tracing.libraries.traced_pids()
            child.call(library, "cudaMalloc", 5)
            child.do("unload", library)
            assert until(lambda: not tracing.rows, tracing.update)
            assert child.pid not in tracing.libraries.traced_pids()
            assert len(tracing.attached) == times
        assert tracing.calls(child.pid) == {"cudaMalloc": 10}


def test_control_characters_in_paths_are_replaced(
    tracing: TracedDiscovery, library: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "a\x1b[31m\n\u202eb"
    folder.mkdir()
    evil = folder / "libcudart.so.12"
    library.rename(evil)
    tracing.libraries.start()
    with Child() as child:
        child.load(evil)
        tracing.update()
        child.call(evil, "cudaFree", 2)
        assert tracing.calls(child.pid) == {"cudaFree": 2}
        ((path, _),) = tracing.rows
        assert path.isprintable()


def test_files_are_compared_by_their_pages(library: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    os.link(library, link)
    copy = Path(shutil.copy(library, tmp_path / "copy"))
    identities = []
    for path in (library, link, copy):
        fd = os.open(path, os.O_RDONLY)
        identities.append(FileIdentity(fd))
        os.close(fd)
    one, linked, copied = identities
    assert one.same(linked)
    assert not one.same(copied)
    # Files with different device and inode numbers, as in two overlays, are the same file if they share the
    # mapped page.
    linked._numbers = (0, 0)
    assert one.same(linked)
    assert linked.same(one)
    assert not linked.same(copied)
    # A truncated file must not raise SIGBUS.
    os.truncate(copy, 0)
    assert not one.same(copied)
    for identity in identities:
        identity.close()
        identity.close()
    assert not linked.same(one)
