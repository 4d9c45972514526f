"""Causal chains: what is slow, where the time goes, which process or tenant causes the loss, and what
helps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from stalltop.model.row_key import RowKey

Severity = Literal["critical", "high", "medium", "low", "info"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
"""Severities, worst first. ``info`` marks no fault, but a fact: which resource limits a workload."""
SEVERITY_OF_SHARE: Final[tuple[tuple[float, Severity], ...]] = (
    (0.5, "critical"),  # the program runs at half its speed or less
    (0.2, "high"),  # a fifth of the threads' time is lost
    (0.05, "medium"),  # more than the difference between two runs of one program
)
"""(least share, severity): how severe a loss is if it takes at least this share of the losing threads' time.
A smaller loss has the least severity of its cause."""
SEVERITY_SECONDS: Final = 5.0
"""Seconds for which the screen shows the severity of a problem after it became less severe."""

ESTIMATED: Final = frozenset(("gpu_power", "gpu_thermal", "gpu_hardware_slowdown", "gpu_clocks"))
"""Ids of the causes whose loss is estimated from how far the clocks of a device are below their highest."""
UNSEEN_SECONDS: Final = 1.5
"""A chain whose cause was not seen for longer than this has no present loss."""
OTHERS: Final = "others"
"""Process name of a link that stands for several culprits together."""

Role = Literal["effect", "line", "mechanism", "culprit", "reason", "factor"]


@dataclass(frozen=True, slots=True)
class Link:
    """One step of a chain, from the effect to its root."""

    role: Role
    """effect: what is slow; line: which line of source code makes the slow calls, with its share of their
    time; mechanism: where the time of the effect goes; culprit: who causes the mechanism;
    reason: why the culprit itself is delayed; factor: what makes the loss worse."""
    text: str
    """Description of the step for a person, in one line, without the figures that the fields below hold."""
    share: float | None = None
    """Part of the effect's loss that this step explains, 0 to 1; None if not measured."""
    ns_per_s: float | None = None
    """Loss that this step explains, in ns per second; None if not measured."""
    tenant: str = ""
    """Id of the tenant that the step is about; '' for the host itself."""
    pid: int = 0
    process: str = ""
    device: str = ""
    """Block device, GPU or network that the step is about."""
    depth: int = 1
    """Number of steps from the effect; the effect itself has depth 0. Consecutive links of equal depth are
    siblings: they belong to the nearest link above them that has a smaller depth."""

    @property
    def of_others(self) -> bool:
        """True if this link stands for all culprits that the other links of the chain do not name."""
        return self.role == "culprit" and self.process == OTHERS and not self.tenant

    def plus(self, other: Link) -> Link:
        """Returns this link with the share and the time of ``other`` added. ``other`` describes the same step
        (such as the same culprit), but explains another loss."""
        share, ns_per_s = self.share, self.ns_per_s
        if share is not None and other.share is not None:
            share = min(share + other.share, 1.0)
        if ns_per_s is not None and other.ns_per_s is not None:
            ns_per_s += other.ns_per_s
        return replace(self, share=share, ns_per_s=ns_per_s)


@dataclass(frozen=True, slots=True)
class Fix:
    """A remedy for a problem."""

    text: str
    """What to do, in one line; names the actual process, cgroup, CPU set, device or setting."""
    command: str = ""
    """Shell command to type on this host; '' if there is none."""
    look: bool = False
    """True if the command only shows details of the problem."""
    short: str = ""
    """``text`` as a complete sentence of a few words, for the second line of the screen; of a ``look``: what
    its command shows. '' if ``text`` is short itself, or if `model.actions.catalogue.briefly` knows it."""


@dataclass(frozen=True, slots=True)
class Chain:
    """One problem, or one fact about a workload (severity ``info``), followed over time."""

    id: str
    """Consists of cause, tenant and, if the tenant can have several such chains, a device, process or the
    like. A chain that opens again has the same id. The id of the earlier, closed occurrence then gets the
    suffix ``@`` and the field ``since`` in seconds."""
    cause: str
    """A key of ``diagnosis.causes.CAUSES``."""
    title: str
    """The cause in a few words."""
    severity: Severity
    summary: str
    """One line: which tenant loses time, where, and to whom."""
    tenant: str
    """Id of the tenant that loses time; '' if the whole host does."""
    pid: int
    process: str
    layer: str
    operation: str
    """Operation that is slow; '' if the loss is not in one operation."""
    lost_ms_per_s: float
    confidence: float
    """0 to 1: how much of the loss the links explain, and how reliable their evidence is."""
    links: tuple[Link, ...]
    fixes: tuple[Fix, ...]
    unknown: tuple[str, ...] = ()
    """What could not be determined about the problem, one line each."""
    p99_ns: int | None = None
    normal_p99_ns: int | None = None
    """Baseline p99, learned from windows without problems; None until it is learned."""
    calls: int = 0
    rows: tuple[RowKey, ...] = ()
    """Keys of the rows that the chain is about."""
    since: float = 0.0
    """Unix time in seconds at which the problem was first seen."""
    seen: float = 0.0
    """Unix time in seconds at which the problem was last seen."""
    open: bool = True
    """False once the problem is over."""

    def is_seen(self, at: float) -> bool:
        """Returns whether the cause was seen shortly before the Unix time ``at``. If not, nobody loses time
        by it now. The chain stays open for some seconds more, because many causes come and go."""
        return at - self.seen <= UNSEEN_SECONDS

    @property
    def identity(self) -> str:
        """The id without the suffix ``@since``: the same for all occurrences of a chain."""
        return self.id.removesuffix(f"@{self.since:.0f}")

    @property
    def remedy(self) -> Fix | None:
        """The fix whose command is the one to type: the first that changes something, else the first that
        shows more; None if no fix has a command."""
        typed = sorted((fix for fix in self.fixes if fix.command), key=lambda fix: fix.look)
        return next(iter(typed), None)

    def is_for_owner(self, fix: Fix) -> bool:
        """Returns whether ``fix`` is a change that only the owner of a program can make: no command does it,
        and the culprit is a tenant, not the host or a device."""
        culprit = next(iter(self.culprits), None)
        return not fix.command and culprit is not None and bool(culprit.tenant)

    @property
    def harms_only_itself(self) -> bool:
        """Whether the tenant that loses time is the only culprit."""
        return bool(self.tenant) and {link.tenant for link in self.culprits} == {self.tenant}

    @property
    def estimated(self) -> bool:
        """True if the lost time is not measured, but estimated from the clocks of a device."""
        return self.cause in ESTIMATED

    @property
    def slower_percent(self) -> float | None:
        """By how much the p99 exceeds its baseline, percent; None if it does not, or if the p99 or its
        baseline is unknown."""
        if self.p99_ns is None or not self.normal_p99_ns or self.p99_ns <= self.normal_p99_ns:
            return None
        return 100 * (self.p99_ns / self.normal_p99_ns - 1)

    @property
    def culprits(self) -> tuple[Link, ...]:
        """Links of role ``culprit``. Several links of one culprit are added up into one. The culprit that the
        summary names comes first; the tuple may be empty."""
        found: dict[tuple[str, int, str, str], Link] = {}
        for link in self.links:
            if link.role == "culprit":
                key = link.tenant, link.pid, link.process, link.device
                found[key] = found[key].plus(link) if key in found else link
        return tuple(found.values())


def worst_first(chain: Chain) -> tuple[bool, int, int, float, str]:
    """Sort key for lists of chains. Open chains come first: by severity, then by ``loss_step`` (greatest
    first), then by ``since`` (oldest first, because one fault may cause further ones). Closed chains follow,
    by ``seen`` (latest first)."""
    if not chain.open:
        return True, 0, 0, -chain.seen, chain.id
    return False, SEVERITIES.index(chain.severity), -loss_step(chain.lost_ms_per_s), chain.since, chain.id


def uncontradicted(chains: Iterable[Chain]) -> tuple[Chain, ...]:
    """Returns ``chains`` without those that call a tenant GPU-bound, which is healthy, while another open
    chain says that this tenant loses time through a fault."""
    chains = tuple(chains)
    faults = [chain for chain in chains if chain.open and chain.severity != "info"]
    suffering = {chain.tenant for chain in faults} | {row.tenant for chain in faults for row in chain.rows}
    return tuple(chain for chain in chains if chain.cause != "gpu_bound" or chain.tenant not in suffering)


def information_last(chain: Chain) -> tuple[bool, tuple[bool, int, int, float, str]]:
    """Sort key for reports: as ``worst_first``, but all chains of severity ``info`` come last."""
    return chain.severity == "info", worst_first(chain)


def in_window(chain: Chain, start: float) -> bool:
    """Returns whether ``chain`` is open, or ended after ``start`` (Unix seconds), the start of a window."""
    return chain.open or chain.seen > start


def loss_step(lost_ms_per_s: float) -> int:
    """Returns the step of a loss on a logarithmic scale with four steps per factor of 10: 0 below 1 ms/s, 1
    up to 1.8 ms/s, 2 up to 3.2 ms/s, and so on.

    Lists sorted by this step keep a steady order: noise rarely changes the step of a loss, but a loss that
    doubles (from 1 ms/s on) always gets another step.
    """
    return math.floor(4 * math.log10(lost_ms_per_s)) + 1 if 1 <= lost_ms_per_s < math.inf else 0
