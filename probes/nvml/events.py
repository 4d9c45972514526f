"""Reads critical errors (XIDs) that the NVIDIA driver reports about its GPUs, through an NVML event set."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Final

from stalltop.probes.nvml.asking import Asking

_MOST_AT_ONCE: Final = 64
"""Maximum number of events that one sample takes, so that a GPU that reports events endlessly does not delay
everything else."""
_HIGHEST: Final = 1 << 16
"""Highest plausible XID; XIDs have three digits."""


class XidWatch:
    """Collects the XIDs of the watched GPUs. ``nvml`` is the module `pynvml`, initialized.

    The driver keeps events until they are fetched, so no thread has to wait for them. Used from one thread.
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._set: Any = None
        self._indexes = dict[int, int]()
        """Index of each watched device, by the address of its handle."""

    def watch(self, ask: Asking, index: int, handle: Any) -> None:
        """Registers a device, so that its XIDs are reported from now on. Raises what ``ask`` raises if that
        fails."""
        if self._set is None:
            self._set = ask("nvmlEventSetCreate")
        ask("nvmlDeviceRegisterEvents", handle, self._nvml.nvmlEventTypeXidCriticalError, self._set)
        self._indexes[_address(handle)] = index

    def read(self) -> dict[int, tuple[int, ...]]:
        """Returns the XIDs since the previous read, by index of the device, in the order in which they
        occurred."""
        found = dict[int, tuple[int, ...]]()
        if not self._indexes:
            return found
        for _ in range(_MOST_AT_ONCE):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._set, 0)
            # There is no further event, or a device is lost. Reading the figures of that device reports the
            # loss.
            except self._nvml.NVMLError:
                break
            index = self._indexes.get(_address(event.device))
            if index is not None and event.eventType == self._nvml.nvmlEventTypeXidCriticalError:
                xid = int(event.eventData)
                if 0 < xid <= _HIGHEST:
                    found[index] = (*found.get(index, ()), xid)
        return found

    def close(self) -> None:
        """Frees the event set."""
        if self._set is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlEventSetFree(self._set)
            self._set = None
            self._indexes.clear()


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
