"""Shows a screen with windows prepared beforehand, so that its cost can be measured:
``python -m bench.monitor.shown ours|stock ROWS HZ``.

Nothing is traced, so only the screen's own work is measured: reading windows, aggregating and painting.
"""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from bench.monitor.stock import StockApp
from stalltop.cli.main import NEW_OBJECTS
from stalltop.model.devices.device import Device, Devices, System
from stalltop.model.histograms.hdr import COUNTERS, indices_of
from stalltop.model.histograms.histograms import Histograms
from stalltop.model.row_key import RowKey
from stalltop.model.tenant import Tenant
from stalltop.model.window import SPLITS, Coverage, Library, Rows, Window
from stalltop.tui.app import run
from stalltop.tui.screens.run_options import RunOptions

TENANTS: Final = 10
DIFFERENT: Final = 8
"""Number of prepared windows; after the last window, the first one is shown again."""
STEADY_ROWS: Final = 12
"""Number of rows at the top that keep their order, so that a cursor on them moves only if a key is pressed.
The rows below change places at every refresh."""
_USED: Final = 24
"""Number of random durations in each histogram, and so the maximum number of its counters in use."""
_HOST: Final = "bench"


class PreparedSource:
    """A source of windows with ``rows`` rows, in which every figure changes at every read."""

    def __init__(self, rows: int, seconds: float) -> None:
        random = np.random.default_rng(1)
        keys = tuple(_key(number) for number in range(rows))
        self._windows = [_window(keys, seconds, random) for _ in range(DIFFERENT)]
        self._reads = itertools.count()

    def read(self) -> Window:
        """Returns the next window; windows follow each other without gaps."""
        number = next(self._reads)
        window = self._windows[number % DIFFERENT]
        return replace(window, start=1_700_000_000.0 + number * window.seconds)

    def close(self) -> None:
        """Does nothing, because the source holds no resources."""


def _key(number: int) -> RowKey:
    tenant = number % TENANTS
    return RowKey(_HOST, f"docker:{tenant}", 1000 + tenant, "python3", "runtime", f"cudaOperation{number:04}")


def _window(keys: tuple[RowKey, ...], seconds: float, random: np.random.Generator) -> Window:
    rows = len(keys)
    steady = np.arange(rows) < STEADY_ROWS
    rank = np.arange(rows, 0, -1) + np.where(steady, 40.0, 20.0)
    # The random part lets rows below the steady ones change places with their neighbours at every refresh.
    jitter = random.uniform(-1.0, 1.0, rows) * np.where(steady, 0.3, 8.0)
    total = (rank + jitter) * 1_000_000
    calls = random.integers(100, 100_000, rows)
    spread = random.lognormal(0.0, 0.5, (rows, _USED))
    counters = np.zeros((rows, COUNTERS), np.uint64)
    row = np.repeat(np.arange(rows), _USED)
    place = indices_of((spread * (total / calls)[:, None]).astype(np.uint64)).reshape(-1)
    np.add.at(counters, (row, place), np.repeat(calls // _USED + 1, _USED).astype(np.uint64))
    parts = random.dirichlet(np.ones(len(SPLITS)), rows) * total[:, None]
    return Window(
        start=0.0,
        seconds=seconds,
        host=_HOST,
        rows=Rows(
            keys=keys,
            calls=counters.sum(axis=1),
            errors=random.integers(0, 3, rows).astype(np.uint64),
            bytes=random.integers(0, 1 << 30, rows).astype(np.uint64),
            total_ns=total.astype(np.uint64),
            max_ns=(spread.max(axis=1) * total / calls).astype(np.uint64),
            histograms=Histograms.from_dense(counters),
            split_ns=parts.astype(np.uint64),
        ),
        tenants={
            f"docker:{n}": Tenant(f"docker:{n}", f"tenant-{n}", runtime="docker") for n in range(TENANTS)
        },
        devices=Devices(devices=(_device(random),)),
        system=_system(random),
        coverage=Coverage(attached=200, functions=100, libraries=(_LIBRARY,), processes=TENANTS, way="multi"),
    )


_LIBRARY: Final = Library("/usr/lib/libcuda.so.1", "driver", 100, TENANTS)


def _device(random: np.random.Generator) -> Device:
    return Device(
        index=0,
        uuid="GPU-0",
        name="NVIDIA H100 80GB HBM3",
        utilization_percent=float(random.integers(0, 100)),
        memory_total_bytes=80 << 30,
        memory_used_bytes=int(random.integers(1 << 30, 80 << 30)),
    )


def _system(random: np.random.Generator) -> System:
    return System(
        cpu_percent=float(random.uniform(0, 100)),
        cpus=16,
        load=(float(random.uniform(0, 16)), 3.0, 2.0),
        memory_total_bytes=128 << 30,
        memory_used_bytes=int(random.integers(1 << 30, 128 << 30)),
        swap_total_bytes=0,
        swap_used_bytes=0,
    )


def main(arguments: Sequence[str]) -> int:
    """Shows the screen until q is pressed."""
    gc.set_threshold(NEW_OBJECTS)  # as the program does
    kind, rows, hz = arguments[0], int(arguments[1]), float(arguments[2])
    source = PreparedSource(rows, 1.0 / hz)
    if kind == "stock":
        StockApp(source, 1.0 / hz).run()
        return 0
    return run(source, RunOptions(interval=1.0 / hz, theme="dark", print_last=False))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
