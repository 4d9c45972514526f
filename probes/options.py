"""Options that say how to trace this host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from stalltop.model.progress import Progress
from stalltop.probes.budget.limits import Budget
from stalltop.probes.tenants.host_files import host_files
from stalltop.probes.tracer.kernel_side import KernelSide


@dataclass(frozen=True, slots=True)
class MonitorOptions:
    """Options of a `Monitor`."""

    attach: Literal["auto", "multi", "perf"] = "auto"
    """``multi``: by uprobe_multi links; ``perf``: by one perf event for each probe (before Linux 6.6);
    ``auto``: by whichever of the two works."""
    slots: int = 4096
    """Number of histograms in the Linux kernel, 16 KiB each. There is one for each operation of a process on
    each of its devices."""
    threads: int = 8192
    """Maximum number of threads that are traced at once."""
    budget: Budget | None = field(default_factory=Budget.of_host)
    """Limits on the CPU time of probes; None: no limit."""
    host_root: Path = field(default_factory=host_files)
    """Folder with the host's sockets and state files, in which the names of containers, pods and users are
    found."""
    nvml_environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the process that reads the driver's library; for example one that names
    another library."""
    kernel: Callable[[], KernelSide] | None = None
    """Returns a kernel side that was started earlier. It is called once. If it is None, `begin` starts a
    kernel side."""
    progress: Progress | None = None
    """Receives the progress of slow steps at the start."""

    def begin(self) -> KernelSide:
        """Starts the kernel side. Raises TracingError."""
        return KernelSide(slots=self.slots, threads=self.threads, way=self.attach, progress=self.progress)
