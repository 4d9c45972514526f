"""The settings of a host, in /etc/stalltop/config.toml: they hold for all users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stalltop.files.host_places import HOST_CONFIG as HOST_CONFIG
from stalltop.files.host_places import TRACER_SOCKET
from stalltop.tui.settings.host_kinds import AbsolutePath, GroupName
from stalltop.tui.settings.notify import NotifySettings, NotifyTable


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
    notify: NotifySettings = field(
        default=NotifySettings(),
        metadata={
            "kind": NotifyTable(),
            "about": "Who is told about problems, by `stalltop notify`.",
            "left": False,
        },
    )


HOST_SETTINGS: Mapping[str, Field[Any]] = MappingProxyType({one.name: one for one in fields(HostSettings)})
"""All settings of a host by name, in the order of the documentation."""
