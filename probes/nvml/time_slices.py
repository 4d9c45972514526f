"""Reads who has a time-sliced GPU from the driver's log of context switches, as a question like those to
NVML: keeps the log open while it is asked, and says why there is no answer."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from stalltop.probes.nvml.asking import NvmlCallError
from stalltop.probes.nvml.resource_manager import DriverCallError
from stalltop.probes.nvml.switch_log import RecordsLostError, Residency, SwitchLog, opened

OpenLog = Callable[[int, str, Residency], SwitchLog]
"""Opens the log of the GPU with a minor number and a PCI address."""


class TimeSlices:
    """The log of one GPU, and the sums of all that was read from it."""

    def __init__(self, open_log: OpenLog = opened) -> None:
        self._open = open_log
        self._log: SwitchLog | None = None
        self._residency = Residency()

    def resident_ns(self, pid: int) -> int:
        """Returns the time in which the process had the GPU while the log was read."""
        return self._residency.total_ns[pid]

    def read(self, minor: int, pci_bus_id: str) -> dict[str, Any]:
        """Returns the sums since the first call, as fields of ``Device``. Raises NvmlCallError."""
        residency = self._residency
        try:
            if self._log is None:
                self._log = self._open(minor, pci_bus_id, residency)
            self._log.read()
        except RecordsLostError:
            raise NvmlCallError("more than there is room for") from None
        except DriverCallError as reason:
            self.close()
            raise NvmlCallError(str(reason), lasting=True, unsupported=reason.unsupported) from reason
        except OSError as error:
            self.close()
            absent = error.errno in (errno.ENOENT, errno.ENODEV, errno.ENXIO)
            raise NvmlCallError(error.strerror or str(error), lasting=True, unsupported=absent) from error
        if residency.hidden:
            self.close()
            self._residency = Residency()
            raise NvmlCallError("only root sees the processes of all users", lasting=True)
        return {"context_switches": residency.switches, "context_log_ns": residency.logged_ns}

    def close(self) -> None:
        """Closes the log; ``read`` opens it again. The sums stay."""
        log, self._log = self._log, None
        if log is not None:
            log.close()
