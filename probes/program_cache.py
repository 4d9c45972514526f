"""Compiled programs kept from one start to the next, so that only the first one needs the compiler.

What is in these files runs in the kernel, so only files of this user count, in a folder that nobody else can
write to. Files that lie beside the source, as a package or an image ships them, are trusted as the source is.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from probes.compiled import Compiled
from probes.recipes import SOURCE, Recipe

FOLDER: Final = Path("/var/cache/stalltop")
SHIPPED: Final = SOURCE / "compiled"
"""Where a package puts files that were compiled when it was made."""
_ENDING: Final = ".programs"
_MOST_BYTES: Final = 16 << 20
_MOST_FILES: Final = 16
"""Kept in the folder: an update of the program makes new ones, and the oldest go."""
_USUAL_SECONDS: Final = 3.0
"""What compiling takes where nothing is known of this machine."""


def folder() -> Path:
    """Where they are kept: ``STALLTOP_CACHE_DIR`` if set, for root the system's, else the user's own."""
    if given := os.environ.get("STALLTOP_CACHE_DIR"):
        return Path(given)
    if os.geteuid() == 0:
        return FOLDER
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stalltop"


class Unusable(Exception):
    """A file or folder is there and cannot be used: the message says why."""


def find(recipe: Recipe) -> Compiled | None:
    """What was kept for ``recipe``; None where there is nothing. Raises Unusable."""
    name = recipe.key() + _ENDING
    try:
        return Compiled.from_bytes((SHIPPED / name).read_bytes())
    except (OSError, ValueError):
        pass  # as good as not shipped
    place = folder()
    try:
        own = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unusable(f"{place}: {error.strerror}") from error
    try:
        _check(own, place)
        data = _content(own, place / name)
        return None if data is None else Compiled.from_bytes(data)
    except OSError as error:
        raise Unusable(f"{place / name}: {error.strerror}") from error
    except ValueError as error:
        raise Unusable(f"{place / name}: {error}") from error
    finally:
        os.close(own)


def keep(recipe: Recipe, compiled: Compiled) -> None:
    """Write it for the next start. Raises Unusable."""
    place = folder()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _check(own, place)
        finally:
            os.close(own)
        _write(place / (recipe.key() + _ENDING), compiled.to_bytes())
        _thin(place)
    except OSError as error:
        raise Unusable(f"{place}: {error.strerror}") from error


def usual_seconds() -> float:
    """How long compiling took here last, or usually takes."""
    try:
        newest = max(folder().glob("*" + _ENDING), key=lambda path: path.stat().st_mtime)
        return Compiled.from_bytes(newest.read_bytes()).seconds or _USUAL_SECONDS
    except (OSError, ValueError):
        return _USUAL_SECONDS


def _check(fd: int, path: Path) -> None:
    status = os.fstat(fd)
    if status.st_uid != os.geteuid():
        raise Unusable(f"{path}: belongs to user {status.st_uid}; remove it")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Unusable(f"{path}: others may write to it; remove it, or take that right away (chmod go-w)")


def _content(folder_fd: int, path: Path) -> bytes | None:
    try:
        fd = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder_fd)
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        _check(fd, path)
        if not stat.S_ISREG(os.fstat(fd).st_mode) or os.fstat(fd).st_size > _MOST_BYTES:
            raise Unusable(f"{path}: it is no file of compiled programs")
        return file.read(_MOST_BYTES)


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all: two starts at once write the same, one after the other."""
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with open(fd, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _thin(place: Path) -> None:
    files = sorted(place.glob("*" + _ENDING), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in files[_MOST_FILES:]:
        path.unlink(missing_ok=True)
