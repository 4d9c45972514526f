"""Chooses which figures the graphs show: those that the user wants, or those that fit the worst problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from stalltop.model.chain import Chain
from stalltop.tui.graphs.figures import IDS, MOST
from stalltop.tui.settings.settings import AUTO, NONE

HELD_SECONDS = 10.0
"""The figures for a problem stay for at least this many seconds. The figures shown without a problem change
as soon as there is one."""
USUAL: Final = ("gpu", "calls", "cpu", "network", "gpu_memory", "run_queue", "power")
"""The figures while there is no problem, the most important first: of GPUs, of calls, of the host. If figures
for a problem are not known, the first of these replace them."""
_CLOCKS = ("problems", "clocks", "power")
_MEMORY = ("problems", "gpu_memory", "p99")
_CPU = ("problems", "run_queue", "p99")
_DISK = ("problems", "disk", "disk_bytes", "p99")
_RANKS = ("problems", "late_rank", "p99")
_GPU = ("problems", "gpu", "p99")
_NETWORK = ("problems", "network", "p99")
_HANGS = ("problems", "gpu", "calls")
_CALLS = ("problems", "p99", "calls")
OF_CAUSE: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(("gpu_power", "gpu_thermal", "gpu_hardware_slowdown", "gpu_clocks"), _CLOCKS),
        **dict.fromkeys(
            ("allocation_storm", "memory_churn", "gpu_memory_full", "memory_leak", "gpu_not_given"), _MEMORY
        ),
        **dict.fromkeys(
            ("cpu_contention", "own_threads", "cfs_throttling", "cpu_pinning", "tracer", "interrupts"), _CPU
        ),
        **dict.fromkeys(("loader_cpu", "host_bound", "stopped", "reclaim"), _CPU),
        **dict.fromkeys(("loader_disk", "slow_disk", "fsync", "major_faults"), _DISK),
        **dict.fromkeys(
            ("gpu_neighbours", "gpu_bound", "sync_storm", "gpu_lost", "gpu_xid", "gpu_ecc"), _GPU
        ),
        **dict.fromkeys(("tcp_retransmits", "remote_service"), _NETWORK),
        **dict.fromkeys(("nccl_straggler", "late_rank"), _RANKS),
        **dict.fromkeys(("nccl_hang", "hung_call"), _HANGS),
    }
)
"""The figures for a problem, by its cause; other causes use ``_CALLS``."""


def figures_for(chain: Chain | None) -> tuple[str, ...]:
    """Return the ids of figures, the most important first: those that fit ``chain``, the worst problem, then
    the usual ones. None: there is no problem."""
    if chain is None:
        return USUAL
    fitting = OF_CAUSE.get(chain.cause, _CALLS)
    return (*fitting, *(name for name in USUAL if name not in fitting))


def chosen(
    wanted: Sequence[str],
    chain: Chain | None,
    known: Callable[[str], bool],
    varies: Callable[[str], bool] = lambda name: True,
) -> tuple[str, ...]:
    """Return the ids of the figures to show. ``wanted`` are those that the user chose; ``known`` returns
    whether a figure has a value, ``varies`` whether it was not the same all the time. Figures that do not
    vary come last, except the first one: a number tells as much as their graph. They are not left out,
    because the number of graphs would change when they vary."""
    if NONE in wanted:
        return ()
    if AUTO not in wanted:
        return tuple(name for name in IDS if name in wanted)[:MOST]
    there = [name for name in figures_for(chain) if known(name)]
    return tuple(sorted(there, key=lambda name: name != there[0] and not varies(name))[:MOST])


def toggled(wanted: Sequence[str], name: str) -> tuple[str, ...]:
    """Return ``wanted`` after the user chose ``name``: a figure is added or removed. Of more than ``MOST``
    figures the first one is removed. ``AUTO`` and ``NONE`` replace all others."""
    if name in (AUTO, NONE):
        return (name,)
    figures = [one for one in wanted if one not in (AUTO, NONE)]
    figures = [one for one in figures if one != name] if name in figures else [*figures, name]
    return tuple(figures[-MOST:]) or (NONE,)


@dataclass(slots=True)
class HeldChoice:
    """Holds the worst problem for which the graphs were chosen, so that they do not change every second."""

    chain: Chain | None = None
    _since: float = float("-inf")

    def hold(self, worst: Chain | None, now: float, *, live: bool = True) -> Chain | None:
        """Return the problem whose figures to show at ``now``, Unix time. ``worst`` is the worst problem at
        that time. While ``live``, an earlier one stays for ``HELD_SECONDS``."""
        same = (worst.id if worst else None) == (self.chain.id if self.chain else None)
        if same:
            self.chain = worst
        elif not live or self.chain is None or not 0.0 <= now - self._since < HELD_SECONDS:
            self.chain, self._since = worst, now
        return self.chain
