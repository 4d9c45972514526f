"""Makes a checkout of another revision with a Python environment of its own, and removes it afterwards."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.program import ROOT, Program
from bench.revision import git
from stalltop.model.errors import StalltopError

_ENVIRONMENT_SECONDS: Final = 900.0
"""Time limit for an environment whose dependencies are downloaded over a slow line."""
_ENVIRONMENT: Final = """
set -u
root=$1 lent=$2
. "$root/scripts/environment.sh"
choose_place
if [ -n "$lent" ]; then
    "$python" -m venv --without-pip --system-site-packages "$venv" >&2 || exit 1
    purelib=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))') || exit 1
    code=$root/src
    [ -d "$code" ] || code=$root  # revisions without src/ are imported from their root
    printf '%s\\n%s\\n' "$code" "$lent" >"$purelib/stalltop-checkout.pth"
    wanted_stamp run >"$venv/run.ready"
fi
make_environment run >&2
printf '%s\\n' "$venv/bin/python"
"""
"""Makes the environment with the revision's own script, which finds it ready if packages are lent to it, and
so decides in the end. Only the packages in this folder are lent: pth files in it, which point to this
checkout, are not read."""


@contextlib.contextmanager
def checked_out(commit: str, root: Path = ROOT) -> Iterator[Program]:
    """Provides the revision ``commit`` of the checkout at ``root``, ready to run. Raises StalltopError."""
    folder = Path(tempfile.mkdtemp(prefix="stalltop-against-"))
    tree = folder / "tree"
    try:
        git(root, "worktree", "add", "--quiet", "--detach", str(tree), commit)
        python = _environment(tree)
        # Earlier starts have compiled the modules of this checkout, too.
        subprocess.run([python, "-m", "compileall", "-q", "-x", r"/\.venv", str(tree)], check=False)
        yield Program(tree, python)
    finally:
        with _undisturbed():
            _remove(root, folder, tree)


def _environment(tree: Path) -> str:
    """Makes the environment of the checkout at ``tree``; returns its interpreter. Raises StalltopError."""
    if not (tree / "scripts/environment.sh").exists() or not (tree / "bench/__main__.py").exists():
        raise StalltopError("that revision has no benchmarks to compare with", "name a later one")
    lent = sysconfig.get_path("purelib") if _dependencies(tree) == _dependencies(ROOT) else ""
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", _ENVIRONMENT, "sh", str(tree), lent],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=_ENVIRONMENT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise StalltopError(
            "the environment of that revision was not ready in time", "check the network"
        ) from None
    if done.returncode or not done.stdout.strip():
        raise StalltopError("cannot make the environment of that revision (see above)")
    return done.stdout.strip()


def _dependencies(tree: Path) -> Any:
    project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
    return project.get("requires-python"), project["dependencies"]


def _remove(root: Path, folder: Path, tree: Path) -> None:
    """Removes the folder, and the repository's record of the worktree."""
    with contextlib.suppress(StalltopError):  # the worktree may not exist yet
        git(root, "worktree", "remove", "--force", str(tree))
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(StalltopError):
        git(root, "worktree", "prune")
    if folder.exists():
        print(f"bench: cannot remove {folder}", file=sys.stderr)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignores signals that would interrupt the removal."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
