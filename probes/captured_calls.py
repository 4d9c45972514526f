"""Turns captured calls into the calls of a window: replaces numbers by names, and times by Unix times."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from stalltop.model.calls import CapturedCall, CapturedCalls, bounded
from stalltop.model.histograms.hdr import index_of
from stalltop.model.row_key import RowKey
from stalltop.model.stacks.stack import StackCount
from stalltop.probes.call_arguments import argument_text
from stalltop.probes.layout import Object
from stalltop.probes.maps.raw import RawCapturedCall
from stalltop.probes.maps.slots import SlotKey
from stalltop.probes.operations import FUNCTIONS
from stalltop.probes.stack_reading.stack_reader import ReadStack

_KERNEL_AT: Final = {
    function.id: function.object_at for function in FUNCTIONS if function.object == Object.LAUNCHES
}
"""By ``Function.id``: index of the argument that is the launched CUDA kernel."""


def captured_calls(
    raw: Iterable[RawCapturedCall],
    passed_over: int,
    *,
    row_of: Callable[[SlotKey], RowKey],
    kernel_of: Callable[[int, int, int], str],
    unix_ns: int,
) -> CapturedCalls:
    """Returns the captured calls of a window.

    ``row_of`` returns the row in which a call is counted. ``kernel_of`` returns the name of a CUDA kernel;
    its arguments are the process, the program (``RawCapturedCall.born_ns``) and the function. ``unix_ns`` is
    Unix time minus CLOCK_MONOTONIC, in ns.
    """
    kept = []
    for call in raw:
        row = row_of(_slot_of(call))
        at = _KERNEL_AT.get(call.function)
        kept.append(
            CapturedCall(
                row.tenant,
                row.pid,
                row.process,
                row.layer,
                row.operation,
                row.nested,
                call.tid,
                call.start_ns + unix_ns,
                call.duration_ns,
                call.split_ns,
                call.bytes,
                call.returned,
                argument_text(call.function, call.arguments),
                "" if at is None else kernel_of(call.tgid, call.born_ns, call.arguments[at]),
                "slow" if call.slow else "sample",
                row.device,
            )
        )
    return bounded(kept, passed_over)


def call_stacks(
    raw: Iterable[RawCapturedCall],
    found: dict[tuple[int, int], ReadStack],
    row_of: Callable[[SlotKey], RowKey],
) -> tuple[StackCount, ...]:
    """Returns the stacks of the captured calls ``raw``, and removes them from ``found``, which has the
    stacks that were read, by TID and start of the call."""
    stacks = []
    for call in raw:
        stack = found.pop((call.tid, call.start_ns), None)
        if stack is not None and stack.frames:
            row = row_of(_slot_of(call))
            stacks.append(
                StackCount(
                    *(row.tenant, row.pid, row.process, row.layer, row.operation, row.nested),
                    *("slow" if call.slow else "sample", 1, call.duration_ns, stack.frames, stack.cut),
                    row.device,
                    ((index_of(call.duration_ns), 1),),
                )
            )
    return tuple(stacks)


def _slot_of(call: RawCapturedCall) -> SlotKey:
    return SlotKey(call.cgroup_id, call.tgid, call.operation, call.nested, call.device)
