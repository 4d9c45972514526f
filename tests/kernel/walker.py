"""A process to look for on the screen."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from stalltop.demo.build import Built
from stalltop.demo.caller import Caller
from stalltop.demo.latencies import Latency, write_table


@contextlib.contextmanager
def walking(built: Built, folder: Path) -> Iterator[Caller]:
    """A process called ``walker``: it spends more time in calls than others, so that tables begin with it.

    It costs little, since it sleeps there. ``folder`` is for a file that it needs.
    """
    table = write_table({"cuCtxSynchronize": Latency("sleep", ns=2e7)}, folder / "walker.latencies")
    with Caller(built, table=table, name="walker") as caller:
        caller.start("cudaDeviceSynchronize", threads=32)
        yield caller
