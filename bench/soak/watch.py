"""Counts, as a client of the soaked tracer, the calls in its windows, and what it says was missed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Container, Mapping

from stalltop.model.window import UNCOUNTED, Window
from stalltop.probes.first_calls import FIRST_CALLS
from stalltop.probes.tenants.patterns import SHORT_ID
from stalltop.serving.host.tracer_link import TracerLink

LAYER = "runtime"


class Watch:
    """Adds up the windows of the tracer at the other end of ``link`` in a thread, until `close`."""

    def __init__(self, link: TracerLink, tenants: Container[str]) -> None:
        """``tenants``: ids of the tenants whose calls are counted. Another thread may add some."""
        self._link = link
        self._tenants = tenants
        self._stopping = threading.Event()
        self.calls: Counter[str] = Counter()
        """Number of calls of the CUDA runtime that were counted, by the id of the tenant."""
        self.elsewhere: Counter[str] = Counter()
        """Number of such calls of other tenants, by process and id of the tenant."""
        self.losses: Counter[str] = Counter()
        """Calls that the tracer says it has missed on this host, by the name of the counter."""
        self.windows = 0
        self.since = 0.0
        """Begin of the newest window, Unix time by the tracer's clock. Calls that ended just before the end
        of a window may be in the next one, because reading counts takes time."""
        self.told: set[str] = set()
        """What the tracer said of first calls that it may not have counted."""
        self.untraced: set[str] = set()
        """Libraries and programs that were not traced, with the reason."""
        link.start(lambda: None)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the connection, and waits for the last window."""
        self._stopping.set()
        self._thread.join()
        self._link.close()

    def _run(self) -> None:
        while not self._stopping.is_set() and not self._link.ended:
            window = self._link.take(0.2)
            if window is not None:
                self.add(window)

    def add(self, window: Window) -> None:
        """Adds the counts of ``window``."""
        self.windows += 1
        self.losses.update({name: lost for name, lost in window.loss.items() if name in UNCOUNTED})
        self.told |= {gap.reason for gap in window.coverage.missing if gap.what == FIRST_CALLS}
        self.untraced |= {f"{gap.what}: {gap.reason}" for gap in window.coverage.missing}
        for key, calls in zip(window.rows.keys, window.rows.calls.tolist(), strict=True):
            if key.layer != LAYER or not key.outermost:
                continue
            if key.tenant in self._tenants:
                self.calls[key.tenant] += calls
            else:
                self.elsewhere[f"{key.process} of {key.tenant}"] += calls
        self.since = window.start  # This comes last: another thread may wait for it.

    def compared(self, made: Mapping[str, int]) -> tuple[int, dict[str, int]]:
        """Returns how many of the calls that each tenant has ``made`` were not counted: the sum of those of
        tenants of which the tracer said that it may not have counted their first calls, and those of each
        other tenant, below 0 if calls were counted twice."""
        said, unsaid = 0, dict[str, int]()
        for tenant, calls in made.items():
            uncounted = calls - self.calls[tenant]
            if uncounted > 0 and any(short_id(tenant) in reason for reason in self.told):
                said += uncounted
            elif uncounted:
                unsaid[tenant] = uncounted
        return said, unsaid


def short_id(tenant: str) -> str:
    """Returns the part of a container's id that is its name while it has no other."""
    return tenant.partition(":")[2][:SHORT_ID]
