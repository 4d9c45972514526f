"""Tests that a user cannot make discovery open or read something other than the files that are mapped."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path

import pytest

from stalltop.probes.binaries.mapped_file import found
from stalltop.probes.process_maps import libraries_of
from stalltop.probes.regular_file import opened
from tests.kernel.children import Child
from tests.unit.probes.binaries.elf_file import Symbol, elf
from tests.unit.probes.libraries.discovered import discovered

NAME = "libcudart.so.12"


@pytest.fixture(params=["map_files", "path"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether /proc/PID/map_files may be used, or only the path of a mapping."""
    real = os.open

    def refuse(path: str, *rest: int, **more: int) -> int:
        if "/map_files/" in str(path):
            raise PermissionError(errno.EPERM, "Operation not permitted")
        return real(path, *rest, **more)

    if request.param == "path":
        monkeypatch.setattr(os, "open", refuse)
    elif not may_use_map_files():
        pytest.skip("/proc/PID/map_files needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE")
    return str(request.param)


def may_use_map_files() -> bool:
    for name in os.listdir("/proc/self/map_files"):
        try:
            os.stat(f"/proc/self/map_files/{name}")
        except PermissionError:
            return False
        except OSError:
            continue
        return True
    return False


@pytest.fixture
def opens(way: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collects the modes of all files that are opened for more than a look (``O_PATH``)."""
    modes: list[int] = []
    before = os.open

    def watching(path: str, flags: int, *rest: int, **more: int) -> int:
        fd = before(path, flags, *rest, **more)
        if not flags & os.O_PATH:
            modes.append(os.fstat(fd).st_mode)
        return fd

    monkeypatch.setattr(os, "open", watching)
    return modes


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / NAME
    path.write_bytes(elf([Symbol("cudaMalloc")]).ljust(8192, b"\0"))
    return path


def test_a_mapped_library_is_probed(way: str, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Child() as child:
        child.do("map_file", library)
        with discovered(monkeypatch, child.pid) as found:
            assert found.functions() == {(str(library), "runtime"): 1}
            assert found.missing() == {}


@pytest.mark.parametrize("kind", ["pipe", "link to a device", "link to a file", "file", "nothing"])
def test_what_replaces_a_library_is_never_opened(
    way: str, opens: list[int], library: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    secret = library.with_name("secret")
    secret.write_bytes(elf([Symbol("cudaFree")]))
    secret.chmod(0o600)
    with Child() as child:
        child.do("map_file", library)
        library.unlink()
        if kind == "pipe":
            os.mkfifo(library, 0o600)
        elif kind == "link to a device":
            library.symlink_to("/dev/zero")
        elif kind == "link to a file":
            library.symlink_to(secret)
        elif kind == "file":
            shutil.copy(secret, library)
        with discovered(monkeypatch, child.pid) as found:
            if way == "map_files":
                assert found.functions() == {(f"{library} (deleted)", "runtime"): 1}
                assert found.attached == [f"{library} (deleted)"] * len(found.attached)
            else:
                for _ in range(5):
                    found.update()
                assert found.functions() == {}
                (reason,) = found.missing().values()
                expected = "No such file" if kind == "nothing" else "another file has its path now"
                assert reason.startswith(f"cannot be opened: {expected}")
    assert all(stat.S_ISREG(mode) for mode in opens)


def test_a_link_in_place_of_a_folder_is_not_followed(way: str, library: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    shutil.copy(library, tmp_path / "other" / NAME)
    original = library.stat().st_ino
    with Child() as child:
        child.do("map_file", library)
        (mapping,) = libraries_of(child.pid)
        library.parent.rename(tmp_path / "moved")
        library.parent.symlink_to(tmp_path / "other")
        if way == "path":
            with pytest.raises(OSError, match="another file") as raised, found(mapping):
                pass
            assert raised.value.errno == errno.ESTALE
        else:
            with found(mapping) as fd, opened(fd) as reading:
                assert os.fstat(reading).st_ino == original


def test_a_folder_that_is_replaced_between_look_and_open_changes_nothing(
    way: str, library: Path, tmp_path: Path
) -> None:
    data = library.read_bytes()
    with Child() as child:
        child.do("map_file", library)
        (mapping,) = libraries_of(child.pid)
        with found(mapping) as fd:
            library.parent.rename(tmp_path / "moved")
            library.parent.mkdir()
            library.symlink_to("/dev/zero")
            with opened(fd) as reading:
                assert os.pread(reading, len(data), 0) == data


def test_a_mapped_device_is_never_opened(
    way: str, opens: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path / NAME
    try:
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
        os.close(os.open(device, os.O_RDONLY))
    except PermissionError:
        pytest.skip("this user may not make devices")
    opens.clear()
    with Child() as child:
        child.do("run", MAP_DEVICE.format(device=str(device)))
        with discovered(monkeypatch, child.pid) as found:
            for _ in range(5):
                found.update()
            assert found.missing() == {str(device): "cannot be opened: it is not a regular file"}
    assert all(stat.S_ISREG(mode) for mode in opens)


MAP_DEVICE = """
import ctypes, os
mmap = ctypes.CDLL(None).mmap
mmap.restype = ctypes.c_void_p
mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
fd = os.open({device!r}, os.O_RDONLY)
assert mmap(None, 8192, 5, 2, fd, 0) not in (None, ctypes.c_void_p(-1).value)
"""
