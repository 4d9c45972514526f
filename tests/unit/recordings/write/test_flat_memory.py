"""Tests, by running time fast, that memory does not grow with the number of containers that have come and
gone."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.diagnosis import normals
from stalltop.diagnosis.engine import Diagnosis
from stalltop.model.merge.history import History
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from stalltop.recordings.message.decoding import MessageDecoder
from stalltop.recordings.message.encoding import encode
from stalltop.recordings.write.bounds import Bounds
from stalltop.recordings.write.recording import Recording
from stalltop.recordings.write.thinning import Tier
from tests.windows.by_hand import Calls, key, window

SECONDS = 10.0
SETTLED, END, AT_LAST = 240, 480, 120
"""Numbers of windows: memory has settled; the end; how many windows before both are looked at."""
FLAT = 1.15
"""The caches, which drop many values at a time, make up a tenth of the memory of this test."""
TIERS = (Tier(0, 200.0), Tier(60, 1e9))
"""Windows are merged after 20 others, so that a short test merges many."""


pytestmark = pytest.mark.timeout(600)


def only_one(number: int) -> Window:
    """Returns a window in which one container makes calls that no other window has."""
    tenant = Tenant(f"docker:{number:064x}", f"job-{number}", container_id=f"{number:064x}")
    calls = [
        Calls(key(f"cudaOperation{at}", tenant=tenant.id, pid=1_000 + number), [5_000, 7_000])
        for at in range(4)
    ]
    made = window(calls, start=1_000_000.0 + SECONDS * number, seconds=SECONDS, split=True)
    return replace(made, tenants={tenant.id: tenant})


def test_memory_is_flat_while_each_window_has_a_container_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(normals, "MOST_WORKLOADS", 256)
    # A cache of at most 4,096 names, which this test does not fill.
    monkeypatch.setattr(normals, "_name_of", normals._name_of.__wrapped__)
    diagnosis, history = Diagnosis(), History(256 << 10)
    recording = Recording(tmp_path / "recording.stalltop", Bounds(64 << 20), TIERS)
    decoder = MessageDecoder()
    sizes: list[int] = []
    """Memory after each eighth window: caches shrink every 64 windows."""
    tracemalloc.start()
    try:
        for number in range(END):
            found = diagnosis.add(only_one(number))
            history.add(found)
            recording.add(found)
            recording.tend()
            decoder.decode(encode(found))
            if number % 8 == 0:
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    recording.close()
    settled, at_last = (max(sizes[(end - AT_LAST) // 8 : end // 8]) for end in (SETTLED, END))
    assert at_last < FLAT * settled
