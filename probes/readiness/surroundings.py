"""Represents the host for the readiness check. Everything that the check reads goes through one object.

Files are read below ``root``. Everything else is given as plain values and functions, so that tests can
represent any host.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stalltop.model.call_cost import CallCost
from stalltop.model.devices.device import Devices
from stalltop.model.text.clean import clean
from stalltop.probes.nvml.reader import DeviceReader
from stalltop.probes.precompile import is_kept
from stalltop.probes.programs.bcc_interpreter import bcc_version
from stalltop.probes.tenants.host_files import host_files

CUDA_SCAN_SECONDS = 2.0
"""Time limit for searching processes for CUDA libraries, s."""
COSTING_LOOKS, COSTING_SECONDS, COSTING_AT_MOST_SECONDS = 10, 0.3, 30.0
"""How the costs of NVML calls are measured: the number of samples of the GPUs, the seconds between two
samples, and the maximum number of seconds for all samples. This maximum is high, because the costs matter
most if the driver is slow."""
DEVICE_SECONDS = 5.0
"""Time limit for opening the driver and getting an answer, s. If nothing else uses a GPU, some seconds are
usual."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """The terminal that the live screen would use."""

    columns: int
    rows: int
    encoding: str


@dataclass(frozen=True, slots=True)
class CudaUse:
    """CUDA and NCCL libraries that processes have mapped."""

    processes: Mapping[str, int] = field(default_factory=dict)
    """Number of processes that have a library mapped, by base name of the library."""
    hidden: int = 0
    """Number of processes whose mappings could not be read."""
    complete: bool = True
    """False if there were too many processes to read in the time allowed."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Everything that the readiness check reads of a host."""

    root: Path
    release: str
    machine: str
    environment: Mapping[str, str]
    terminal: Terminal | None
    open_files: tuple[int, int]
    """Soft and hard limit of open files; -1 for none."""
    bcc: Callable[[], str]
    """Returns the version of BCC. Raises ImportError, with a reason, if it cannot be used."""
    trial: Callable[[], tuple[str, str]]
    """Traces for a moment. Returns the result, and why compiled programs cannot be cached ('' if they are
    cached). Raises TracingError."""
    kept: Callable[[], bool] = lambda: False
    """Returns whether the next start needs no compiler, and so does not need BCC either."""
    program: Callable[[str], str | None] = shutil.which
    devices: Callable[[], Devices] = Devices
    cuda: Callable[[], CudaUse] = CudaUse
    host_root: Path | None = None
    """Folder with the host's own files; None if that is ``root``."""

    @property
    def files(self) -> Path:
        """Returns the root of the host's sockets and state files."""
        return self.root if self.host_root is None else self.host_root

    def of_host(self, path: str) -> bool:
        """Returns whether something exists at ``path`` below the root of the host's files."""
        try:
            return (self.files / path).exists()
        except OSError:
            return False

    def text(self, path: str) -> str | None:
        """Returns the content of a small file below ``root``, stripped; None if it cannot be read."""
        try:
            return (self.root / path).read_text(errors="replace").strip()
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        """Returns whether something exists at ``path`` below ``root``."""
        try:
            return (self.root / path).exists()
        except OSError:
            return False

    def namespace(self, kind: str) -> int:
        """Returns the inode of this process's namespace of the given kind; 0 if it is not known."""
        try:
            link = os.readlink(self.root / f"proc/self/ns/{kind}")
            return int(link.partition("[")[2].rstrip("]"))
        except (OSError, ValueError):
            return 0


def this_host() -> Surroundings:
    """Returns the host that this program runs on."""
    return Surroundings(
        root=Path("/"),
        release=platform.release(),
        machine=platform.machine(),
        environment=os.environ,
        terminal=_terminal(),
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE),
        bcc=bcc_version,
        kept=is_kept,
        trial=_trace_for_a_moment,
        devices=_devices,
        cuda=_cuda_use,
        host_root=host_files(),
    )


def _terminal() -> Terminal | None:
    if not sys.stdout.isatty():
        return None
    size = shutil.get_terminal_size()
    return Terminal(size.columns, size.lines, sys.stdout.encoding or "")


def _trace_for_a_moment() -> tuple[str, str]:
    from stalltop.probes.tracer.kernel_side import KernelSide

    began = time.monotonic()
    kernel = KernelSide(slots=8, threads=8)
    try:
        seconds = time.monotonic() - began
        ways = {"multi": "uprobe_multi links", "perf": "one perf event for each probe"}
        way = ways.get(kernel.way, kernel.way)
        return (
            f"a function was traced through {way}: every call counted, "
            f"{kernel.probe_time.call_ns / 1000:.2f} µs a call, ready after {seconds:.1f} s"
        ), kernel.not_kept
    finally:
        kernel.close()


def _devices() -> Devices:
    reader = DeviceReader(patience_seconds=DEVICE_SECONDS)
    try:
        return reader.read()
    finally:
        reader.close()


def nvml_costs() -> tuple[CallCost, ...]:
    """Returns what the calls of NVML cost on this host, measured in some samples of its GPUs. Returns none if
    there are no GPUs, or if the driver never answers."""
    reader = DeviceReader(patience_seconds=DEVICE_SECONDS)
    end = time.monotonic() + COSTING_AT_MOST_SECONDS
    try:
        for _ in range(COSTING_LOOKS):
            if not reader.read().devices and not reader.looking:
                return ()
            if time.monotonic() >= end:
                break
            time.sleep(COSTING_SECONDS)
        return reader.costs(max(end - time.monotonic(), DEVICE_SECONDS))
    finally:
        reader.close()


def _cuda_use() -> CudaUse:
    from stalltop.probes.process_maps import libraries_of, pids

    processes: dict[str, int] = {}
    hidden = 0
    end = time.monotonic() + CUDA_SCAN_SECONDS
    for pid in pids():
        if time.monotonic() > end:
            return CudaUse(processes, hidden, complete=False)
        try:
            mapped = libraries_of(pid)
        except PermissionError:
            hidden += 1
            continue
        except OSError:  # The process has just ended.
            continue
        for name in {clean(mapping.path.rpartition("/")[2]) for mapping in mapped}:
            processes[name] = processes.get(name, 0) + 1
    return CudaUse(processes, hidden)
