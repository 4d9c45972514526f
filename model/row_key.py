"""Keys of the rows of a window."""

from __future__ import annotations

from typing import NamedTuple

from stalltop.model.evidence import HOST_LAYER


class RowKey(NamedTuple):
    """Identifies a row: a row counts the calls of one operation by one process (on one device, if measured).

    ``nested`` marks calls made inside another traced call of the same thread (a driver call inside a runtime
    call). Nested calls have rows of their own, and totals over operations leave these rows out.
    """

    host: str
    tenant: str
    pid: int
    process: str
    layer: str
    """Layer of the operation: runtime, driver, nccl or host."""
    operation: str
    nested: bool = False
    device: str = ""
    """Label of the device that the calls ran on (see ``model.devices.labels``); '' if it was not measured.
    ``model.sharing.placing`` may then know the devices on which the calls can have run."""

    @property
    def outermost(self) -> bool:
        """True if totals over operations count the row: its calls are not nested, and it does not hold host
        gaps or host work."""
        return not self.nested and self.layer != HOST_LAYER
