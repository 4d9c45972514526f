"""Tells which processes could make calls before their libraries were probed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

from stalltop.model.tenant import Tenant
from stalltop.model.text.words import numbered
from stalltop.model.window import Missing
from stalltop.probes.libraries.unprobed import UnprobedProcess, UnprobedProcesses

TOLD_SECONDS: Final = 60.0
"""How long a process is listed, s."""
LEAST_SECONDS: Final = 0.5
"""Shortest time without probes that is listed, s. `loss["unprobed"]` counts shorter ones, too: the first
process with a new library is nearly always such a one, and CUDA takes longer to initialize."""
MOST_TOLD: Final = 8
"""Maximum number of processes that are listed."""
FIRST_CALLS: Final = "first calls of new processes"
"""What is missing, in the coverage."""
_REMEDY: Final = "processes that use the same library later are traced from their begin"


class FirstCalls:
    """Remembers such processes for some time. Used from one thread."""

    def __init__(
        self,
        tenant_of: Callable[[UnprobedProcess], Tenant],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``tenant_of`` returns the tenant of a process that may have ended."""
        self._tenant_of = tenant_of
        self._clock = clock
        self._told: deque[tuple[float, UnprobedProcess, Tenant]] = deque(maxlen=MOST_TOLD)
        self._more = 0
        """Number of processes of the newest call of `add` that are not listed."""
        self._unreported = False

    def add(self, found: UnprobedProcesses) -> int:
        """Takes what was found since the previous call; returns the number of processes."""
        now = self._clock()
        while self._told and now - self._told[0][0] >= TOLD_SECONDS:
            self._told.popleft()
        worth = [one for one in found.named if one.ended or one.seconds >= LEAST_SECONDS]
        for one in worth[-MOST_TOLD:]:
            self._told.append((now, one, self._tenant_of(one)))
        self._more = max(len(worth) - MOST_TOLD, 0)
        self._unreported = found.unreported
        return found.count

    def missing(self) -> tuple[Missing, ...]:
        """Returns a note on each process."""
        found = [_note(one, tenant) for _, one, tenant in self._told]
        if self._more:
            more = numbered(self._more, "more process", "more processes")
            found.append(Missing(FIRST_CALLS, f"{more} could make calls before their libraries were probed"))
        if self._unreported:
            reason = (
                "the Linux kernel reported only some of the libraries that were mapped: calls of a process "
                "that ended at once, and had libraries of its own, are not counted"
            )
            found.append(Missing(FIRST_CALLS, reason))
        return tuple(found)


def _note(one: UnprobedProcess, tenant: Tenant) -> Missing:
    # The note names neither a process nor a tenant by its fields: these are traced now.
    who = f"PID {one.pid} of {tenant.name}"
    if one.ended:
        return Missing(
            FIRST_CALLS, f"{who} ended before {one.path} was probed: its calls are not counted", _REMEDY
        )
    reason = f"{who} could make calls for {one.seconds:.1f} s before {one.path} was probed"
    return Missing(FIRST_CALLS, f"{reason}: these are not counted", _REMEDY)
