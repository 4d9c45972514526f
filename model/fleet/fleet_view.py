"""The fleet at one moment: hosts, tenants, problems and jobs across hosts, the worst first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from stalltop.model.chain import SEVERITIES, Severity, loss_step
from stalltop.model.fleet.host_summary import UNKNOWN, HostAddress, HostSummary, ProblemSummary
from stalltop.model.fleet.job_waits import LastRank
from stalltop.model.fleet.likeness import UnlikeDevice

HostState = Literal["live", "silent", "unreadable"]
"""``silent``: its last summary is too old. ``unreadable``: it sends what this program cannot read."""
Urgency = tuple[int, int, int, HostAddress]
_STATES: Final = {"live": 2, "silent": 1, "unreadable": 0}
"""Order of hosts that lose nothing, by their state."""
_SEVERITY_ORDER: Final[dict[str, int]] = {name: at for at, name in enumerate(SEVERITIES)}


@dataclass(frozen=True, slots=True)
class FleetHost:
    """One host, as the fleet knows it."""

    address: HostAddress
    state: HostState
    at: float
    """Unix time of its last message, in seconds, on the server's clock."""
    summary: HostSummary | None = None
    """Its last readable summary."""
    clock_ahead: float | None = None
    """By how many seconds its clock is ahead of the server's; None if the difference is within
    ``fleet_state.CLOCK_SECONDS``."""
    remarks: tuple[str, ...] = ()
    """What else is unusual: silence, its clock, its version, missing windows; one line each."""

    @property
    def lost_ms_per_s(self) -> float:
        """What its open problems cost, ms per second; 0 unless it is live."""
        return self.summary.lost_ms_per_s if self.summary is not None and self.state == "live" else 0.0

    @property
    def worst(self) -> ProblemSummary | None:
        """Its worst open problem; None if it has none, or is not live."""
        problems = self.summary.problems if self.summary is not None and self.state == "live" else ()
        return problems[0] if problems else None

    @property
    def calls_per_s(self) -> float:
        """Outermost calls per second; 0 unless it is live."""
        if self.summary is None or self.state != "live" or self.summary.seconds <= 0:
            return 0.0
        return self.summary.calls / self.summary.seconds

    @property
    def line(self) -> HostLine:
        """What a list of hosts shows of it."""
        summary, worst = self.summary, self.worst
        said = ((worst.summary or worst.title,) if worst is not None else ()) + self.remarks
        return HostLine(
            *self.address,
            self.state,
            self.at,
            "" if worst is None else worst.severity,
            self.lost_ms_per_s,
            self.calls_per_s,
            UNKNOWN if summary is None or self.state != "live" else summary.cpu_percent,
            0 if summary is None else summary.tenants_in_all,
            "; ".join(said),
        )


class HostLine(NamedTuple):
    """What a list of hosts shows of one host."""

    cluster: str
    rack: str
    host: str
    state: str
    """``HostState``."""
    at: float
    """Unix time of its last message, s."""
    severity: str
    """Of its worst problem; '' if it has none, or is not live."""
    lost_ms_per_s: float
    calls_per_s: float
    cpu_percent: float
    """``host_summary.UNKNOWN`` if it is not known."""
    tenants: int
    said: str
    """Its worst problem, and what else is unusual."""

    @property
    def address(self) -> HostAddress:
        """Where it is."""
        return HostAddress(*self[:3])

    @property
    def urgency(self) -> Urgency:
        """Sort key, the worst first."""
        return urgency(self.severity, self.lost_ms_per_s, self.state, self.address)


def urgency(severity: str, lost_ms_per_s: float, state: str, address: HostAddress) -> Urgency:
    """Returns a sort key. Hosts that lose time come first, by the severity of their worst problem and the
    step of their loss, so that noise moves no row; then hosts that cannot be read, are silent, or have no
    problem (``severity`` '')."""
    if not severity:
        return len(SEVERITIES), 0, _STATES.get(state, 0), address
    return _SEVERITY_ORDER.get(severity, 0), -loss_step(lost_ms_per_s), 0, address


@dataclass(frozen=True, slots=True)
class FleetProblem:
    """One cause with one culprit, on any number of hosts."""

    cause: str
    title: str
    severity: Severity
    """The worst of all hosts."""
    culprit_namespace: str
    culprit: str
    """'' if no culprit is known."""
    hosts: tuple[HostAddress, ...]
    """The hosts that have it, first the one that loses most."""
    victims: tuple[str, ...]
    """Names of the tenants that lose time, first the one that loses most."""
    lost_ms_per_s: float
    """On all hosts together."""
    worst_ms_per_s: float
    """On the host that loses most."""
    since: float
    """Unix time at which the first of these hosts saw it, s, on that host's clock."""
    summary: str
    fix: str
    """What the host that loses most says about it, and what helps there."""


@dataclass(frozen=True, slots=True)
class FleetTenant:
    """Tenants of one namespace and name on all hosts."""

    namespace: str
    name: str
    hosts: int
    calls_per_s: float
    busy: float
    """Time in calls, in seconds per second of all threads together."""
    worst_p99_ns: int
    """The largest p99 of its hosts in their last windows: percentiles cannot be averaged. The merged windows
    of ``stalltop rollup`` have the exact p99 of all calls together."""
    worst_host: HostAddress
    lost_ms_per_s: float


@dataclass(frozen=True, slots=True)
class FleetRank:
    """One rank of a job."""

    rank: int
    address: HostAddress
    pid: int
    process: str
    live: bool
    entered: int
    """Collectives entered since the communicator was created."""
    since_entry_seconds: float
    problem: ProblemSummary | None = None
    """The worst problem that its own tenant, or its GPU, has on its host."""
    late_seconds: float | None = None
    """Mean time from the median of the other ranks to its own entry into the newest collectives, s; negative
    if it is early; None if it cannot be compared."""
    median_late_seconds: float | None = None
    """The median of the same."""
    waited_seconds: float | None = None
    """For how long it waited for the last rank of these collectives (``job_waits``)."""


class LeftOut(NamedTuple):
    """How much of a job its digest has no room for (``fleet_digest.bounded``)."""

    ranks: int = 0
    hosts: int = 0
    late: int = 0
    """Ranks for which the others wait."""


_NOTHING: Final = LeftOut()


@dataclass(frozen=True, slots=True)
class FleetJob:
    """One NCCL communicator and its ranks on all hosts."""

    communicator: str
    namespace: str
    tenant: str
    size: int
    """Number of ranks that the communicator has; some may be on hosts that are not traced."""
    ranks: tuple[FleetRank, ...]
    """The ranks that are known, by number."""
    stands_seconds: float = 0.0
    """For how long no known rank has entered a collective, if at least one waits for others; 0: it runs."""
    late: tuple[FleetRank, ...] = ()
    """The ranks for which the others wait. While the job stands: those that have entered fewest collectives.
    While it runs: the one that enters them late, if there is one."""
    late_seconds: float = 0.0
    """By how much that rank of a running job is late per collective, on average."""
    late_error_seconds: float = 0.0
    """Possible error of ``late_seconds``, from the clocks of the hosts."""
    nccl_hashes: str = ""
    """``model.evidence.Rank.nccl_hashes``."""
    waiting_share: float = 0.0
    """Share of the waiting for a last rank that was for that one, 0 to 1."""
    compared: int = 0
    """Number of collectives whose entries were compared; 0: they cannot be compared."""
    compared_seconds: float = 0.0
    """The time of these, ``job_waits.JobWaits.seconds``."""
    compared_error_seconds: float = 0.0
    """By how much the entries of two ranks may be wrong relative to each other, at most."""
    lost_rank_seconds: float = 0.0
    """For how long all ranks together waited for the last one, in ``compared_seconds`` (``job_waits``)."""
    waits_for: tuple[LastRank, ...] = ()
    """The ranks that were last, first the one for which the others waited longest."""
    left_out: LeftOut = _NOTHING
    unlike: tuple[UnlikeDevice, ...] = ()
    """GPUs of its ranks that are unlike the others (``likeness``): a hint, not a cause."""

    @property
    def order(self) -> tuple[FleetRank, ...]:
        """Its ranks in the order in which they usually enter a collective, without those that cannot be
        compared."""
        late = {rank.rank: rank.median_late_seconds for rank in self.ranks}
        known = [rank for rank in self.ranks if late[rank.rank] is not None]
        return tuple(sorted(known, key=lambda rank: (late[rank.rank] or 0.0, rank.rank)))

    @property
    def lost_per_collective(self) -> float:
        """Rank-seconds lost per compared collective; 0 if none is compared."""
        return self.lost_rank_seconds / self.compared if self.compared else 0.0

    @property
    def hosts(self) -> tuple[HostAddress, ...]:
        """The hosts of its known ranks."""
        return tuple(dict.fromkeys(rank.address for rank in self.ranks))


@dataclass(frozen=True, slots=True)
class FleetView:
    """The fleet at one moment."""

    now: float
    """Unix time in seconds, on the server's clock."""
    hosts: tuple[FleetHost, ...] = ()
    tenants: tuple[FleetTenant, ...] = ()
    problems: tuple[FleetProblem, ...] = ()
    jobs: tuple[FleetJob, ...] = ()

    def count(self, state: HostState) -> int:
        """Returns the number of hosts in ``state``."""
        return sum(host.state == state for host in self.hosts)

    def host(self, address: HostAddress) -> FleetHost | None:
        """Returns the host at ``address``; None if there is none."""
        return next((host for host in self.hosts if host.address == address), None)

    def with_tenant(self, namespace: str, name: str) -> tuple[HostAddress, ...]:
        """Returns the hosts that have a tenant, the worst first."""
        return tuple(
            host.address
            for host in self.hosts
            if host.summary is not None
            and any((one.namespace, one.name) == (namespace, name) for one in host.summary.tenants)
        )
