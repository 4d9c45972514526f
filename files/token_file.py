"""Reads the file with the token of an endpoint, and makes it if there is none."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from stalltop.files.private_file import UnsuitableFileError, read_regular, replace_file
from stalltop.model.errors import UsageError

LEAST_CHARACTERS: Final = 32
"""A shorter token could be guessed: 32 characters of base64 have 192 bits."""
_MOST_BYTES: Final = 4096


def token_in(path: Path) -> tuple[str, bool]:
    """Returns the token in the file ``path``, and whether this call made the file (mode 0600, a random
    token).

    Raises UsageError if others may read the file, if it holds no token, or if it cannot be read or made."""
    try:
        content = read_regular(path, _MOST_BYTES, follow=True)
        if content is None:
            token = secrets.token_urlsafe(LEAST_CHARACTERS)
            replace_file(path, token.encode() + b"\n")
            return token, True
        others = stat.S_IMODE(os.stat(path).st_mode) & 0o007
    except (OSError, UnsuitableFileError) as error:
        raise UsageError(
            f"cannot use --token-file {path}: {getattr(error, 'strerror', None) or error}"
        ) from error
    token = content.decode("ascii", "replace").strip()
    if others:
        raise UsageError(f"everyone may read the token in {path}", f"chmod o= {path}")
    if len(token) < LEAST_CHARACTERS or not token.isprintable() or " " in token or not token.isascii():
        raise UsageError(
            f"{path} holds no token: one line of at least {LEAST_CHARACTERS} characters without blanks",
            "remove the file: stalltop makes a new one",
        )
    return token, False
