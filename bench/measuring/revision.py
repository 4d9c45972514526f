"""Asks git which revision of stalltop a checkout holds."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from bench.measuring.program import ROOT
from stalltop.model.errors import StalltopError, UsageError

_GIT_SECONDS: Final = 120.0


def git(root: Path, *arguments: str) -> str:
    """Runs git in the checkout at ``root`` and returns its output. Raises StalltopError with git's message if
    it fails."""
    # Measuring needs root, and without this option git refuses to read a checkout that belongs to another
    # user.
    command = ["git", "-c", f"safe.directory={root}", "-C", str(root), *arguments]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_GIT_SECONDS
        )
    except FileNotFoundError:
        raise StalltopError("git is not installed", "apt-get install git") from None
    except subprocess.TimeoutExpired:
        raise StalltopError(f"git {arguments[0]} did not end within {_GIT_SECONDS:.0f} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise StalltopError(f"git {arguments[0]}: {said[-1]}")
    return done.stdout.strip()


def revision(root: Path = ROOT) -> str:
    """Returns the short id of the commit that is checked out at ``root``, followed by a note if files differ
    from it. Returns ``unknown revision`` with the reason if git does not know the commit."""
    try:
        # If root is only a folder inside a checkout, git would report the revision of that checkout.
        if not (root / ".git").exists():
            return "unknown revision (no git checkout)"
        commit = git(root, "rev-parse", "--short", "HEAD")
        # Changes in docs/ do not count: a run itself writes figures there, and documents do not affect
        # figures.
        changed = git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs")
    except StalltopError as told:
        return f"unknown revision ({told.reason})"
    return f"{commit} with uncommitted changes" if changed else commit


def commit_of(root: Path, name: str) -> str:
    """Returns the full id of the commit that ``name`` stands for.

    Raises StalltopError if ``root`` is not a git checkout, and UsageError if it has no such commit.
    """
    if not (root / ".git").exists():
        raise StalltopError(
            f"cannot compare revisions: {root} is not a git checkout",
            "clone the repository with its history, and run bench/run there",
        )
    git(root, "rev-parse", "HEAD")
    try:
        return git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except StalltopError:
        raise UsageError(
            f"no such revision: {name!r}", f"name a commit, tag or branch that {root} has (see git log)"
        ) from None
