"""Keys of the rows of a window."""

from __future__ import annotations

from typing import NamedTuple

from stalltop.model.evidence import HOST_LAYER


class RowKey(NamedTuple):
    """Identifies a row: whose calls of which operation it counts.

    ``nested`` marks calls made inside another traced call of the same thread (a driver call inside a runtime
    call). They have rows of their own, but totals over operations leave them out.
    """

    host: str
    tenant: str
    pid: int
    process: str
    layer: str
    """runtime, driver, nccl or host."""
    operation: str
    nested: bool = False
    device: str = ""
    """Label of the device that the calls ran on (see ``model.devices.labels``), if measured; else '', and
    ``model.devices.placing`` may know the devices that they can have run on."""

    @property
    def outermost(self) -> bool:
        """Whether totals count the row: it holds calls that are not nested, and not host gaps or host
        work."""
        return not self.nested and self.layer != HOST_LAYER
