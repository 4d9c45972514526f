"""Runs a process that makes calls all the time, which tests look for on the screen."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from stalltop.demo.build import Built
from stalltop.demo.caller import Caller
from stalltop.demo.latencies import Latency, write_table


@contextlib.contextmanager
def walking(built: Built, folder: Path) -> Iterator[Caller]:
    """Run a process ``walker`` that spends more time in calls than others, so that it leads the tables.

    The process costs little CPU time, since its calls sleep. Writes a file that it needs into ``folder``.
    """
    table = write_table({"cuCtxSynchronize": Latency("sleep", ns=2e7)}, folder / "walker.latencies")
    with Caller(built, table=table, name="walker") as caller:
        caller.start("cudaDeviceSynchronize", threads=32)
        yield caller
