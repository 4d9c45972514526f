"""Generates launches by CUDA kernel for simulated windows: those of a row are divided among its program's
CUDA kernels."""

from __future__ import annotations

from typing import Final

import numpy as np

from stalltop.model.cuda_kernels import BUCKETS, KernelCount, bucket_highest_ns, bucket_lowest_ns
from stalltop.model.window import Rows

_COUNTERS_OF_BUCKET: Final = 32
"""The same number as in ``model.cuda_kernels``."""
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
KERNELS: Final = {"python3 train.py": _TRAINER, "python3 serve.py": _INFERENCE, "ipykernel": _NOTEBOOK}
"""By program: shares of its launches, and CUDA kernels. The remaining launches are of unnamed CUDA
kernels."""


def kernels_of(rows: Rows) -> tuple[KernelCount, ...]:
    """Returns launches of ``rows`` by CUDA kernel."""
    found: list[KernelCount] = []
    for row, key in enumerate(rows.keys):
        known = KERNELS.get(key.process, _TRAINER)
        if key.nested or "Launch" not in key.operation or "Graph" in key.operation or not rows.calls[row]:
            continue
        entries = slice(*rows.histograms.start[row : row + 2].tolist())
        index, count = rows.histograms.index[entries], rows.histograms.count[entries].astype(np.int64)
        calls = np.bincount(index // _COUNTERS_OF_BUCKET, count, BUCKETS).astype(np.int64)
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
