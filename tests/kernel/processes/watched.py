"""Reads the windows of a monitor and adds up the figures that tests check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import ORDINARY, OpenCall, Window
from stalltop.probes.monitor import Monitor
from tests.kernel.harness import wait_until


class WatchedMonitor:
    """Reads ``monitor`` and keeps the sums of its windows."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._made = Counter[RowKey]()
        self.lost = Counter[str]()
        self.tenants: dict[str, Tenant] = {}
        """Tenants whose calls were counted or whose threads ended inside a call, by id."""
        self.ended: list[OpenCall] = []
        """Calls during which the calling thread ended."""
        self.last = self.read()
        self._made.clear()
        self.lost.clear()
        self.tenants.clear()
        self.ended.clear()

    def read(self) -> Window:
        """Read one more window."""
        self.last = self._monitor.read()
        for key, calls in zip(self.last.rows.keys, self.last.rows.calls.tolist(), strict=True):
            self._made[key] += calls
        self.lost.update({name: count for name, count in self.last.loss.items() if count})
        ended = [call for call in self.last.open_calls if call.ended]
        self.ended += ended
        named = {key.tenant for key in self.last.rows.keys} | {call.tenant for call in ended}
        self.tenants.update({name: self.last.tenants[name] for name in named})
        return self.last

    def calls(self, operation: str, of: int | Path) -> int:
        """Return how many calls of ``operation`` are counted so far.

        ``of`` is the PID of a process, or a cgroup, which stands for all processes in it.
        """
        return sum(
            calls for key, calls in self._made.items() if key.operation == operation and self._is_of(key, of)
        )

    def pids(self, cgroup: Path) -> set[int]:
        """Return the PIDs in a cgroup that made calls."""
        return {key.pid for key in self._made if self._is_of(key, cgroup)}

    def remembers(self, cgroup: Path) -> bool:
        """Return whether the last window has a tenant in the cgroup."""
        return any(tenant.cgroup_path.endswith(cgroup.name) for tenant in self.last.tenants.values())

    def traces(self, *files: Path) -> bool:
        """Return whether all of ``files`` were probed at the last read."""
        return {str(file) for file in files} <= {row.path for row in self.last.coverage.libraries}

    def uncounted(self) -> dict[str, int]:
        """Return the number of lost calls by reason.

        Leaves out calls that never return or whose beginning was not seen, which a test may cause on purpose,
        and a lack of records of CUDA kernels, CPU slices or room for stacks, which other tests that run at
        the same time may use up.
        """
        others = (*ORDINARY, "no_kernel", "no_stack")
        return {name: count for name, count in self.lost.items() if name not in others}

    def open_calls(self, pid: int) -> list[str]:
        """Return the operations of the calls that were open at the last read, the outer ones first."""
        return [call.operation for call in self.hung(pid)]

    def hung(self, pid: int) -> list[OpenCall]:
        """Return the calls of the process that were open at the last read, outer ones of a thread first."""
        return [call for call in self.last.open_calls if call.pid == pid and not call.ended]

    def _is_of(self, key: RowKey, of: int | Path) -> bool:
        if isinstance(of, int):
            return key.pid == of
        return self.tenants[key.tenant].cgroup_path.endswith(of.name)

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Read until ``condition`` holds; raise AssertionError with ``what`` after the deadline."""

        def look() -> object:
            self.read()
            return condition()

        wait_until(look, what=what)
