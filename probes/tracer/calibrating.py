"""Traces a function of stalltop's own. This shows whether counting works on this host, what it costs, and
whether it kills sandboxed programs."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.model.errors import TracingError, UnsafeTracingError
from stalltop.probes import layout
from stalltop.probes.maps.slots import Slots
from stalltop.probes.operations import Function
from stalltop.probes.tracer.attach import Attachment, Point
from stalltop.probes.tracer.calibration import Measured, OwnFunction

OWN: Final = Function(layout.FUNCTIONS - 1, "", 512, "")
"""The function that is called for calibration. Its operation id is higher than that of every real
operation."""
_CALLS: Final = 2000
_ROUNDS: Final = 3
_PAUSES: Final = 17
_THREAD_END_SECONDS: Final = 10.0
"""Maximum time, in seconds, that the Linux kernel may take to end a thread that has returned."""


class ProbeTime(NamedTuple):
    """How much time the probes add to a counted call."""

    call_ns: float
    """To a call that follows others closely."""
    pause_ns: float
    """So much more to the first call after a pause of ``calibration.PAUSE_NS``, in which other code has
    taken the caches."""

    @property
    def pause_calls(self) -> float:
        """Returns ``pause_ns`` as a number of calls."""
        return self.pause_ns / self.call_ns if self.call_ns else 0.0


def calibrate(
    attach: Callable[[str, Sequence[Point]], Attachment],
    slots: Slots,
    threads: Callable[[], NDArray[np.void]],
) -> ProbeTime:
    """Returns how much time the probes add to counted calls.

    ``attach`` probes points of a file; ``threads`` returns the records of threads. Raises TracingError if a
    call is not counted, and UnsafeTracingError if a traced program is killed.
    """
    function = OwnFunction()
    try:
        bare = function.measure(_CALLS, _ROUNDS)
        probes = attach(function.path, [Point(function.offset, OWN.id)])
        if probes.failed:
            raise TracingError(f"the kernel refused a probe: {probes.failed[0][1]}")
        probed = function.measure(_CALLS, _ROUNDS, _PAUSES)
        child, signal_number = function.killed_in_sandbox()
    finally:
        function.close()
    if signal_number:
        raise UnsafeTracingError(
            f"this kernel ({platform.release()}) kills sandboxed programs that are traced: "
            "a return probe is a system call, which the seccomp filter of a container denies",
            "boot a kernel with the fix (commit cf6cb56ef244): Linux 6.14, or a later update of this one",
        )
    _wait_for_end(probed, threads)
    _compare({os.getpid(): probed.calls} | ({child: 1} if child else {}), slots)
    call_ns = max(probed.ns - bare.ns, 0.0)
    # Without probes, the function takes no time that matters, also after a pause.
    return ProbeTime(call_ns, max(probed.paused_ns - call_ns, 0.0))


def _wait_for_end(probed: Measured, threads: Callable[[], NDArray[np.void]]) -> None:
    """Waits until the record of the calibrating thread is free, so that the slot of its calls can be freed.

    Raises TracingError if the record stays in use. The Linux kernel then does not report when threads end,
    and all records would soon be used up.
    """
    deadline = time.monotonic() + _THREAD_END_SECONDS
    records = threads()
    while ((records["shown_tid"] == probed.tid) & (records["tid"] != 0)).any():
        if time.monotonic() > deadline:
            raise TracingError("the kernel does not report when threads end")
        time.sleep(0.0005)


def _compare(made: dict[int, int], slots: Slots) -> None:
    """Compares the counts of the slots with ``made`` (number of calls by process). Releases the slots if they
    are equal; otherwise raises TracingError."""
    counts = slots.read()
    counted = dict.fromkeys(made, 0)
    for key, calls in zip(counts.keys, counts.calls.tolist(), strict=True):
        if key.operation != layout.HOST_GAP:
            counted[key.tgid] = counted.get(key.tgid, 0) + calls
    if counted != made or any(key.operation not in (OWN.operation, layout.HOST_GAP) for key in counts.keys):
        told = f"{sum(made.values())} calls made, {sum(counted.values())} counted"
        raise TracingError(f"counting does not work here: {told}")
    for tgid in made:
        slots.release(tgid)
