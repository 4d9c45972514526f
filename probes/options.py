"""How to trace this host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from stalltop.model.progress import Progress
from stalltop.probes.tenants.host_files import host_files
from stalltop.probes.tracer.kernel_side import KernelSide


@dataclass(frozen=True, slots=True)
class MonitorOptions:
    """How to trace."""

    attach: Literal["auto", "multi", "perf"] = "auto"
    """``multi``: uprobe_multi links; ``perf``: a perf event each (before Linux 6.6); ``auto``: either."""
    slots: int = 4096
    """Histograms in the kernel, 16 KiB each: one for each operation of a process on each of its devices."""
    threads: int = 8192
    """Threads that may be traced at once."""
    host_root: Path = field(default_factory=host_files)
    """Where the host's sockets and state files are, by which containers, pods and users have names."""
    nvml_environment: Mapping[str, str] = field(default_factory=dict)
    """What is set for the process that reads the driver's library, such as where another one is."""
    kernel: Callable[[], KernelSide] | None = None
    """Gives the kernel's part where that was begun before; called once. None: it is made."""
    progress: Progress | None = None
    """Is told what takes a while at the start."""

    def begin(self) -> KernelSide:
        """Make the kernel's part. Raises CannotTrace."""
        return KernelSide(slots=self.slots, threads=self.threads, way=self.attach, progress=self.progress)
