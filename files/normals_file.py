"""What is normal on a host, in a file between runs: JSON that only its user may read.

The file is replaced as a whole, under a lock, so that two stalltops at once leave one that is complete: that
of whoever wrote last.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from stalltop.files.places import state_directory
from stalltop.files.private_file import UnsuitableFileError, read_regular, replace_file

FORMAT: Final = "stalltop normals"
VERSION: Final = 1
MOST_BYTES: Final = 16 << 20
"""Largest file that is read or written. One of 4096 workloads takes about 1 MiB."""


class NormalsDamagedError(Exception):
    """The file is not what was written."""


class NormalsNewerError(Exception):
    """The file is of a later stalltop, and is left to it."""


def normals_path(host: str, directory: Path | None = None) -> Path:
    """Where the normals of ``host`` are: a home may be shared by many hosts."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", host).strip("._-")[:64] or "host"
    return (state_directory() if directory is None else directory) / f"normals-{name}.json"


def read_normals(path: Path) -> object | None:
    """What ``write_normals`` was given; None where there is no file.

    Raises NormalsDamagedError or NormalsNewerError with the reason, and OSError where the file cannot be
    read.
    """
    try:
        content = read_regular(path, MOST_BYTES)
    except UnsuitableFileError as reason:
        raise NormalsDamagedError(str(reason)) from None
    if content is None:
        return None
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise NormalsDamagedError(f"it is no JSON ({type(error).__name__})") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise NormalsDamagedError("it does not say that stalltop wrote it")
    version = found.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise NormalsDamagedError("it has no version")
    if version > VERSION:
        raise NormalsNewerError(f"version {version}, known up to {VERSION}")
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
    replace_file(path, content)


def put_aside(path: Path) -> Path:
    """Rename a file that cannot be used, so that it can be looked at; the one put aside before is lost."""
    aside = path.with_name(path.name + ".damaged")
    os.replace(path, aside)
    return aside
