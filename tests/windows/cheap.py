"""Makes windows for recordings: cheap, different each second, and reproducible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stalltop.model.histograms.hdr import COUNTERS
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.row_key import RowKey
from stalltop.model.window import SPLITS, Rows, Window
from tests.windows.by_hand import key
from tests.windows.full import full_window

START = 1_700_000_000.0
_FULL = full_window()


def keys(rows: int) -> tuple[RowKey, ...]:
    """Returns keys of ten processes of two tenants."""
    return tuple(
        key(f"cudaOperation{row:03}", tenant=("docker:aa", "cri:bb")[row % 2], pid=100 + row % 10)
        for row in range(rows)
    )


def second(number: int, rows: int = 100, *, entries: int = 12, full: bool = False) -> Window:
    """Returns the window of second ``number``. Each row has ``entries`` durations. With ``full`` the window
    also has all other data."""
    random = np.random.default_rng(number)
    index = np.sort(random.choice(COUNTERS // 2, entries, replace=False)).astype(np.uint16)
    count = random.integers(1, 200, rows * entries).astype(np.uint64)
    histograms = Histograms(
        np.arange(rows + 1, dtype=np.int64) * entries, np.tile(index, rows).astype(np.uint16), count
    )
    calls = histograms.totals()
    total = calls * np.uint64(40_000 + number % 1_000)
    splits = np.zeros((rows, len(SPLITS)), np.uint64)
    splits[:, 0] = total
    made = Rows(
        keys=keys(rows),
        calls=calls,
        errors=calls // np.uint64(100),
        bytes=calls * np.uint64(4_096),
        total_ns=total,
        max_ns=total // np.maximum(calls, np.uint64(1)) * np.uint64(3),
        histograms=histograms,
        split_ns=splits,
    )
    if full:
        return replace(_FULL, start=START + number, seconds=1.0, rows=made)
    return Window(
        start=START + number, seconds=1.0, host="gpu7", rows=made, tenants=_FULL.tenants, loss={"missed": 1}
    )
