"""Builds a guest's file system from this host's Python, the checks and the test programs, each at the path
that it has on the host."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.kernels import guest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = Path(os.path.realpath(sys.executable))
CHECKS = "tests.kernels.checks"
"""The module that `guest.py` runs in a guest."""

LATER = ("capstone", "numpy.ctypeslib", "numpy.ma")
"""Modules that stalltop imports only when they are first used, so that importing ``CHECKS`` does not load
them."""

_LIST_FILES = """
import importlib, json, re, sys
sys.path[:] = json.loads(sys.argv[1])
for name in sys.argv[2:]:
    importlib.import_module(name)
files = {getattr(module, "__file__", None) for module in sys.modules.values()}
caches = {getattr(module, "__cached__", None) for module in sys.modules.values()}
with open("/proc/self/maps") as maps:
    mapped = set(re.findall(r"(/\\S+\\.so\\S*)$", maps.read(), re.M))
print(json.dumps(sorted({*files, *caches, *mapped} - {None})))
"""
_LIBRARY = re.compile(r"(/\S+) \(0x[0-9a-f]+\)")


def import_path() -> list[str]:
    """Return the import path of the guest's Python: the import path of this Python without the folder of the
    script that runs."""
    return [str(ROOT / "src"), *(place for place in sys.path if place and Path(place).is_absolute())]


def imported_files(modules: Iterable[str]) -> list[Path]:
    """Return all files that a new interpreter reads and maps when it imports ``modules``."""
    command = [str(PYTHON), "-I", "-S", "-c", _LIST_FILES, json.dumps(import_path()), *modules]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [Path(name) for name in json.loads(done.stdout) if Path(name).exists()]


def libraries(program: Path) -> list[Path]:
    """Return the shared libraries of an ELF file, including its interpreter."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, timeout=60, check=False)
    return [Path(name) for name in _LIBRARY.findall(done.stdout)]


class Archive:
    """Builds an initial RAM disk (cpio, format newc: Documentation/driver-api/early-userspace)."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._names = set[str]()
        self.node(
            "/dev/console", stat.S_IFCHR | 0o600, (5, 1)
        )  # the Linux kernel opens the console for the first process

    def folder(self, path: Path) -> None:
        """Add a folder, and the folders above it that are missing."""
        if str(path) in self._names or path == path.parent:
            return
        self.folder(path.parent)
        self._add(str(path), stat.S_IFDIR | 0o755)

    def file(self, path: Path) -> None:
        """Add a file of this host at its own path, with the symbolic links that lead to it."""
        self._at(path.parent)
        path = Path(os.path.realpath(path.parent), path.name)
        if str(path) in self._names:
            return
        if path.is_symlink():
            target = os.readlink(path)
            self._add(str(path), stat.S_IFLNK | 0o777, os.fsencode(target))
            self.file(path.parent / target)
        else:
            status = path.stat()
            mode = stat.S_IFREG | status.st_mode & 0o777
            # Keep the modification time: Python compares it to see whether a compiled module belongs to its
            # source.
            self._add(str(path), mode, path.read_bytes(), int(status.st_mtime))

    def program(self, path: Path) -> None:
        """Add a program or library, and the libraries that it is linked with."""
        self.file(path)
        for library in libraries(path):
            self.file(library)

    def tree(self, root: Path) -> None:
        """Add everything below ``root``, at paths relative to ``root``."""
        for folder, folders, files in os.walk(root):
            inside = Path("/", Path(folder).relative_to(root))
            self.folder(inside)
            for name in (*folders, *files):
                path = Path(folder, name)
                if path.is_symlink():
                    self._add(str(inside / name), stat.S_IFLNK | 0o777, os.fsencode(os.readlink(path)))
                elif path.is_file():
                    mode = stat.S_IFREG | path.stat().st_mode & 0o777
                    self._add(str(inside / name), mode, path.read_bytes(), int(path.stat().st_mtime))

    def text(self, name: str, data: bytes) -> None:
        """Add a file ``name`` with the content ``data``."""
        self.folder(Path(name).parent)
        self._add(name, stat.S_IFREG | 0o644, data)

    def node(self, name: str, mode: int, device: tuple[int, int]) -> None:
        """Add a device node."""
        self.folder(Path(name).parent)
        self._add(name, mode, device=device)

    def finish(self, path: Path, settings: object) -> None:
        """Add the files that every guest needs, and write the archive to ``path``.

        The archive is not compressed, since an emulated CPU takes longer to unpack than to read.
        """
        for name in ("/proc", "/sys", "/tmp", "/run", "/root", "/var/cache"):
            self.folder(Path(name))
        for source in (ROOT / "bpf").rglob("*"):
            if source.suffix in (".c", ".h"):
                self.file(source)
        self.text(guest.SETTINGS, json.dumps(settings).encode())
        self._add("TRAILER!!!", 0)
        path.write_bytes(self._data)

    def _at(self, folder: Path) -> None:
        """Add a folder, every symbolic link on the path to it, and the folder to which each link leads."""
        for place in (*reversed(folder.parents), folder):
            if place.is_symlink() and str(place) not in self._names:
                real = Path(os.path.realpath(place.parent))
                if str(real / place.name) not in self._names:
                    self.folder(real)
                    self._add(str(real / place.name), stat.S_IFLNK | 0o777, os.fsencode(os.readlink(place)))
        self.folder(Path(os.path.realpath(folder)))

    def _add(
        self, name: str, mode: int, data: bytes = b"", mtime: int = 0, device: tuple[int, int] = (0, 0)
    ) -> None:
        self._names.add(name)
        encoded = os.fsencode(name.removeprefix("/")) + b"\0"
        # Fields of a cpio header: c_ino, c_mode, c_uid, c_gid, c_nlink, c_mtime, c_filesize, c_dev…, c_rdev…,
        # c_namesize, c_check
        fields = (len(self._names), mode, 0, 0, 1, mtime, len(data), 0, 0, *device, len(encoded), 0)
        self._data += b"070701" + b"".join(b"%08x" % field for field in fields) + encoded
        self._data += bytes(-len(self._data) % 4) + data
        self._data += bytes(-len(self._data) % 4)


def write_initrd(path: Path, settings: object, programs: Iterable[Path], files: Iterable[Path]) -> None:
    """Write a guest's file system to ``path``: ``programs``, their libraries, and ``files`` of this host."""
    archive = Archive()
    for program in (PYTHON, *programs):
        archive.program(program)
    for file in imported_files([CHECKS, *LATER]):
        if ".so" in file.suffixes:
            archive.program(file)
        else:
            archive.file(file)
    for file in (Path(guest.__file__), *files):
        archive.file(file)
    archive.finish(path, settings)
