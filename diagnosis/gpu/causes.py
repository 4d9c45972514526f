"""Lists the causes of the GPU and of NCCL, and runs most of their rules. They run together, so that figures
that several rules need are computed only once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.gpu import (
    bound,
    clocks,
    copies,
    device_faults,
    given,
    graphs,
    hung_calls,
    launches,
    leaks,
    memory,
    own_work,
    sharing,
    time_slices,
)
from stalltop.diagnosis.nccl import collectives, hangs, network, stragglers
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.diagnosis.usage import usages

_MODULES: Final = (
    hung_calls,
    own_work,
    memory,
    leaks,
    copies,
    launches,
    graphs,
    clocks,
    device_faults,
    sharing,
    given,
    collectives,
    stragglers,
    hangs,
    bound,
)
CAUSES: Final[tuple[Cause, ...]] = tuple(cause for module in _MODULES for cause in module.CAUSES)

PROCESS_RULES: Final = (
    *memory.PROCESS_RULES,
    leaks.memory_leak,
    *copies.PROCESS_RULES,
    *launches.PROCESS_RULES,
    *graphs.PROCESS_RULES,
    *collectives.PROCESS_RULES,
)
"""Rules that run for every process that makes calls."""


def gpu_causes(facts: Facts) -> Iterator[Suspicion]:
    """Yields causes in the use of the GPU, in the devices themselves, and between ranks."""
    callers = usages(facts)
    found = [suspicion for caller in callers for rule in PROCESS_RULES for suspicion in rule(caller)]
    for device in facts.window.devices.devices:
        users = device_faults.users_of(facts, device, callers)
        slower = list(clocks.clocks(facts, device, users))
        found += slower
        found += [
            suspicion for rule in device_faults.DEVICE_RULES for suspicion in rule(facts, device, users)
        ]
        found += memory.gpu_memory_full(facts, device, users)
        found += time_slices.gpu_time_slices(facts, device, users)
        # Throttled clocks explain longer waits better than other tenants on the device do, and the log of
        # context switches knows better than any guess.
        if not slower and device.context_switches is None:
            found += sharing.gpu_neighbours(facts, device, users)
    found += [suspicion for caller in callers for suspicion in network.retransmits(facts, caller)]
    found += given.gpu_not_given(facts, callers)
    found += stragglers.nccl_straggler(facts, {caller.pid: caller for caller in callers})
    found += hangs.nccl_hang(facts)
    yield from found
    yield from bound.gpu_bound(facts, callers, found)
