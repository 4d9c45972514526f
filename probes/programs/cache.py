"""Caches compiled programs from one start to the next, so that only the first start needs the compiler.

The content of these files runs in the Linux kernel. So files are used only if they belong to this user and
lie in a folder to which no other user can write. Files that a package or an image ships beside the source are
trusted like the source itself.
"""

from __future__ import annotations

import contextlib
import os
import platform
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from stalltop.probes.programs.compiled import Compiled
from stalltop.probes.programs.recipes import SOURCE, Recipe

FOLDER: Final = Path("/var/cache/stalltop")
SHIPPED: Final = SOURCE / "compiled"
"""Folder where a package puts files that were compiled when it was built."""
_PROGRAMS: Final = ".programs"
_REFUSED: Final = ".refused"
"""Suffix of a file that contains the Linux release that has refused newly compiled programs."""
_NEW: Final = ".new-"
"""Prefix of a file's name while the file is being written."""
_SECONDS: Final = "seconds"
"""Name of the file that holds the duration of the last compilation."""
_STALE_SECONDS: Final = 3600.0
"""Age in seconds from which an unfinished file is assumed to be left over from a start that was killed."""
_MOST_BYTES: Final = 16 << 20
_MOST_FILES: Final = 32
"""Maximum number of files in the folder. Each update of stalltop adds new files, and the oldest are
removed."""
_USUAL_SECONDS: Final = 3.0
"""Assumed duration of a compilation if this machine has no record of one, s."""


class CacheFileError(Exception):
    """A file or folder exists but cannot be used: the message says why."""


def folder() -> Path:
    """Returns the folder of the cache: ``STALLTOP_CACHE_DIR`` if set; otherwise the system's folder for root,
    and the user's own for other users.

    Raises CacheFileError if the user has no home.
    """
    if given := os.environ.get("STALLTOP_CACHE_DIR"):
        return Path(given)
    if os.geteuid() == 0:
        return FOLDER
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stalltop"
    except RuntimeError as error:
        raise CacheFileError(f"no folder for compiled programs ({error}): set STALLTOP_CACHE_DIR") from error


def find(recipe: Recipe) -> Compiled | None:
    """Returns the programs that were cached or shipped for ``recipe``; None if there are none. Raises
    CacheFileError."""
    key = recipe.key()
    try:
        data = _read(key + _PROGRAMS)
        if data is not None:
            return Compiled.from_bytes(data, key)
    except ValueError as error:
        raise CacheFileError(f"{folder() / key}{_PROGRAMS}: {error}") from error
    try:
        return Compiled.from_bytes((SHIPPED / (key + _PROGRAMS)).read_bytes(), key)
    except (OSError, ValueError):
        return None  # A damaged file is treated as if it had not been shipped.


def keep(recipe: Recipe, compiled: Compiled) -> None:
    """Writes ``compiled`` into the cache for the next start. Raises CacheFileError."""
    key = recipe.key()
    with _opened(make=True) as own:
        _write(own, key + _PROGRAMS, compiled.to_bytes(key))
        _write(own, _SECONDS, f"{compiled.seconds:.1f}\n".encode())
        _tidy(own)


def is_refused(recipe: Recipe) -> bool:
    """Returns whether this Linux release has refused newly compiled programs of ``recipe``."""
    with contextlib.suppress(CacheFileError):
        return _read(recipe.key() + _REFUSED) == platform.release().encode()
    return False


def note_refused(recipe: Recipe) -> None:
    """Notes that this Linux release has refused ``recipe``. The next start then does not compile it again."""
    with contextlib.suppress(CacheFileError), _opened(make=True) as own:
        _write(own, recipe.key() + _REFUSED, platform.release().encode())


def usual_seconds() -> float:
    """Returns how many seconds the last compilation took on this host; the assumed duration if that is not
    known."""
    with contextlib.suppress(CacheFileError, ValueError):
        if data := _read(_SECONDS):
            return min(max(float(data), 0.1), 300.0)
    return _USUAL_SECONDS


@contextlib.contextmanager
def _opened(*, make: bool = False) -> Iterator[int]:
    """Opens the folder, which belongs to this user alone. Turns an OSError in the ``with`` block into a
    CacheFileError."""
    place = folder()
    try:
        if make:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _check(fd, place)
            yield fd
        finally:
            os.close(fd)
    except OSError as error:
        raise CacheFileError(f"{place}: {error.strerror}") from error


def _check(fd: int, path: Path) -> None:
    status = os.fstat(fd)
    if status.st_uid != os.geteuid():
        raise CacheFileError(f"{path}: belongs to user {status.st_uid}; remove it")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CacheFileError(f"{path}: other users may write to it; remove it, or run chmod go-w on it")


def _read(name: str) -> bytes | None:
    """Returns the content of the file ``name`` in the folder; None if there is none."""
    place = folder()
    if not place.exists():
        return None
    with _opened() as own:
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=own)
        except FileNotFoundError:
            return None
        with open(fd, "rb") as file:
            _check(fd, place / name)
            if not stat.S_ISREG(os.fstat(fd).st_mode) or os.fstat(fd).st_size > _MOST_BYTES:
                raise CacheFileError(f"{place / name}: it is not a file of compiled programs")
            return file.read(_MOST_BYTES)


def _write(own: int, name: str, data: bytes) -> None:
    """Writes the file completely or not at all. If two starts write at the same time, the later one replaces
    the file."""
    new = f"{_NEW}{os.getpid()}-{time.monotonic_ns()}"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=own)
    try:
        with open(fd, "wb") as file:
            file.write(data)
        os.rename(new, name, src_dir_fd=own, dst_dir_fd=own)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=own)
        raise


def _tidy(own: int) -> None:
    """Removes the oldest files, and unfinished files of starts that were killed."""
    ages = {name: os.stat(name, dir_fd=own, follow_symlinks=False).st_mtime for name in os.listdir(own)}
    kept = sorted((n for n in ages if n.endswith((_PROGRAMS, _REFUSED))), key=ages.__getitem__, reverse=True)
    stale = [n for n in ages if n.startswith(_NEW) and ages[n] < time.time() - _STALE_SECONDS]
    for name in (*kept[_MOST_FILES:], *stale):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=own)
