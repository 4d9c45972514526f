"""Writes folders of files so that a folder is either complete or absent."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from stalltop.files.complete import PathTakenError, sync_folder
from stalltop.files.owner import make_folder, make_folders
from stalltop.model.errors import StalltopError, UsageError


@contextlib.contextmanager
def filled(path: Path, *, replaces: Callable[[Path], bool] | None = None) -> Iterator[Path]:
    """Yield a new folder (mode 0700) to fill. The folder appears at ``path`` when the block ends. If an
    exception ends the block, ``path`` stays as it was.

    Creates missing folders above ``path``. If ``path`` is a folder for which ``replaces`` returns True, this
    folder is replaced as a whole. Raises PathTakenError if ``path`` exists and ``replaces`` is None,
    UsageError if ``path`` may not be replaced, and StalltopError if the folder cannot be written.
    """
    try:
        make_folders(path.parent)
        _refuse_to_replace(path, replaces)
        beside = path.parent / f".{path.name[:200]}.{secrets.token_hex(6)}.tmp"
        make_folder(beside)
        try:
            yield beside
            sync_folder(beside)
            _refuse_to_replace(path, replaces)
            _place(beside, path)
            sync_folder(path.parent)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        raise StalltopError(f"cannot write {path}: {error.strerror or error}") from error


def _refuse_to_replace(path: Path, replaces: Callable[[Path], bool] | None) -> None:
    if not os.path.lexists(path):
        return
    if replaces is None:
        raise PathTakenError(f"{path} exists")
    if not (stat.S_ISDIR(path.lstat().st_mode) and replaces(path)):
        raise UsageError(
            f"{path} is not a folder that contains only an export of stalltop", "name another folder"
        )


def _place(beside: Path, path: Path) -> None:
    if not os.path.lexists(path):
        beside.rename(path)
        return
    old = path.parent / f".{path.name[:200]}.{secrets.token_hex(6)}.old"
    path.rename(old)
    try:
        beside.rename(path)
    except OSError:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)
