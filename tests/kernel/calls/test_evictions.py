"""Tests that the entries that a full table of the Linux kernel forgets are counted and told."""

from __future__ import annotations

from pathlib import Path

from stalltop.probes.layout import LOOKED_UP_FUNCTIONS, Evicting
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions
from stalltop.probes.programs.compiled import possible_cpus
from tests.kernel.children import Child, compile_library
from tests.kernel.processes.watched import WatchedMonitor

MORE = 5_000
LIBRARY = """
int cuInit(unsigned flags) { __asm__ volatile(""); return 0; }
int cuLaunchKernel(void *function) { __asm__ volatile(""); return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name)
{
    static unsigned long last;
    static volatile char read; /* the page of the name has to be in memory */
    read = *name;
    last += 16;
    *function = (void *)last;
    return 0;
}
int look_up(long times)
{
    void *function;
    while (times--)
        cuModuleGetFunction(&function, (void *)0, "kernel");
    return 0;
}
"""


def test_names_that_a_full_table_forgets_are_counted(tmp_path: Path) -> None:
    library = compile_library(LIBRARY, tmp_path / "libcuda.so.1")
    monitor = Monitor(MonitorOptions())
    try:
        watched = WatchedMonitor(monitor)
        assert monitor._kernel is not None
        turnover = monitor._kernel._programs.turnovers[Evicting.LOOKED_UP]
        with Child() as child:
            child.do("load", str(library))
            watched.until(lambda: watched.traces(library), "the library probed")
            child.do("call", str(library), "look_up", 1, LOOKED_UP_FUNCTIONS)
            assert watched.read().loss["evicted"] == 0
            child.do("call", str(library), "look_up", 1, MORE)
            window = watched.read()
        assert int(turnover["added"]) == LOOKED_UP_FUNCTIONS + MORE
        assert MORE - 128 * possible_cpus() <= window.loss["evicted"] <= MORE
        (told,) = [gap for gap in window.coverage.missing if "looked up" in gap.what]
        assert told.what == "some CUDA kernels that were looked up"
        assert f"the table of {LOOKED_UP_FUNCTIONS:,} was full" in told.reason
        assert watched.read().loss["evicted"] == 0
    finally:
        monitor.close()
