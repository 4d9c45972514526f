"""Builds the file system of arm64 guests: Debian's Python for arm64, and programs made by a cross-compiler.

The host may be of any architecture; its BCC also compiles the programs of ``bpf/`` for arm64.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.kernels import guest
from tests.kernels.fetch import FetchError, kept, private_apt, run
from tests.kernels.initrd import CHECKS, LATER, PYTHON, ROOT, Archive, imported_files

COMPILER: Final = "aarch64-linux-gnu-gcc"
COMPILER_PACKAGE: Final = "gcc-aarch64-linux-gnu"
_TREE: Final = "arm64-tree"
"""Folder in the cache of kernels that has the file system of one Debian release. Guests of all kernels use
it."""
_RELEASE: Final = "bookworm"
_PACKAGES: Final = ("python3", "python3-numpy", "python3-capstone", "busybox-static")
_UNUSED: Final = (
    *("usr/share/doc", "usr/share/locale", "usr/share/man", "usr/share/lintian", "usr/share/info"),
    *(
        "usr/lib/aarch64-linux-gnu/gconv",
        "usr/lib/aarch64-linux-gnu/perl-base",
        "usr/lib/python3/dist-packages/numpy/f2py",
    ),
)
_LIBRARIES: Final = "usr/lib/aarch64-linux-gnu"
_ALTERNATIVES: Final = {"libblas.so.3": "blas/libblas.so.3", "liblapack.so.3": "lapack/liblapack.so.3"}
"""Symbolic links and their targets. The packages' install scripts would make them, but do not run here."""
_AS_ARM64: Final = """
import platform, runpy
platform.machine = lambda: "aarch64"
runpy.run_module("stalltop.probes.precompile", run_name="__main__")
"""
_SECONDS: Final = 300.0


def import_path(tree: Path) -> list[str]:
    """Return the import path of the guest's Python: the checkout, Debian's modules in ``tree``, and the
    folders with the host's pure Python packages."""
    (library,) = (path for path in (tree / "usr/lib").glob("python3.*"))
    own = f"/usr/lib/{library.name}"
    others = [place for place in sys.path if place.endswith(("site-packages", "dist-packages"))]
    return [str(ROOT / "src"), own, f"{own}/lib-dynload", "/usr/lib/python3/dist-packages", *others]


def tree() -> Path:
    """Return the folder with Debian's unpacked Python and numpy for arm64. Raises FetchError."""
    return kept(_TREE, _unpack)


def compile_programs(folder: Path) -> None:
    """Compile every variant of the programs of ``bpf/`` for arm64 into ``folder``."""
    subprocess.run(
        [sys.executable, "-c", _AS_ARM64],
        cwd=ROOT,
        env={**os.environ, "STALLTOP_CACHE_DIR": str(folder)},
        timeout=_SECONDS,
        check=True,
    )


@contextmanager
def cross_compiling() -> Iterator[None]:
    """Let tests compile programs for arm64 within the block.

    Raises FetchError if there is no cross-compiler for arm64.
    """
    if not shutil.which(COMPILER):
        raise FetchError(
            f"{COMPILER} is not installed: apt-get install {COMPILER_PACKAGE} libc6-dev-arm64-cross"
        )
    before = os.environ.get("CC")
    os.environ["CC"] = COMPILER
    try:
        yield
    finally:
        os.environ.pop("CC")
        if before is not None:
            os.environ["CC"] = before


def write_initrd(path: Path, settings: object, files: Iterable[Path]) -> None:
    """Write a guest's file system: the tree, the modules that the checks import, and ``files``."""
    archive = Archive()
    archive.tree(tree())
    for file in (*_checkout(), Path(guest.__file__), *files):
        archive.file(file)
    archive.finish(path, settings)


def _checkout() -> Iterator[Path]:
    """Yield the files that the checks import from the checkout and from pure Python packages."""
    files = [file for file in imported_files([CHECKS, *LATER]) if not file.is_relative_to("/usr/lib")]
    compiled = {_package(file) for file in files if ".so" in file.suffixes}
    for file in files:
        if not _package(file) or _package(file) not in compiled:
            yield file


def _package(file: Path) -> str:
    """Return the name of the installed package of ``file``, or '' if it belongs to none."""
    for name in ("site-packages", "dist-packages"):
        if name in file.parts:
            return file.parts[file.parts.index(name) + 1].removesuffix(".libs")
    return ""


def _unpack(work: Path) -> Path:
    apt = private_apt(_RELEASE, "arm64", work)
    apt("apt-get", "install", "--download-only", "--no-install-recommends", "--yes", *_PACKAGES)
    made = work / "made"
    for name in ("bin", "lib", "sbin"):
        (made / "usr" / name).mkdir(parents=True)
        (made / name).symlink_to(f"usr/{name}")
    for archive in sorted((work / "cache/archives").glob("*.deb")):
        # Some packages have files in /lib. In the tree /lib is a symbolic link, which tar must not replace.
        script = 'dpkg-deb --fsys-tarfile "$1" | tar -x --keep-directory-symlink -C "$2"'
        run("sh", "-euc", script, "sh", str(archive), str(made))
    for name in _UNUSED:
        shutil.rmtree(made / name, ignore_errors=True)
    for link, target in _ALTERNATIVES.items():
        (made / _LIBRARIES / link).symlink_to(target)
    for name in ("sh", "true"):
        (made / "usr/bin" / name).unlink(missing_ok=True)
        (made / "usr/bin" / name).symlink_to("busybox")
    _compile_modules(made)
    return made


def _compile_modules(made: Path) -> None:
    """Compile the tree's Python modules here, since an emulated CPU takes long to do so.

    Does nothing if the Python of the host is of another version than that of the tree.
    """
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    if (made / "usr/lib" / version).exists():
        places = [str(made / "usr/lib" / version), str(made / "usr/lib/python3/dist-packages")]
        options = ["-q", "--invalidation-mode", "unchecked-hash", "-s", str(made), "-p", "/"]
        # compileall fails on test files that contain deliberate syntax errors: its exit status is ignored.
        subprocess.run([str(PYTHON), "-m", "compileall", *options, *places], capture_output=True, check=False)
