"""Reads the names that processes give themselves. Remembers the names of processes that have ended."""

from __future__ import annotations

from stalltop.probes.tenants.process_watch import is_alive
from stalltop.probes.tenants.tenants import process_name


class ProcessNames:
    """Gives the names of processes by PID. Used from one thread."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._named_now: set[int] = set()

    def begin(self) -> None:
        """Begins a new window, in which `name` reads each name again."""
        self._named_now.clear()

    def name(self, pid: int) -> str:
        """Returns the name of a process; the last known name if the process has ended; ``pid N`` if no name
        is known."""
        # The name is read again in each window, because a program sets its name after exec. If the process
        # has ended, the last name is kept.
        if pid not in self._named_now:
            self._named_now.add(pid)
            name = process_name(pid) if is_alive(pid) else ""
            if name:
                self._names[pid] = name
        return self._names.get(pid) or f"pid {pid}"

    def known(self, pid: int) -> str:
        """Returns the last name that was read, without reading it again; '' if there is none."""
        return self._names.get(pid, "")

    def forget(self, pid: int) -> None:
        """Forgets a process that has ended and whose last counts were read."""
        self._names.pop(pid, None)

    def __contains__(self, pid: int) -> bool:
        return pid in self._names
