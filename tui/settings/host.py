"""The settings of a host, in /etc/stalltop/config.toml: they hold for all users."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stalltop.files.host_places import HOST_CONFIG as HOST_CONFIG
from stalltop.files.host_places import TRACER_SOCKET


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


@dataclass(frozen=True, slots=True)
class HostSettings:
    """The settings of a host."""

    socket: Path = field(
        default=TRACER_SOCKET,
        metadata={
            "kind": AbsolutePath(),
            "about": "Socket at which the tracer of this host passes its windows to every other stalltop.",
            "left": False,
        },
    )
    group: str = field(
        default="",
        metadata={
            "kind": GroupName(),
            "about": "Group whose members may see this host without being root, from its tracer.",
            "left": False,
        },
    )


HOST_SETTINGS: Mapping[str, Field[Any]] = MappingProxyType({one.name: one for one in fields(HostSettings)})
"""All settings of a host by name, in the order of the documentation."""
