"""Runs the monitor without a screen: reads one window per second while stdin is open.

Prints a JSON line for each window: the numbers of rows, tenants, calls and lost calls, the length in seconds,
the CPU time that the probes cost, percent of a core, and the memory in the Linux kernel, bytes.
"""

from __future__ import annotations

import gc
import json
import select
import sys
import time

from stalltop.cli.main import NEW_OBJECTS
from stalltop.model.evidence import HOST_LAYER
from stalltop.probes.monitor import Monitor


def main() -> None:
    """Reads windows until stdin ends."""
    gc.set_threshold(NEW_OBJECTS)  # as the program does
    monitor = Monitor()
    try:
        if monitor.cannot_trace is not None:
            raise monitor.cannot_trace
        monitor.read()
        due = time.monotonic() + 1.0
        while not select.select([sys.stdin], [], [], max(due - time.monotonic(), 0.0))[0]:
            due += 1.0
            window = monitor.read()
            line = {
                "rows": len(window.rows),
                "tenants": len({key.tenant for key in window.rows.keys}),
                "calls": sum(
                    calls
                    for key, calls in zip(window.rows.keys, window.rows.calls.tolist(), strict=True)
                    if key.layer != HOST_LAYER
                ),
                "lost": window.lost,
                "seconds": window.seconds,
                "probe_percent": window.coverage.cost_percent,
                "kernel_bytes": monitor.kernel_bytes,
            }
            print(json.dumps(line), flush=True)
    finally:
        monitor.close()


if __name__ == "__main__":
    main()
