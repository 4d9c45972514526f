"""What a view that queries see consists of, and the columns that many of them have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SqlView:
    """A view, or a table that looks like one."""

    name: str
    about: str
    columns: tuple[tuple[str, str], ...]
    """(name, what it is)"""
    select: str = ""
    """What it is made of; empty for what is made otherwise."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of its columns."""
        return tuple(name for name, _ in self.columns)


# Columns that many of them have, each with what it is.
WINDOW: Final = (
    ("window_id", "the window that it belongs to: a row of windows"),
    ("window_start", "when that began, Unix time in s"),
)
WHO: Final = (
    ("cgroup_id", "whose: a row of containers"),
    ("pid", "process id on its host"),
    ("process", "name of the process"),
)
WHAT: Final = (
    ("layer", "runtime, driver, nccl or host"),
    ("op", "the operation, such as cudaLaunchKernel"),
)
WHERE: Final = (("device", "GPU that it ran on: 0, or 0:3 for MIG device 3 of GPU 0; NULL: not measured"),)
IN_WINDOW: Final = "JOIN main.windows w ON w.window_id = n.window_id"
"""The window of a row ``n``."""
WINDOW_SQL: Final = "n.window_id, w.start AS window_start"
"""The columns of ``WINDOW``."""
