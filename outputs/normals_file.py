"""What is normal on a host, in a file between runs: JSON that only its user may read.

The file is replaced as a whole, under a lock, so that two stalltops at once leave one that is complete: that
of whoever wrote last.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from outputs.places import state_directory

FORMAT: Final = "stalltop normals"
VERSION: Final = 1
MOST_BYTES: Final = 16 << 20
"""Largest file that is read or written. One of 4096 workloads takes about 1 MiB."""
LOCK_SECONDS: Final = 5.0
"""How long a writer waits for another one."""


class Damaged(Exception):
    """The file is not what was written."""


class Newer(Exception):
    """The file is of a later stalltop, and is left to it."""


def normals_path(host: str, directory: Path | None = None) -> Path:
    """Where the normals of ``host`` are: a home may be shared by many hosts."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", host).strip("._-")[:64] or "host"
    return (state_directory() if directory is None else directory) / f"normals-{name}.json"


def read_normals(path: Path) -> object | None:
    """What ``write_normals`` was given; None where there is no file.

    Raises Damaged or Newer with the reason, and OSError where the file cannot be read.
    """
    try:
        # Without O_NONBLOCK a pipe of that name would be waited on for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Damaged("it is no regular file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise Damaged("it is too large")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"it is no JSON ({type(error).__name__})") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise Damaged("it does not say that stalltop wrote it")
    version = found.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise Damaged("it has no version")
    if version > VERSION:
        raise Newer(f"version {version}, known up to {VERSION}")
    normals: object = found.get("normals")
    return normals


def write_normals(path: Path, normals: Mapping[str, Any]) -> None:
    """Put ``normals`` in place of what ``path`` holds; mode 0600. Raises OSError where that fails.

    Raises ValueError where they are too large, or are not plain finite values.
    """
    content = json.dumps(
        {"format": FORMAT, "version": VERSION, "normals": normals}, allow_nan=False, separators=(",", ":")
    ).encode("ascii")
    if len(content) > MOST_BYTES:
        raise ValueError(f"normals of {len(content) >> 20} MiB are too large")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    with _locked(path.with_name(path.name + ".lock")):
        # What a writer that was killed left there goes first. No fsync: what is lost is learned again.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(beside, flags, 0o600), "wb") as file:
            file.write(content)
        os.replace(beside, path)


def put_aside(path: Path) -> Path:
    """Rename a file that cannot be used, so that it can be looked at; the one put aside before is lost."""
    aside = path.with_name(path.name + ".damaged")
    os.replace(path, aside)
    return aside


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that ends with its process. Raises TimeoutError where another writer keeps it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise TimeoutError("another stalltop is writing it") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)
