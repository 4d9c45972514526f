"""Generates captured calls for simulated windows: each is one that its row has counted."""

from __future__ import annotations

from random import Random
from typing import Final

from stalltop.model.calls import Calls, KeptCall
from stalltop.model.evidence import HOST_LAYER
from stalltop.model.histograms.hdr import lowest_ns
from stalltop.model.window import Rows

SLOW_A_SECOND: Final = 14
SAMPLES_A_SECOND: Final = 6


def kept_calls(rows: Rows, start: float, seconds: float, random: Random) -> Calls:
    """Returns some calls of ``rows``: the longest ones, the longest of some other rows, and a few at random.

    ``start`` is the beginning of the window (Unix time, s), which lasted ``seconds``.
    """
    called = [
        row
        for row, (key, calls) in enumerate(zip(rows.keys, rows.calls.tolist(), strict=True))
        if calls and key.layer != HOST_LAYER and int(rows.max_ns[row]) < seconds * 1e9
    ]
    n = min(max(round(SLOW_A_SECOND * seconds), 1), len(called))
    called.sort(key=lambda row: -int(rows.max_ns[row]))
    slow = called[: n // 2] + random.sample(called[n // 2 :], n - n // 2)
    others = random.sample(called, min(max(round(SAMPLES_A_SECOND * seconds), 1), len(called)))
    kept = [_call(rows, row, int(rows.max_ns[row]), "slow", start, seconds, random) for row in slow]
    for row in others:
        first, end = rows.histograms.start[row : row + 2].tolist()
        duration_ns = int(lowest_ns(rows.histograms.index[random.randrange(first, end)]))
        kept.append(_call(rows, row, duration_ns, "sample", start, seconds, random))
    return Calls(sorted(kept, key=lambda call: (call.start_ns, call.tid)))


def _call(
    rows: Rows, row: int, duration_ns: int, why: str, start: float, seconds: float, random: Random
) -> KeptCall:
    key = rows.keys[row]
    calls = int(rows.calls[row])
    after_ns = random.randrange(max(int(seconds * 1e9) - duration_ns, 1))
    return KeptCall(
        key.tenant,
        key.pid,
        key.process,
        key.layer,
        key.operation,
        key.nested,
        tid=key.pid + random.randrange(3),
        start_ns=int(start * 1e6) * 1000 + after_ns,
        duration_ns=duration_ns,
        split_ns=_split(rows, row, duration_ns),
        bytes=int(rows.bytes[row]) // calls,
        returned=0,
        arguments=_arguments(key.operation, key.pid),
        kernel="",
        why="slow" if why == "slow" else "sample",
        device=key.device,
    )


def _split(rows: Rows, row: int, duration_ns: int) -> tuple[int, ...] | None:
    """Returns ``duration_ns`` divided in the proportions of all calls of the row; the remainder is
    running."""
    if rows.split_ns is None:
        return None
    parts = rows.split_ns[row].tolist()
    whole = sum(parts) or 1
    divided = [duration_ns * part // whole for part in parts]
    divided[0] += duration_ns - sum(divided)
    return tuple(divided)


def _arguments(operation: str, pid: int) -> str:
    stream = f"stream={0x7F2C_0000_1000 + 0x40 * (pid % 7):#x}"
    name, _, kind = operation.partition(" ")
    if "Launch" in name:
        return f"grid={(pid % 5 + 1) * 64}x1x1 block=256x1x1"
    if kind:
        return f"copy={kind} {stream}"
    if name.startswith(("nccl", "cudaStream", "cuStream")) or name.endswith("Async"):
        return stream
    return ""
