"""A causal chain: what was lost, by what, whose fault that is, and what to do about it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from stalltop.model.row_key import RowKey

Severity = Literal["critical", "high", "medium", "low", "info"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
"""The worst first. ``info`` is no fault: what a workload is bound by."""

Role = Literal["effect", "mechanism", "culprit", "reason", "factor"]


@dataclass(frozen=True, slots=True)
class Link:
    """One step of a chain, from the effect to its root."""

    role: Role
    """effect: what is slow; mechanism: where its time went; culprit: who took it; reason: why that one was
    held up in its turn; factor: what makes it worse."""
    text: str
    """One line for a person, without the figures below where these say it all."""
    share: float | None = None
    """Part of the effect's loss that goes this way, 0 to 1; None where it is not measured."""
    ns_per_s: float | None = None
    """Time it stands for, ns a second."""
    tenant: str = ""
    """Id of the tenant that the step speaks of; empty for the host itself."""
    pid: int = 0
    process: str = ""
    device: str = ""
    """Block device, GPU or network that it speaks of."""
    depth: int = 1
    """Steps from the effect (0): links of one depth stand side by side below the one before them."""

    def plus(self, other: Link) -> Link:
        """This step with what ``other`` stands for besides: the same step, of another loss."""
        share, ns_per_s = self.share, self.ns_per_s
        if share is not None and other.share is not None:
            share = min(share + other.share, 1.0)
        if ns_per_s is not None and other.ns_per_s is not None:
            ns_per_s += other.ns_per_s
        return replace(self, share=share, ns_per_s=ns_per_s)


@dataclass(frozen=True, slots=True)
class Fix:
    """Something that helps."""

    text: str
    """What to do, one line; names the actual process, cgroup, CPU set, device or setting."""
    command: str = ""
    """To type on this host, where there is one."""
    look: bool = False
    """Whether the command only shows more about the fault, and changes nothing."""


@dataclass(frozen=True, slots=True)
class Chain:
    """One fault, or one thing to know, followed over time."""

    id: str
    """Stays the same as long as the chain is open and when it opens again: cause, tenant, and what is hit."""
    cause: str
    """A key of ``diagnosis.causes.CAUSES``."""
    title: str
    """The cause in a few words."""
    severity: Severity
    summary: str
    """One line: who loses what to whom."""
    tenant: str
    """Id of the tenant that loses; empty where the whole host does."""
    pid: int
    process: str
    layer: str
    operation: str
    """What it loses it in; empty where it is no operation."""
    lost_ms_per_s: float
    confidence: float
    """0 to 1: how much of the loss the links account for, and how sure their signal is."""
    links: tuple[Link, ...]
    fixes: tuple[Fix, ...]
    unknown: tuple[str, ...] = ()
    """What is not known about it, one line each."""
    p99_ns: int | None = None
    normal_p99_ns: int | None = None
    """Learned from healthy windows; None before."""
    calls: int = 0
    rows: tuple[RowKey, ...] = ()
    """The rows it speaks of."""
    since: float = 0.0
    """Unix time in seconds: when it was first seen."""
    seen: float = 0.0
    """When it was last seen."""
    open: bool = True
    """Whether it still goes on."""

    @property
    def identity(self) -> str:
        """Its id, without what is put behind that of an earlier time once the chain has opened again."""
        return self.id.removesuffix(f"@{self.since:.0f}")

    @property
    def culprits(self) -> tuple[Link, ...]:
        """Who is to blame, each once, the first one most; may be empty."""
        found: dict[tuple[str, int, str, str], Link] = {}
        told = 0
        for link in self.links:
            if link.role == "culprit":
                told += 1
                key = link.tenant, link.pid, link.process, link.device
                found[key] = found[key].plus(link) if key in found else link
        several = len(found) < told  # of several losses: then they have no order yet
        return tuple(sorted(found.values(), key=lambda link: -(link.ns_per_s or 0.0) if several else 0.0))


def worst_first(chain: Chain) -> tuple[bool, int, int, float, str]:
    """Sort key, the same wherever chains are listed or judged: open ones first, by severity, by steps of loss
    (``loss_step``), the newest first. Then those that are over, the last one first."""
    if not chain.open:
        return True, 0, 0, -chain.seen, chain.id
    return False, SEVERITIES.index(chain.severity), -loss_step(chain.lost_ms_per_s), -chain.since, chain.id


def loss_step(lost_ms_per_s: float) -> int:
    """A loss in half decades: below 1 ms a second 0, to 3.2 ms 1, to 10 ms 2, and so on. Measured again, the
    same loss mostly stays in its step; one that is four times as large never does."""
    return math.floor(2 * math.log10(lost_ms_per_s)) + 1 if 1 <= lost_ms_per_s < math.inf else 0
