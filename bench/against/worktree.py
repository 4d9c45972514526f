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

from bench.measuring.program import ROOT, Program
from bench.measuring.revision import git
from stalltop.model.errors import StalltopError

_ENVIRONMENT_SECONDS: Final = 900.0
"""Time limit for making an environment: enough to download the packages over a slow line."""
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
"""Shell script that makes the Python environment of the revision at ``$1`` and prints the path of its
interpreter.

If both revisions need the same packages, ``$2`` is the folder in which this checkout's packages are, and the
new environment uses them from there instead of installing them. The revision's own scripts/environment.sh
then checks the environment and makes it anew if it is not sufficient. The pth files in ``$2`` name this
checkout; they have no effect, because Python ignores pth files in a folder that another pth file has
added."""


@contextlib.contextmanager
def checked_out(commit: str, root: Path = ROOT) -> Iterator[Program]:
    """Checks out the revision ``commit`` of the repository at ``root`` and makes its Python environment;
    removes both when the block is left. Raises StalltopError if that fails."""
    folder = Path(tempfile.mkdtemp(prefix="stalltop-against-"))
    tree = folder / "tree"
    try:
        git(root, "worktree", "add", "--quiet", "--detach", str(tree), commit)
        python = _environment(tree)
        # Python has cached the compiled modules of this checkout at earlier starts. Compile those of the
        # other revision as well, so that both sides start from cached modules.
        subprocess.run([python, "-m", "compileall", "-q", "-x", r"/\.venv", str(tree)], check=False)
        yield Program(tree, python)
    finally:
        with _undisturbed():
            _remove(root, folder, tree)


def _environment(tree: Path) -> str:
    """Makes the Python environment of the checkout at ``tree``; returns the path of its interpreter. Raises
    StalltopError if that fails."""
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
    """Removes ``folder``, which contains the worktree ``tree``, and git's record of that worktree."""
    with contextlib.suppress(StalltopError):  # the worktree may not exist yet
        git(root, "worktree", "remove", "--force", str(tree))
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(StalltopError):
        git(root, "worktree", "prune")
    if folder.exists():
        print(f"bench: cannot remove {folder}", file=sys.stderr)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignores SIGINT, SIGTERM and SIGHUP during the block, so that they do not interrupt the removal."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
