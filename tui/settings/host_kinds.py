"""The types of the settings of a host."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from stalltop.model.chain import SEVERITIES


class AbsolutePath:
    """A path from the root."""

    allowed = "an absolute path"

    def read(self, value: object) -> Path:
        """Return the path. Raises ValueError if not allowed."""
        if not isinstance(value, str) or not os.path.isabs(value) or "\0" in value:
            raise ValueError
        return Path(value)

    def plain(self, value: Path) -> object:
        """Return the path as the file contains it."""
        return str(value)


class GroupName:
    """The name of a group of users."""

    allowed = 'the name of a group; "": none'

    def read(self, value: object) -> str:
        """Return the name. Raises ValueError if not allowed."""
        if not isinstance(value, str) or not re.fullmatch(r"[^\s:,/]{0,64}", value):
            raise ValueError
        return value

    def plain(self, value: str) -> object:
        """Return the name as the file contains it."""
        return value


class WebAddress:
    """A URL, or a file that contains it, because a URL may be a secret and all users may read the
    settings."""

    allowed = 'an http or https URL, or the absolute path of a file that contains it; "": none'

    def read(self, value: object) -> str:
        """Return the URL or the path. Raises ValueError if not allowed."""
        if not isinstance(value, str) or not (value == "" or os.path.isabs(value) or is_web_address(value)):
            raise ValueError
        return value

    def plain(self, value: str) -> object:
        """Return the value as the file contains it."""
        return value


def is_web_address(text: str) -> bool:
    """Return whether ``text`` is an http or https URL with a host."""
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018  raises ValueError if it is no port
    except ValueError:
        return False
    return (
        parts.scheme in ("http", "https") and bool(parts.hostname) and text.isprintable() and " " not in text
    )


class CommandWords:
    """A command with its arguments."""

    allowed = "a list of the absolute path of a program and its arguments; []: none"

    def read(self, value: object) -> tuple[str, ...]:
        """Return the words. Raises ValueError if not allowed."""
        if not isinstance(value, list) or any(not isinstance(one, str) or "\0" in one for one in value):
            raise ValueError
        if value and not os.path.isabs(value[0]):
            raise ValueError
        return tuple(value)

    def plain(self, value: Sequence[str]) -> object:
        """Return the words as the file contains them."""
        return list(value)


class SeverityName:
    """A severity of problems."""

    allowed = ", ".join(f'"{one}"' for one in SEVERITIES if one != "info")

    def read(self, value: object) -> str:
        """Return the severity. Raises ValueError if not allowed."""
        if not isinstance(value, str) or value not in SEVERITIES or value == "info":
            raise ValueError
        return value

    def plain(self, value: str) -> object:
        """Return the severity as the file contains it."""
        return value


class WaitSeconds:
    """A number of seconds up to an hour."""

    allowed = "a number from 0 to 3600"

    def read(self, value: object) -> float:
        """Return the seconds. Raises ValueError if not allowed."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 3600:
            raise ValueError
        return float(value)

    def plain(self, value: float) -> object:
        """Return the seconds as the file contains them."""
        return int(value) if value == int(value) else value
