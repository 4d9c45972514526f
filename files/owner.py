"""Creates files and folders that belong to the user who called stalltop by sudo.

sudo names this user in SUDO_UID and SUDO_GID. A new file or folder is given to the user only inside a
folder in which the user may create files: otherwise root would give away a file inside a folder that only
root may write, such as /etc/ld.so.preload. The folder is opened first and the file is created inside the
open folder, so that nobody can exchange the folder between the check and the change of the owner. Files
that existed before keep their owner.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from pathlib import Path
from typing import Final, NamedTuple

_MOST_ID: Final = (1 << 32) - 2
"""The largest user or group ID; the next number means "no change" in chown(2)."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class SudoUser(NamedTuple):
    """The user who called sudo."""

    uid: int
    gid: int


def caller() -> SudoUser | None:
    """Return the user who called sudo; None if this process does not run as root, or not by sudo, or if root
    itself called sudo."""
    if os.geteuid():
        return None
    numbers = []
    for name in ("SUDO_UID", "SUDO_GID"):
        text = os.environ.get(name, "")
        if not (text.isascii() and text.isdecimal() and int(text) <= _MOST_ID):
            return None
        numbers.append(int(text))
    return SudoUser(*numbers) if numbers[0] else None


def home() -> str:
    """Return the home directory of the user who called sudo. If there is no such user, or the directory does
    not exist, return the home directory that ``os.path.expanduser`` finds for this process."""
    user = caller()
    if user is not None:
        with contextlib.suppress(KeyError):
            found = pwd.getpwuid(user.uid).pw_dir
            if os.path.isabs(found) and os.path.isdir(found):
                return found
    return os.path.expanduser("~")


def create(path: str | Path, flags: int, mode: int = 0o600) -> int:
    """Open ``path`` as ``os.open`` does with ``flags`` (O_CREAT, O_NOFOLLOW and O_CLOEXEC are added), and
    return the descriptor. If this call created the file, the file belongs to the user who called sudo.

    Raises OSError if the file cannot be opened.
    """
    flags |= os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    user = caller()
    if user is None:
        return os.open(path, flags, mode)
    folder = os.open(os.path.dirname(path) or ".", _FOLDER)
    try:
        name = os.path.basename(path)
        try:
            descriptor = os.open(name, flags | os.O_EXCL, mode, dir_fd=folder)
        except FileExistsError:
            if flags & os.O_EXCL:
                raise
            return os.open(name, flags, mode, dir_fd=folder)
        _give(descriptor, folder, user)
        return descriptor
    finally:
        os.close(folder)


def make_folder(path: Path) -> None:
    """Create the folder ``path`` (mode 0700) for the user who called sudo.

    Raises FileExistsError if ``path`` exists, and OSError if the folder cannot be created.
    """
    user = caller()
    if user is None:
        path.mkdir(mode=0o700)
        return
    above = os.open(path.parent, _FOLDER)
    try:
        os.mkdir(path.name, 0o700, dir_fd=above)
        folder = os.open(path.name, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
        try:
            # Whoever may write in the folder above can exchange the new folder for another folder of root. A
            # folder that has content is therefore not the new one, and is not given away.
            if not os.listdir(folder):
                _give(folder, above, user)
        finally:
            os.close(folder)
    finally:
        os.close(above)


def make_folders(path: Path) -> None:
    """Create the folder ``path`` and the missing folders above it as ``make_folder`` does, unless ``path``
    exists. Raises OSError if a folder cannot be created."""
    missing = []
    while not path.is_dir() and path != path.parent:
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        try:
            make_folder(folder)
        except FileExistsError:
            if not folder.is_dir():
                raise


def _give(descriptor: int, folder: int, user: SudoUser) -> None:
    """Give the open file or folder to ``user``, if it belongs to root and ``user`` may create files in the
    open ``folder``."""
    found = os.fstat(folder)
    rights = found.st_mode & (
        stat.S_IWUSR
        if found.st_uid == user.uid
        else stat.S_IWGRP
        if found.st_gid == user.gid
        else stat.S_IWOTH
    )
    if rights and os.fstat(descriptor).st_uid == 0:
        # Some file systems, such as FAT, have no owners: the file then stays as it is.
        with contextlib.suppress(OSError):
            os.fchown(descriptor, user.uid, user.gid)
