"""Paths that all users of a host share."""

from __future__ import annotations

from pathlib import Path
from typing import Final

HOST_CONFIG: Final = Path("/etc/stalltop/config.toml")
"""The settings of the host (docs/config.md)."""
TRACER_SOCKET: Final = Path("/run/stalltop/tracer.sock")
"""Default socket of the tracer."""
