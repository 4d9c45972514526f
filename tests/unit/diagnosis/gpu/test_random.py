"""Tests that no GPU rule fails or gives impossible figures on random windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stalltop.diagnosis.causes import CAUSES
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.gpu.causes import gpu_causes
from stalltop.model.devices.device import DeviceProcess, Devices
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.row_key import RowKey
from stalltop.model.window import SPLITS, OpenCall, Rows, Window
from stalltop.probes.operations import OPERATIONS
from tests.windows.drawn import random_devices, random_evidence

_NUMBERS = st.one_of(st.integers(0, 3), st.integers(0, 100_000), st.integers(0, 1 << 40))


@st.composite
def _random_windows(draw: st.DrawFn) -> Window:
    keys = draw(
        st.lists(
            st.builds(
                lambda info, pid, nested: RowKey(
                    "gpu7", f"docker:{pid % 2}", pid, "p", info.layer, info.name, nested
                ),
                st.sampled_from(OPERATIONS),
                st.integers(1, 3),
                st.booleans(),
            ),
            unique=True,
            max_size=12,
        )
    )
    n = len(keys)

    def column() -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return np.array(draw(st.lists(_NUMBERS, min_size=n, max_size=n)), np.uint64)

    split = np.zeros((n, len(SPLITS)), np.uint64)
    for part in range(len(SPLITS)):
        split[:, part] = column()
    rows = Rows(
        keys=tuple(keys),
        calls=column(),
        errors=column(),
        bytes=column(),
        total_ns=split.sum(axis=1).astype(np.uint64),
        max_ns=column(),
        histograms=Histograms.empty(n),
        split_ns=split if draw(st.booleans()) else None,
    )
    seed = draw(st.integers(0, 1 << 32))
    users = tuple(DeviceProcess(pid, "C", None, f"docker:{pid % 2}") for pid in (1, 2, 3))
    devices = tuple(replace(device, processes=users) for device in random_devices(seed).devices)
    return Window(
        1000.0,
        draw(st.sampled_from([0.0, 1.0, 3.0])),
        "gpu7",
        rows,
        evidence=random_evidence(seed),
        devices=Devices(devices),
        open_calls=tuple(
            OpenCall("docker:1", pid, pid, "p", "nccl", "ncclAllReduce", age)
            for pid, age in draw(st.lists(st.tuples(st.integers(1, 3), _NUMBERS), max_size=3))
        ),
    )


@given(_random_windows(), st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1e12)), max_size=20))
@settings(max_examples=60, deadline=None)
def test_the_gpu_rules_survive_any_window(made: Window, points: list[tuple[float, float]]) -> None:
    kept = ("held_bytes", "graphs_made", "graphs_launched", "kernels_per_s", "device_wait_ns")
    series = {(what, f"docker:{pid % 2}", pid): sorted(points) for what in kept for pid in (1, 2, 3)}
    facts = Facts(made, series=series)
    told = list(gpu_causes(facts))
    assert told == list(gpu_causes(facts))
    for suspicion in told:
        assert suspicion.cause in CAUSES
        assert suspicion.lost_ns_per_s >= 0
        assert 0 <= suspicion.confidence <= 1
        assert suspicion.share is None or 0 <= suspicion.share <= 1
        assert suspicion.links[0].depth == 0
        assert all(link.share is None or 0 <= link.share <= 1 for link in suspicion.links)
