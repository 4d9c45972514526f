"""Compiles the BPF programs with one or two compilers, into folders that guests use as their cache.

    python -m tests.kernels.compiled

makes a tree (a folder with a root file system) of Debian 13 and its BCC, which contains clang 19. From then
on `./run-tests kernels` also tests the programs that this BCC compiles. The environment variable TREES names
the folder of the tree (default /var/tmp/stalltop-trees).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.kernels.fetch import FetchError, mirror
from tests.kernels.initrd import ROOT

_SECONDS: Final = 300.0
"""Longest time for the compilation of all variants of the programs, in seconds."""
_COMPILE: Final = "stalltop.probes.precompile"
_PACKAGES: Final = "python3-bpfcc,python3-numpy"


@dataclass(frozen=True, slots=True)
class Compiler:
    """The BCC of this host, or the BCC in ``tree``."""

    name: str
    tree: Path | None = None

    @property
    def in_ci(self) -> bool:
        """Whether every run of the tests, including those in CI, tests the programs of this compiler."""
        return self.tree is None

    def compile(self, folder: Path) -> Path:
        """Compile every variant of the programs and return the folder with them, below ``folder``."""
        made = folder / self.name
        made.mkdir(mode=0o700, exist_ok=True)
        command = [sys.executable, "-m", _COMPILE]
        if self.tree is not None:
            command = [*_in_tree(self.tree, made), "python3", "-m", _COMPILE]
        subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "STALLTOP_CACHE_DIR": str(made)},
            timeout=_SECONDS,
            check=True,
        )
        return made


def compilers() -> tuple[Compiler, ...]:
    """Return the compiler of this host and, if the tree was made, the compiler of the tree."""
    tree = _tree()
    return (Compiler("host"), *([Compiler("debian-13-bcc", tree)] if _ready(tree).exists() else []))


def _tree() -> Path:
    return Path(os.environ.get("TREES") or "/var/tmp/stalltop-trees") / "trixie.compiler"


def _ready(tree: Path) -> Path:
    return tree.with_name(f"{tree.name}.ready")


def _in_tree(tree: Path, made: Path) -> list[str]:
    """Return a command prefix that runs the command after it in ``tree``.

    In the tree the checkout and the folder ``made`` have the same paths as on the host.
    """
    script = """
        tree=$1 root=$2 made=$3; shift 3
        mkdir -p "$tree$root" "$tree$made"
        mount -t proc proc "$tree/proc"
        mount --rbind /sys "$tree/sys"
        mount --bind "$root" "$tree$root"
        mount --bind "$made" "$tree$made"
        exec chroot "$tree" sh -c 'cd "$0/src" && exec "$@"' "$root" "$@"
    """
    return ["unshare", "--mount", "sh", "-euc", script, "sh", str(tree), str(ROOT), str(made)]


def main() -> int:
    """Make the tree unless it exists; return 0 on success."""
    tree = _tree()
    if _ready(tree).exists():
        return 0
    if not shutil.which("debootstrap"):
        print("debootstrap is not installed: apt-get install debootstrap", file=sys.stderr)
        return 1
    tree.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(tree, ignore_errors=True)
    try:
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "trixie", str(tree)]
        command.append(mirror())
    except FetchError as error:
        print(error, file=sys.stderr)
        return 1
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"debootstrap failed: {done.stdout[-600:]}{done.stderr}", file=sys.stderr)
        return 1
    _ready(tree).touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
