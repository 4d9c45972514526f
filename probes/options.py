"""Options that say how to trace this host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from stalltop.model.progress import Progress
from stalltop.probes.budget.limits import Budget
from stalltop.probes.confined.link import Confined
from stalltop.probes.libraries.discovery import START_SECONDS
from stalltop.probes.programs.loading import MEMORY
from stalltop.probes.tenants.host_files import host_files
from stalltop.probes.tracer.kernel_side import KernelSide

BYTES_A_SLOT: Final = 8 << 10
"""There is a slot for this many bytes of memory: 32,768 in 256 MiB. A slot takes 570 bytes, with its owner
and its key; the rest is for its histogram (on average, 1 to 3 KiB) and for all other maps."""
BYTES_A_THREAD: Final = 32 << 10
"""There is a record of a thread for this many bytes of memory: 8,192 in 256 MiB. A record takes 4 KiB."""
StackMode = Literal["off", "slow", "all"]


@dataclass(frozen=True, slots=True)
class MonitorOptions:
    """Options of a `Monitor`."""

    attach: Literal["auto", "multi", "perf"] = "auto"
    """``multi``: by uprobe_multi links; ``perf``: by one perf event for each probe (before Linux 6.6);
    ``auto``: by whichever of the two works."""
    memory: int = MEMORY
    """The most memory, in bytes, that maps may use in the Linux kernel. It decides how many operations and
    threads can be traced at once, too."""
    budget: Budget | None = field(default_factory=Budget.of_host)
    """Limits on the CPU time of probes; None: no limit."""
    host_root: Path = field(default_factory=host_files)
    """Folder with the host's sockets and state files, in which the names of containers, pods and users are
    found."""
    nvml_environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the process that reads the driver's library; for example one that names
    another library."""
    stacks: StackMode = "slow"
    """Of which calls the stack is read: of none, of slow calls and of calls that do not return, or of all
    captured calls."""
    within: str = ""
    """Path of a cgroup below the root of the v2 hierarchy, such as ``/slice``: calls are counted only of
    processes in it and below it. '': of all processes."""
    kernel: Callable[[], KernelSide] | None = None
    """Returns a kernel side that was started earlier. It is called once. If it is None, `begin` starts a
    kernel side."""
    confined: Confined | None = None
    """The confined process, if it was started earlier."""
    search_seconds: float = 2.0 * START_SECONDS
    """For how long the first window waits for the first search for libraries, s. What is found later is
    probed then."""
    progress: Progress | None = None
    """Receives the progress of slow steps at the start."""

    def begin(self) -> KernelSide:
        """Starts the kernel side. Raises TracingError."""
        return KernelSide(
            slots=self.memory // BYTES_A_SLOT,
            threads=self.memory // BYTES_A_THREAD,
            memory=self.memory,
            way=self.attach,
            progress=self.progress,
        )
