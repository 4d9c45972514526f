"""Which revision of stalltop a checkout holds, as git says it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from bench.program import ROOT
from stalltop.model.errors import StalltopError, UsageError

_GIT_SECONDS: Final = 120.0


def git(root: Path, *arguments: str) -> str:
    """What git says in the checkout at ``root``. Raises StalltopError with git's own words where it
    refuses."""
    # Measuring needs root, and the checkout may be another user's: git asks for this before it reads one.
    command = ["git", "-c", f"safe.directory={root}", "-C", str(root), *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_GIT_SECONDS
        )
    except FileNotFoundError:
        raise StalltopError("git is not installed", "apt-get install git") from None
    except subprocess.TimeoutExpired:
        raise StalltopError(f"git {arguments[0]} has not ended within {_GIT_SECONDS:.0f} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise StalltopError(f"git {arguments[0]}: {said[-1]}")
    return done.stdout.strip()


def revision(root: Path = ROOT) -> str:
    """The commit, in short, and whether files differ from it; without git, that it is not known."""
    try:
        # A folder inside of somebody else's checkout has a revision, but not its own.
        if not (root / ".git").exists():
            return "unknown revision (no git checkout)"
        commit = git(root, "rev-parse", "--short", "HEAD")
        # Documents, into which figures are written, are not what is measured.
        changed = git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs")
    except StalltopError as told:
        return f"unknown revision ({told.reason})"
    return f"{commit} with uncommitted changes" if changed else commit


def commit_of(root: Path, name: str) -> str:
    """The full id of the commit that ``name`` stands for.

    Raises StalltopError where ``root`` is no git checkout, and UsageError where it has no such commit.
    """
    if not (root / ".git").exists():
        raise StalltopError(
            f"cannot compare revisions: {root} is no git checkout",
            "clone the repository, with its history, and start from there",
        )
    git(root, "rev-parse", "HEAD")
    try:
        return git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except StalltopError:
        raise UsageError(
            f"no such revision: {name!r}", f"name a commit, tag or branch that {root} has (see git log)"
        ) from None
