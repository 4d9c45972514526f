"""Asks all rules of this package together, so that what they share is computed once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.gpu import copies, graphs, launches, memory
from stalltop.diagnosis.gpu.bound import gpu_bound
from stalltop.diagnosis.gpu.clocks import clocks
from stalltop.diagnosis.gpu.device_faults import DEVICE_RULES, users_of
from stalltop.diagnosis.gpu.given import gpu_not_given
from stalltop.diagnosis.gpu.hangs import nccl_hang
from stalltop.diagnosis.gpu.leaks import memory_leak
from stalltop.diagnosis.gpu.memory import gpu_memory_full
from stalltop.diagnosis.gpu.nccl import nccl_straggler
from stalltop.diagnosis.gpu.network import retransmits
from stalltop.diagnosis.gpu.sharing import gpu_neighbours
from stalltop.diagnosis.gpu.usage import usages
from stalltop.diagnosis.suspicion import Suspicion

PROCESS_RULES: Final = (
    *memory.PROCESS_RULES,
    memory_leak,
    *copies.PROCESS_RULES,
    *launches.PROCESS_RULES,
    *graphs.PROCESS_RULES,
)
"""Rules that are asked about every process that makes calls."""


def gpu_causes(facts: Facts) -> Iterator[Suspicion]:
    """Yields causes that lie in the use of the GPU, in the devices, and between ranks."""
    callers = usages(facts)
    found = [suspicion for usage in callers for rule in PROCESS_RULES for suspicion in rule(usage)]
    for device in facts.window.devices.devices:
        users = users_of(facts, device, callers)
        slower = list(clocks(facts, device, users))
        found += slower
        found += [suspicion for rule in DEVICE_RULES for suspicion in rule(facts, device, users)]
        found += gpu_memory_full(facts, device, users)
        if not slower:  # A slower device explains longer waits better than other tenants on it do.
            found += gpu_neighbours(facts, device, users)
    found += [suspicion for usage in callers for suspicion in retransmits(facts, usage)]
    found += gpu_not_given(facts, callers)
    found += nccl_straggler(facts, {usage.pid: usage for usage in callers})
    found += nccl_hang(facts)
    yield from found
    hit = {suspicion.pid for suspicion in found}
    yield from gpu_bound(facts, [usage for usage in callers if usage.pid not in hit])
