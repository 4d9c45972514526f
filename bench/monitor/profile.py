"""Measures where the monitor's CPU time goes, with and without the screen, by the profiler py-spy."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Final

from bench.measuring.cpu import cpu_ns
from bench.measuring.figures import FigureColumn, measured
from bench.measuring.program import ROOT
from bench.measuring.table import TextTable
from bench.monitor.terminal import OnTerminal
from bench.monitor.workload import OPERATIONS, TENANTS, scenario
from stalltop.demo.build import Built
from stalltop.demo.scenario import Scenario, load_scenario
from stalltop.demo.tenants import DemoTenants
from stalltop.model.errors import StalltopError

SUMMARY: Final = "where the monitor's CPU time goes, with and without the screen, by load (needs py-spy)"
RATES: Final = (1_000, 50_000, 500_000)
"""Target rates of traced calls per second."""
DEMO: Final = "trio"
"""The demo with three tenants, the last load."""
PARTS: Final = (
    (
        "read: rows, octaves, CUDA kernels",
        ("probes/maps/slots", "probes/maps/launches", "probes/maps/functions"),
    ),
    ("read: time off the CPU and its culprits", ("probes/maps/", "probes/evidence")),
    ("read: slow calls and their stacks", ("probes/captured_calls", "probes/stack_reading/stack_reader")),
    ("read: samples, names of functions", ("probes/stack_reading/", "probes/stacks/", "probes/confined/")),
    ("read: files of cgroups and processes", ("probes/host/", "probes/tenants/", "probes/file_state")),
    ("read: libraries, budget, GPUs, the rest", ("probes/",)),
    ("diagnosis: GPU, driver and NCCL", ("diagnosis/gpu/", "diagnosis/nccl/", "diagnosis/usage")),
    ("diagnosis: the host, and whose fault it is", ("diagnosis/host/", "diagnosis/attribution/")),
    ("diagnosis: baselines, wording, the rest", ("diagnosis/",)),
    ("sums: the last ten seconds", ("model/merge/sliding", "model/merge/moving")),
    ("sums: since the start, the past, problems", ("model/merge/", "tui/reading/")),
    ("screen: Textual", ("/textual/", "/rich/")),
    ("screen: tables", ("tui/tables/", "tui/columns/", "tui/views/", "widgets/table")),
    ("screen: graphs, panels, lines", ("tui/", "widgets/")),
)
"""By part: text in the paths of its files. A sample belongs to the part of its innermost function that has
one; the first part whose text is in the path counts. Files that many parts use have none."""
OTHER: Final = "Python, timers, all else"
ALL: Final = "all"
OUTSIDE: Final = "outside of Python's lock: system calls, threads"
IN_KERNEL: Final = "of all: in the Linux kernel"
_PROFILER: Final = "py-spy"
_HZ: Final = 250
_OPTIONS: Final = ("--gil", "--full-filenames", "-f", "raw", "-r", str(_HZ))
_SETTLE_SECONDS: Final = 15.0
_FRAME: Final = re.compile(r"\((/[^()]*):\d+\)")


def run(built: Built, folder: Path, *, quick: bool) -> list[TextTable]:
    """Measures and returns the table. Raises StalltopError."""
    profiler = shutil.which(_PROFILER, path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if profiler is None:
        raise StalltopError(f"{_PROFILER} is not installed", f"{sys.executable} -m pip install {_PROFILER}")
    seconds = 10.0 if quick else 25.0
    loads: dict[str, Scenario] = {f"{rate // 1000:,} k calls/s": scenario(rate) for rate in RATES}
    loads[f"demo {DEMO}"] = load_scenario(DEMO)
    found = {}
    for load, tenants in loads.items():
        with DemoTenants(tenants, built=built):
            for screen in (True, False):
                kind = f"{load}, {'screen' if screen else 'no screen'}"
                print(f"profile: {kind}", file=sys.stderr)
                with _shown() if screen else _bare() as pid:
                    time.sleep(_SETTLE_SECONDS)
                    found[kind] = _parts_ms(profiler, pid, seconds, folder)
    kinds = sorted(found, key=lambda kind: kind.endswith("no screen"))
    table = TextTable(
        "profile: CPU time in ms per second, monitor at 1 Hz",
        ("part", *(FigureColumn(kind, "ms/s") for kind in kinds)),
    )
    for part in (*(name for name, _ in PARTS), OTHER, OUTSIDE, ALL, IN_KERNEL):
        table.add(part, *(measured(found[kind].get(part, 0.0), ".1f") for kind in kinds))
    table.notes += [
        "",
        f"k calls/s: {TENANTS} tenants x {OPERATIONS} operations",
        f"parts: by {_PROFILER}, {_HZ} samples/s of the thread that holds Python's lock; a sample belongs",
        "to the innermost function that has a part; scaled to all if they are more, because a thread",
        "that waits for a CPU is sampled, too",
        "all: CPU time without the profiler, half of the time before it and half after it; outside: what the",
        "parts leave of it",
    ]
    return [table]


@contextlib.contextmanager
def _shown() -> Iterator[int]:
    with OnTerminal([sys.executable, "-P", "-m", "stalltop", "live"], {}) as program:
        program.wait_for("LIVE")
        yield program.pid
        program.leave()


@contextlib.contextmanager
def _bare() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-m", "bench.tracing.headless"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
    ) as process:
        try:
            yield process.pid
        finally:
            process.communicate(timeout=30.0)


def _parts_ms(profiler: str, pid: int, seconds: float, folder: Path) -> dict[str, float]:
    """Returns the CPU time of process ``pid`` by part, ms per second."""
    before = _spent_ms(pid, seconds / 2)
    raw = folder / "samples"
    told = subprocess.run(
        [profiler, "record", *_OPTIONS, "-p", str(pid), "-d", f"{seconds:.0f}", "-o", str(raw)],
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode:
        raise StalltopError(f"{_PROFILER} failed: {told.stderr.strip()[-300:]}")
    # The first minute takes more than the next: the profile is between two measurements.
    both = zip(before, _spent_ms(pid, seconds / 2), strict=True)
    all_ms, system_ms = (fmean(pair) for pair in both)
    return scaled(parts_of(raw.read_text()), seconds, all_ms) | {ALL: all_ms, IN_KERNEL: system_ms}


def _spent_ms(pid: int, seconds: float) -> tuple[float, float]:
    """Returns the CPU time that process ``pid`` spends, and the part of it in the Linux kernel, ms per
    second."""
    whole, system, began = cpu_ns(pid), _system_ns(pid), time.monotonic()
    time.sleep(seconds)
    passed = (time.monotonic() - began) * 1e6
    return (cpu_ns(pid) - whole) / passed, (_system_ns(pid) - system) / passed


def scaled(samples: Mapping[str, int], seconds: float, all_ms: float) -> dict[str, float]:
    """Returns the CPU time by part, ms per second, that together is ``all_ms``."""
    found = {part: count * 1000 / _HZ / seconds for part, count in samples.items()}
    sampled = sum(found.values())
    if sampled > all_ms:
        found = {part: ms * all_ms / sampled for part, ms in found.items()}
    return found | {OUTSIDE: max(all_ms - sampled, 0.0)}


def _system_ns(pid: int) -> float:
    """Returns the CPU time that a process has spent in the Linux kernel, by the kernel's clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[12]) / os.sysconf("SC_CLK_TCK") * 1e9


def parts_of(raw: str) -> Counter[str]:
    """Returns the number of samples of each part. ``raw`` is what py-spy writes: a line for each stack, with
    its functions from the outermost to the innermost, and a number of samples."""
    found: Counter[str] = Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        found[_part(_FRAME.findall(stack))] += int(count)
    return found


def _part(files: list[str]) -> str:
    for file in reversed(files):
        for part, texts in PARTS:
            if any(text in file for text in texts):
                return part
    return OTHER
