"""What a row of a window counts."""

from __future__ import annotations

from typing import NamedTuple

from stalltop.model.evidence import HOST_LAYER


class RowKey(NamedTuple):
    """What a row counts. ``nested`` marks calls made inside another traced call of the same thread (a driver
    call inside a runtime call): they are rows like others, but totals over operations leave them out."""

    host: str
    tenant: str
    pid: int
    process: str
    layer: str
    """runtime, driver, nccl or host."""
    operation: str
    nested: bool = False
    device: str = ""
    """Label of the device that the calls ran on (see ``model.devices.labels``), where that was measured; else
    empty, and ``model.devices.placing`` may know on which ones they can have run."""

    @property
    def outermost(self) -> bool:
        """Whether totals count it: no other traced call is around it, and it is no time between calls."""
        return not self.nested and self.layer != HOST_LAYER
