"""Keeps the baseline of a host between runs: a JSON file that only its owner may read.

The file is replaced as a whole, under a lock. If two stalltops write at once, the file of the later writer
stays.
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
"""Maximum size of a file that is read or written: 16 MiB. The file of a baseline with 4096 workloads has
about 1 MiB."""


class NormalsDamagedError(Exception):
    """The file is damaged, or stalltop did not write it."""


class NormalsNewerError(Exception):
    """A later version of stalltop wrote the file."""


def normals_path(host: str, directory: Path | None = None) -> Path:
    """Return the path of the baseline of ``host``. The file name contains the name of the host, because
    several hosts may share a home directory."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", host).strip("._-")[:64] or "host"
    return (state_directory() if directory is None else directory) / f"normals-{name}.json"


def read_normals(path: Path) -> object | None:
    """Return the baseline that ``write_normals`` wrote, without checking its content; None if there is no
    file.

    Raises NormalsDamagedError or NormalsNewerError with the reason, and OSError if the file cannot be read.
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
        raise NormalsDamagedError(f"it is not JSON ({type(error).__name__})") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise NormalsDamagedError("stalltop did not write it")
    version = found.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise NormalsDamagedError("it has no version")
    if version > VERSION:
        raise NormalsNewerError(f"it has version {version}; this stalltop reads up to {VERSION}")
    normals: object = found.get("normals")
    return normals


def write_normals(path: Path, normals: Mapping[str, Any]) -> None:
    """Replace the file at ``path`` by a file with ``normals`` (mode 0600).

    Raises OSError if the file cannot be written, and ValueError if ``normals`` is larger than ``MOST_BYTES``
    or has a value that JSON cannot represent.
    """
    content = json.dumps(
        {"format": FORMAT, "version": VERSION, "normals": normals}, allow_nan=False, separators=(",", ":")
    ).encode("ascii")
    if len(content) > MOST_BYTES:
        raise ValueError(f"the baseline is too large: {len(content) >> 20} MiB")
    replace_file(path, content)


def put_aside(path: Path) -> Path:
    """Rename the damaged file ``path`` so that a person can examine it, and return the new path. Replaces a
    file that was renamed in this way earlier."""
    aside = path.with_name(path.name + ".damaged")
    os.replace(path, aside)
    return aside
