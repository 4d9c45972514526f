"""Detects two machines that have the same host name."""

from __future__ import annotations

from typing import Final

from stalltop.model.window import Window

_SAME_START: Final = 10.0
"""Maximum difference in seconds between the boot times that are computed from two windows of one machine."""
_FEW: Final = 0.5
"""Minimum share of processes that two windows of one machine have in common, if the windows are of about the
same time."""


def are_two_machines(a: Window, b: Window) -> bool:
    """Returns True if ``a`` and ``b``, two windows of one host name and of about the same time, must come
    from different machines.

    They come from different machines if they have no GPU in common, if their memory sizes differ, or if both
    their boot times and their processes differ. If a window has no sample of the host, they come from
    different machines if they have no process in common. Returns False if the windows contain too little to
    tell.
    """
    gpus_a, gpus_b = _gpus(a), _gpus(b)
    if gpus_a and gpus_b and not gpus_a & gpus_b:
        return True
    processes_a, processes_b = _processes(a), _processes(b)
    least = min(len(processes_a), len(processes_b))
    common = len(processes_a & processes_b)
    if a.system is None or b.system is None:
        return least > 0 and not common
    if a.system.memory_total_bytes != b.system.memory_total_bytes:
        return True
    # If the clock was set between the two windows, the computed boot times of one machine differ as well.
    started_a, started_b = (one.end - one.system.uptime_seconds for one in (a, b) if one.system is not None)
    return abs(started_a - started_b) > _SAME_START and least > 0 and common < _FEW * least


def _gpus(window: Window) -> set[str]:
    return {device.uuid for device in window.devices.devices if device.uuid}


def _processes(window: Window) -> set[tuple[str, int, str]]:
    return {(key.tenant, key.pid, key.process) for key in window.rows.keys}
