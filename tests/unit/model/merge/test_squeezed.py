"""Tests that windows of the past lose nothing when they are compressed, and take less memory."""

from __future__ import annotations

import numpy as np
import pytest

from stalltop.model.merge.history import FRESH, History
from stalltop.model.merge.squeezed import RowArrays
from tests.windows.by_hand import Calls, key, same_window, window


def arrays(rows: int, *, split: bool) -> RowArrays:
    random = np.random.default_rng(1)
    lengths = random.integers(0, 60, rows)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
    indices = np.concatenate(
        [np.sort(random.choice(4_000, length, replace=False)) for length in lengths]
    ).astype(np.uint16)
    counts = random.integers(1, 900, len(indices)).astype(np.uint16)
    split_ns = random.integers(0, 1 << 40, (rows, 10)).astype(np.uint64) if split else None
    return RowArrays(starts, counts, indices, split_ns)


@pytest.mark.parametrize("split", [True, False])
def test_compressed_arrays_are_equal(split: bool) -> None:
    found = arrays(300, split=split)
    before, split_before = found.read()
    size = found.nbytes
    saved = found.squeeze()
    after, split_after = found.read()
    assert 0 < saved == size - found.nbytes
    assert found.squeeze() == 0
    for name in ("start", "index", "count"):
        assert np.array_equal(getattr(after, name), getattr(before, name))
        assert getattr(after, name).dtype == getattr(before, name).dtype
    assert (split_after is None) == (split_before is None)
    if split_after is not None and split_before is not None:
        assert np.array_equal(split_after, split_before)


def test_small_arrays_stay_as_they_are() -> None:
    found = arrays(2, split=True)
    assert found.squeeze() == 0


def test_a_history_squeezes_all_but_its_newest_windows() -> None:
    history = History()
    windows = []
    for at in range(FRESH + 5):
        calls = [
            Calls(key(operation=f"o{row}"), [1_000 * (at + step + 1) for step in range(60)])
            for row in range(80)
        ]
        windows.append(window(calls, start=1_000.0 + at, seconds=1.0))
        history.add(windows[-1])
    keys_bytes = history.bytes - sum(part.bytes for part in history.parts)
    empty = History()
    empty.add(windows[0])
    assert keys_bytes == empty.bytes - empty.parts[0].bytes
    sizes = [part.bytes for part in history.parts]
    assert max(sizes[:5]) < min(sizes[5:])
    for at in (0, 4, -1):
        same_window(history.at(at), windows[at])
