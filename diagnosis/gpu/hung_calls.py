"""Finds calls that have been open for so long that they hang."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stalltop.diagnosis.cause import Cause
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.links import link_of
from stalltop.diagnosis.nccl.hangs import waits_for_ranks
from stalltop.diagnosis.suspicion import Suspicion
from stalltop.model.chain import Fix
from stalltop.model.row_key import RowKey
from stalltop.model.telling import Telling
from stalltop.model.text.words import program_of
from stalltop.model.window import OpenCall

CAUSES: Final = (
    Cause(
        "hung_call",
        "Hung call",
        "a call has been open for a long time",
        Telling("does not return from {operation}", "does not return from {operation}", state="hangs"),
        least="high",
        at_once=True,
    ),
)

HUNG_NS: Final = 10_000_000_000
"""Least age of an open call that counts as hung, ns. Nobody would investigate a shorter wait."""
HUNG_TIMES: Final = 10
"""A call counts as hung only if it has been open for this many times as long as the longest earlier call of
its kind. Long steps and loads of models occur repeatedly, so an earlier one took about as long."""
UNKNOWN_HUNG_NS: Final = 60_000_000_000
"""Least age of a hung call if no call of its kind has returned yet, ns. The first call may load and compile
device code for tens of seconds."""


def hung_call(facts: Facts) -> Iterator[Suspicion]:
    """Yields, for each tenant, its oldest call that does not return. Waits for other ranks and calls of
    stopped processes are left out, because other rules report them."""
    oldest: dict[str, OpenCall] = {}
    stopped = {stop.pid for stop in facts.window.evidence.threads.stops if stop.still_ns}
    for call in facts.window.open_calls:
        if call.nested or call.ended or call.age_ns < HUNG_NS or waits_for_ranks(facts, call):
            continue
        if call.pid in stopped:
            continue
        known = oldest.get(call.tenant)
        if (known is None or call.age_ns > known.age_ns) and call.age_ns >= _hung_from_ns(facts, call):
            oldest[call.tenant] = call
    for call in oldest.values():
        yield _hung(facts, call)


def _hung_from_ns(facts: Facts, call: OpenCall) -> int:
    """Returns the least age at which an open call counts as hung, ns."""
    longest_ns = facts.longest_ns(call)
    return UNKNOWN_HUNG_NS if longest_ns is None else max(HUNG_NS, HUNG_TIMES * longest_ns)


def _hung(facts: Facts, call: OpenCall) -> Suspicion:
    key = RowKey(facts.window.host, *call.row)
    name = facts.name(call.tenant)
    longest_ns = facts.longest_ns(call)
    before = f"; such calls took {longest_ns / 1e9:.3g} s at most" if longest_ns is not None else ""
    return Suspicion(
        cause="hung_call",
        tenant=call.tenant,
        summary=f"{program_of(call.process, call.pid, name)} does not return from {call.operation}",
        lost_ns_per_s=1e9,
        share=0.0,
        confidence=0.9,
        links=(
            link_of(
                call,
                "effect",
                f"{call.operation} is open for {call.age_ns / 1e9:.0f} s{before}",
                ns_per_s=1e9,
                depth=0,
            ),
            link_of(
                call,
                "mechanism",
                f"thread {call.tid} has not come back from the driver",
                share=1.0,
            ),
        ),
        fixes=(
            Fix(
                f"see where thread {call.tid} stands",
                f"cat /proc/{call.pid}/task/{call.tid}/stack; py-spy dump -p {call.pid}",
                look=True,
            ),
            Fix("look for errors of the device", "dmesg | grep -i -e xid -e nvrm", look=True),
        ),
        effect=key,
        rows=(key,),
        pid=call.pid,
        process=call.process,
        unknown=("what the call waits for",),
    )
