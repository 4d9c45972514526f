"""Writing files that are complete or not there at all, and that only their user may read (mode 0600)."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from model.errors import BadUsage, Told


class Taken(BadUsage):
    """There is a file of that name already."""


def write(content: bytes, path: Path, *, overwrite: bool = False) -> Path:
    """Write ``content`` to ``path`` and return it, as ``opened`` does and with what it raises."""
    with opened(path, overwrite=overwrite) as file:
        file.write(content)
    return path


@contextlib.contextmanager
def opened(path: Path, *, overwrite: bool = False) -> Iterator[BinaryIO]:
    """A file to write: it is at ``path`` once the block has ended well, and nowhere where it has not.

    Missing folders are made, no link is followed. Raises Taken where ``path`` exists and ``overwrite`` is not
    set, BadUsage where it is to be overwritten but is no regular file, and Told where it cannot be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.path.lexists(path):
            _refuse_to_replace(path, overwrite)
        with _opened(path, overwrite) as file:
            yield file
    except OSError as error:
        raise Told(f"cannot write {path}: {error.strerror or error}") from error


def _refuse_to_replace(path: Path, overwrite: bool) -> None:
    if not overwrite:
        raise Taken(f"{path} exists")
    if not stat.S_ISREG(path.lstat().st_mode):
        raise BadUsage(f"{path} is no regular file")


@contextlib.contextmanager
def _opened(path: Path, overwrite: bool) -> Iterator[BinaryIO]:
    """Written beside ``path``, then put in place at once."""
    beside = path.parent / f".{path.name[:200]}.{secrets.token_hex(6)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, 0o600)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            os.replace(beside, path)
        else:
            _place_new(beside, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Let the names in a folder be on disk. Raises OSError where it cannot be opened."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    except OSError:
        pass  # some file systems cannot; the file itself is on disk
    finally:
        os.close(folder)


def _place_new(beside: Path, path: Path) -> None:
    """Give the file its name, which nobody may have taken meanwhile."""
    try:
        os.link(beside, path, follow_symlinks=False)
    except FileExistsError:
        raise Taken(f"{path} exists") from None
    except OSError:
        # A file system without hard links: reserve the name, then replace what reserved it.
        try:
            os.close(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            )
        except FileExistsError:
            raise Taken(f"{path} exists") from None
        os.replace(beside, path)
