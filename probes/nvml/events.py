"""Critical errors (XIDs) that the NVIDIA driver reports of its GPUs, through an NVML event set."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Final

from stalltop.probes.nvml.asking import Asking

_MOST_AT_ONCE: Final = 64
"""Events taken in one look: a GPU that reports them without end does not hold up the rest."""
_HIGHEST: Final = 1 << 16
"""XIDs are numbers of three digits; what is far above is none."""


class XidWatch:
    """Tells what was reported since the look before. ``nvml`` is the module `pynvml`, initialized.

    The driver keeps events until they are fetched, so nobody has to wait for them. Used from one thread.
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._set: Any = None
        self._indexes = dict[int, int]()
        """Of the watched devices, by the address that their handle is."""

    def watch(self, ask: Asking, index: int, handle: Any) -> None:
        """Have XIDs of this device reported from now on. Raises what ``ask`` does where that cannot be."""
        if self._set is None:
            self._set = ask("nvmlEventSetCreate")
        ask("nvmlDeviceRegisterEvents", handle, self._nvml.nvmlEventTypeXidCriticalError, self._set)
        self._indexes[_address(handle)] = index

    def read(self) -> dict[int, tuple[int, ...]]:
        """XIDs since the previous read, by index of the device, in their order."""
        found = dict[int, tuple[int, ...]]()
        if not self._indexes:
            return found
        for _ in range(_MOST_AT_ONCE):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._set, 0)
            except self._nvml.NVMLError:  # none is left; or a device is lost, which its own figures tell
                break
            index = self._indexes.get(_address(event.device))
            if index is not None and event.eventType == self._nvml.nvmlEventTypeXidCriticalError:
                xid = int(event.eventData)
                if 0 < xid <= _HIGHEST:
                    found[index] = (*found.get(index, ()), xid)
        return found

    def close(self) -> None:
        """Give the event set back."""
        if self._set is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                self._nvml.nvmlEventSetFree(self._set)
            self._set = None
            self._indexes.clear()


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
