"""Generates the captured calls and the CUDA kernels of simulated windows. Both are derived from the calls
that the rows of these windows count."""

from __future__ import annotations

from random import Random
from typing import Final

import numpy as np

from stalltop.model.calls import CapturedCall, CapturedCalls
from stalltop.model.cuda_kernels import BUCKETS, KernelCount, bucket_highest_ns, bucket_lowest_ns
from stalltop.model.evidence import HOST_LAYER
from stalltop.model.histograms.hdr import COUNTERS, lowest_ns
from stalltop.model.window import Rows

SLOW_A_SECOND: Final = 14
SAMPLES_A_SECOND: Final = 6
_TRAINER: Final = (
    (0.42, "gemm(float const*, float const*, float*, int, int, int)"),
    (0.21, "void nn::layer_norm<float>(float*, float const*, float const*, int)"),
    (0.15, "void nn::adam_step<float>(float*, float*, float*, float const*, float)"),
    (0.12, "void nn::attention_forward<128, true>(float*, float const*, nn::Tile<128, true>)"),
    (0.06, "void nn::softmax<float, 1024>(float*, float const*)"),
)
_INFERENCE: Final = (
    (0.55, "void nn::attention_forward<128, true>(float*, float const*, nn::Tile<128, true>)"),
    (0.25, "gemm(float const*, float const*, float*, int, int, int)"),
    (0.15, "embedding_lookup(long const*, float const*, float*, unsigned long)"),
)
_NOTEBOOK: Final = (
    (0.6, "void resize<unsigned char>(unsigned char const*, unsigned char*, int, int)"),
    (0.2, "(anonymous namespace)::histogram(unsigned char const*, unsigned int*)"),
    (0.1, "scale(float*, float, int)"),
)
KERNELS: Final = {
    **dict.fromkeys(("python3 train.py", "train.py"), _TRAINER),
    **dict.fromkeys(("python3 serve.py", "serve.py", "embed.py"), _INFERENCE),
    "ipykernel": _NOTEBOOK,
}
"""CUDA kernels by program, each with its share of the program's launches. The remaining launches are of CUDA
kernels without a name."""


def kept_calls(rows: Rows, start: float, seconds: float, random: Random) -> CapturedCalls:
    """Returns captured calls of ``rows``: at most one slow call and one random call of each row.

    Half of the slow calls come from the rows with the longest calls, the other half from rows that are chosen
    at random. ``start`` is the beginning of the window (Unix time, s), and ``seconds`` its length.
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
    kept = []
    for at, row in enumerate(slow + others):
        duration_ns = int(rows.max_ns[row])
        if at >= len(slow):
            entry = random.randrange(*rows.histograms.start[row : row + 2].tolist())
            duration_ns = int(lowest_ns(rows.histograms.index[entry]))
        key = rows.keys[row]
        begin_ns = int(start * 1e6) * 1000 + random.randrange(max(int(seconds * 1e9) - duration_ns, 1))
        kept.append(
            CapturedCall(
                *(key.tenant, key.pid, key.process, key.layer, key.operation, key.nested),
                tid=key.pid + random.randrange(3),
                start_ns=begin_ns,
                duration_ns=duration_ns,
                split_ns=_split(rows, row, duration_ns),
                bytes=int(rows.bytes[row]) // int(rows.calls[row]),
                returned=0,
                arguments=_arguments(key.operation, key.pid),
                kernel="",
                why="slow" if at < len(slow) else "sample",
                device=key.device,
            )
        )
    return CapturedCalls(sorted(kept, key=lambda call: (call.start_ns, call.tid)))


def _split(rows: Rows, row: int, duration_ns: int) -> tuple[int, ...]:
    """Returns the parts of a call that took ``duration_ns``. They are in the same proportions as the parts of
    all calls of its row. Rounding errors count as running."""
    assert rows.split_ns is not None
    _, *parts = rows.split_ns[row].tolist()
    divided = [duration_ns * part // int(rows.total_ns[row]) for part in parts]
    return duration_ns - sum(divided), *divided


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


def kernels_of(rows: Rows) -> tuple[KernelCount, ...]:
    """Returns the launches that ``rows`` count, by CUDA kernel."""
    found: list[KernelCount] = []
    for row, key in enumerate(rows.keys):
        known = KERNELS.get(key.process, _TRAINER)
        if key.nested or "Launch" not in key.operation or "Graph" in key.operation or not rows.calls[row]:
            continue
        entries = slice(*rows.histograms.start[row : row + 2].tolist())
        index, count = rows.histograms.index[entries], rows.histograms.count[entries].astype(np.int64)
        calls = np.bincount(index // (COUNTERS // BUCKETS), count, BUCKETS).astype(np.int64)
        mean_ns = int(rows.total_ns[row]) // int(rows.calls[row])
        for share, name in known:
            own = (calls * share).astype(np.int64)
            used = np.flatnonzero(own)
            if not len(used):
                continue
            top, launches = int(used[-1]), int(own.sum())
            longest = min(int(rows.max_ns[row]), bucket_highest_ns(top))
            found.append(
                KernelCount(
                    *(key.tenant, key.pid, key.process, key.layer, key.operation, key.nested, name),
                    *(launches, 0, launches * mean_ns, max(longest, bucket_lowest_ns(top))),
                    tuple(zip(used.tolist(), own[used].tolist(), strict=True)),
                    key.device,
                )
            )
    return tuple(found)
