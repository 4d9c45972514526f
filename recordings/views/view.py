"""The class that describes a view that queries can read, and the columns that many views have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SqlView:
    """A view that queries can read, or a temporary table that is listed among the views."""

    name: str
    about: str
    columns: tuple[tuple[str, str], ...]
    """The columns, as pairs of (name, description)."""
    select: str = ""
    """The SELECT of the view; '' if other code makes the view or table."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(name for name, _ in self.columns)


# Columns that many views have, as (name, description).
WINDOW: Final = (
    ("window_id", "its window: a row of the table windows"),
    ("window_start", "when that window began, Unix time in s"),
)
WHO: Final = (
    ("cgroup_id", "its owner: a row of the table containers"),
    ("pid", "process id on its host"),
    ("process", "name of the process"),
)
WHAT: Final = (
    ("layer", "runtime, driver, nccl or host"),
    ("op", "the operation, such as cudaLaunchKernel"),
)
WHERE: Final = (("device", "GPU that it ran on: 0, or 0:3 for MIG device 3 of GPU 0; NULL: not measured"),)
IN_WINDOW: Final = "JOIN main.windows w ON w.window_id = n.window_id"
"""SQL that joins a row ``n`` with its window ``w``."""
WINDOW_SQL: Final = "n.window_id, w.start AS window_start"
"""SQL of the columns ``WINDOW``."""
