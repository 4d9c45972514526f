"""What processes call themselves: read anew in every window, and remembered when they have ended."""

from __future__ import annotations

from stalltop.probes.host.process_watch import is_alive
from stalltop.probes.tenants.tenants import process_name


class ProcessNames:
    """Names by process id. Used from one thread."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._named_now: set[int] = set()

    def begin(self) -> None:
        """A new window: every name that is asked for is read once more."""
        self._named_now.clear()

    def name(self, pid: int) -> str:
        """The name, or the last one known of a process that has ended, else ``pid N``."""
        # Read anew in every window: a program names itself after exec. The last name outlives the process.
        if pid not in self._named_now:
            self._named_now.add(pid)
            name = process_name(pid) if is_alive(pid) else ""
            if name:
                self._names[pid] = name
        return self._names.get(pid) or f"pid {pid}"

    def known(self, pid: int) -> str:
        """The last name that was read, without a look; empty where none was."""
        return self._names.get(pid, "")

    def forget(self, pid: int) -> None:
        """The process has ended, and all that was counted of it was read."""
        self._names.pop(pid, None)

    def __contains__(self, pid: int) -> bool:
        return pid in self._names
