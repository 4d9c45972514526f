"""The settings in the table ``[notify]`` of /etc/stalltop/config.toml: who is told about problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stalltop.model.chain import Severity
from stalltop.tui.settings.host_kinds import AbsolutePath, CommandWords, SeverityName, WaitSeconds, WebAddress


def _described(kind: object, about: str) -> dict[str, object]:
    return {"kind": kind, "about": about, "left": False}


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """Who is told about which problems."""

    webhook: str = field(
        default="", metadata=_described(WebAddress(), "Gets a JSON object for each alert by POST.")
    )
    slack: str = field(
        default="",
        metadata=_described(
            WebAddress(),
            "Incoming webhook of Slack, or of what understands its messages, such as Mattermost.",
        ),
    )
    alertmanager: str = field(
        default="",
        metadata=_described(
            WebAddress(), "Alertmanager, by version 2 of its API, such as `http://127.0.0.1:9093`."
        ),
    )
    command: tuple[str, ...] = field(
        default=(),
        metadata=_described(
            CommandWords(), "Program that runs for each alert, with the JSON object on its stdin."
        ),
    )
    severity: Severity = field(
        default="high", metadata=_described(SeverityName(), "The least severity that is told.")
    )
    seconds: float = field(
        default=30.0, metadata=_described(WaitSeconds(), "How long a problem must last before it is told.")
    )
    recording: Path = field(
        default=Path("/var/lib/stalltop/recording.stalltop"),
        metadata=_described(AbsolutePath(), "Recording of this host that alerts refer to, if it exists."),
    )


NOTIFY_SETTINGS: Mapping[str, Field[Any]] = MappingProxyType(
    {one.name: one for one in fields(NotifySettings)}
)
"""All settings of the table by name, in the order of the documentation."""


class NotifyTable:
    """The table itself, as a setting."""

    allowed = "a table, see below"

    def read(self, value: object) -> NotifySettings:
        """Return its settings. Raises ValueError with all faults if they are not allowed."""
        from stalltop.tui.settings.settings import (
            read,  # the screen's settings, which not every command needs
        )

        if not isinstance(value, dict):
            raise ValueError
        values, faults = read(value, NOTIFY_SETTINGS)
        if faults:
            raise ValueError("; ".join(fault.text for fault in faults))
        return NotifySettings(**values)

    def plain(self, value: NotifySettings) -> object:
        """Return the settings that are not the defaults."""
        default = NotifySettings()
        return {
            name: one.metadata["kind"].plain(getattr(value, name))
            for name, one in NOTIFY_SETTINGS.items()
            if getattr(value, name) != getattr(default, name)
        }
