"""Has answers of NCCL's RAS received and parsed by a confined process."""

from __future__ import annotations

from collections.abc import Callable

from stalltop.probes.confined.coding import Descriptor
from stalltop.probes.confined.examiner import Examiner
from stalltop.probes.confined.link import Answerer
from stalltop.probes.nccl_ras.status import RasCommunicator


def confined_status(asks: Answerer) -> Callable[[int], tuple[RasCommunicator, ...]]:
    """Returns what does the same as `received_status`, in the process of ``asks``."""

    def received(connection: int) -> tuple[RasCommunicator, ...]:
        (found,) = asks.ask(Examiner.ras_status, [(Descriptor(connection),)])
        if isinstance(found, OSError):
            raise found
        return found

    return received
