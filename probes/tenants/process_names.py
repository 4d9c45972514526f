"""Reads the names that processes give themselves. Remembers the names of processes that have ended."""

from __future__ import annotations

import os

from stalltop.model.text.clean import clean
from stalltop.probes.tenants.process_watch import is_alive
from stalltop.probes.tenants.tenants import OWN_NAME

_NAME_BYTES = 256


class ProcessNames:
    """Gives the names of processes by PID. Used from one thread.

    The file with a process's name (``/proc/PID/comm``) is kept open, because it is read in each window.
    """

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._raw: dict[int, bytes] = {}
        """Names as they were read last."""
        self._files: dict[int, int] = {}
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
            self._read(pid)
        return self._names.get(pid) or f"pid {pid}"

    def known(self, pid: int) -> str:
        """Returns the last name that was read, without reading it again; '' if there is none."""
        return self._names.get(pid, "")

    def forget(self, pid: int) -> None:
        """Forgets a process that has ended and whose last counts were read."""
        self._names.pop(pid, None)
        self._raw.pop(pid, None)
        self._close(pid)

    def close(self) -> None:
        """Closes all files. May be called twice."""
        for pid in list(self._files):
            self._close(pid)

    def __contains__(self, pid: int) -> bool:
        return pid in self._names

    def _read(self, pid: int) -> None:
        raw = self._raw_name(pid)
        if raw and raw != self._raw.get(pid):
            self._raw[pid] = raw
            name = OWN_NAME if pid == os.getpid() else clean(raw)
            if name:
                self._names[pid] = name

    def _raw_name(self, pid: int) -> bytes:
        """Returns the name as it is in /proc; b'' if the process has ended."""
        file = self._files.get(pid)
        if file is not None:
            try:
                return os.pread(file, _NAME_BYTES, 0)
            except OSError:  # The process of this file is gone. Another one may have its PID by now.
                self._close(pid)
        if not is_alive(pid):
            return b""
        try:
            file = self._files[pid] = os.open(f"/proc/{pid}/comm", os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(file, _NAME_BYTES, 0)
        except OSError:
            return b""

    def _close(self, pid: int) -> None:
        file = self._files.pop(pid, None)
        if file is not None:
            os.close(file)
