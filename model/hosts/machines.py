"""Whether two windows that bear the name of one host are of two machines."""

from __future__ import annotations

from typing import Final

from stalltop.model.window import Window

_SAME_START: Final = 10.0
"""Seconds by which the time differs at most that two windows say one machine was started at."""
_FEW: Final = 0.5
"""Share of the processes that two windows of one machine and time have in common at least, as a rule."""


def are_two_machines(a: Window, b: Window) -> bool:
    """Whether ``a`` and ``b``, of one host name and about the same time, must be of two machines.

    They are where they have other GPUs, another size of memory, or another start of the system and other
    processes. Where they say too little of that, they need not be.
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
    # The clock may have been set in between: then one machine, too, seems to have been started twice.
    started_a, started_b = (one.end - one.system.uptime_seconds for one in (a, b) if one.system is not None)
    return abs(started_a - started_b) > _SAME_START and least > 0 and common < _FEW * least


def _gpus(window: Window) -> set[str]:
    return {device.uuid for device in window.devices.devices if device.uuid}


def _processes(window: Window) -> set[tuple[str, int, str]]:
    return {(key.tenant, key.pid, key.process) for key in window.rows.keys}
