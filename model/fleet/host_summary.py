"""What a host says about itself once a second, in one to two KB: enough for a list of ten thousand hosts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from stalltop.model.chain import Severity

MOST_TENANTS: Final = 12
"""Maximum number of tenants in a summary. The ones that lose most come first."""
MOST_PROBLEMS: Final = 8
"""Maximum number of problems in a summary, the worst first."""
MOST_DEVICES: Final = 16
MOST_RANKS: Final = 64
"""Maximum number of ranks in a summary: 8 GPUs in 8 communicators. Those of world, tensor, pipeline, data and
expert parallelism are 5 or 6; 64 ranks take 3 KB of the message, and 16 KB of its JSON."""
MOST_GAPS: Final = 4
UNKNOWN: Final = -1.0
"""Value of a figure of a device that is not known."""


class HostAddress(NamedTuple):
    """Where a host is. The subject of its messages says this, never their content: the server lets a host
    publish under its own name only."""

    cluster: str
    rack: str
    host: str

    @property
    def text(self) -> str:
        """The address for a person, such as ``prod/rack-7/node-17``."""
        return "/".join(self)


class TenantSummary(NamedTuple):
    """The calls of one tenant in a second."""

    namespace: str
    name: str
    kind: str
    """``model.tenant.Tenant.kind``."""
    calls: int
    """Outermost calls."""
    total_ns: int
    """Time in these calls, all threads together."""
    p99_ns: int
    lost_ms_per_s: float
    """What its open problems cost it."""


class ProblemSummary(NamedTuple):
    """One open problem of a host."""

    id: str
    cause: str
    severity: Severity
    title: str
    namespace: str
    victim: str
    """Name of the tenant that loses time; '' if the whole host does."""
    process: str
    """Name of the process that loses time."""
    operation: str
    culprit_namespace: str
    culprit: str
    """Name of the tenant, process or device at fault; '' if unknown."""
    device: str
    lost_ms_per_s: float
    since: float
    """Unix time in seconds, on the host's clock."""
    summary: str
    fix: str
    """Command or advice; '' if there is none."""
    confidence: float = 0.0
    """``model.chain.Chain.confidence``; 0 from hosts that do not send it."""
    line: str = ""
    """File and line of the code of the victim that loses the time, such as ``loader.py:88``; '' if it is not
    known."""


class DeviceSummary(NamedTuple):
    """One GPU. ``UNKNOWN`` stands for a figure that is not known."""

    label: str
    name: str
    utilization_percent: float
    memory_percent: float
    temperature_celsius: float
    power_watts: float
    sm_clock_mhz: float = UNKNOWN
    throttle_reasons: str = ""
    """``model.devices.device.Device.throttle_reasons``, separated by semicolons."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Its throttle reasons."""
        return tuple(self.throttle_reasons.split("; ")) if self.throttle_reasons else ()


class RankSummary(NamedTuple):
    """One rank of an NCCL communicator (``model.evidence.Rank``)."""

    communicator: str
    rank: int
    ranks: int
    namespace: str
    tenant: str
    pid: int
    process: str
    entered: int
    """Number of collectives that it has entered since the communicator was created."""
    since_entry_ns: int
    """Time since it last entered one, at the end of the window."""
    entries: str = ""
    """When it entered some of them, the same on every host (``model.hosts.collectives``)."""
    device: str = ""
    """Label of the GPU that its process uses; '' if it is not known, or if it uses several."""
    nccl_hashes: str = ""
    """``model.evidence.Rank.nccl_hashes``."""


class WindowGap(NamedTuple):
    """A stretch of time whose windows the host could not pass on; its own recording may have them."""

    start: float
    end: float
    """Unix times in seconds, on the host's clock."""
    reason: str


@dataclass(frozen=True, slots=True)
class HostSummary:
    """One window of one host, in short."""

    end: float
    """Unix time in seconds at which the window ends, on the host's clock."""
    seconds: float
    program: str = ""
    """Version of stalltop."""
    session: str = ""
    """Identifies the run of the tracer: another one counts ``RankSummary.entered`` anew."""
    simulated: bool = False
    tracing: str = ""
    """'' while tracing works; else one line that says why it does not."""
    calls: int = 0
    """Outermost calls of all tenants, also of those that ``tenants`` leaves out."""
    lost_calls: int = 0
    """Calls that no row counts."""
    lost_ms_per_s: float = 0.0
    """What all open problems cost, without those that ``ProblemSummary`` calls information."""
    cost_percent: float = 0.0
    """CPU time of the probes, percent of one CPU."""
    cpu_percent: float = UNKNOWN
    """Busy share of all CPUs."""
    clock_error_ns: int = -1
    """Maximum error of the host's clock as the Linux kernel estimates it; -1: the clock is not
    synchronised."""
    tenants_in_all: int = 0
    problems_in_all: int = 0
    tenants: tuple[TenantSummary, ...] = ()
    problems: tuple[ProblemSummary, ...] = ()
    devices: tuple[DeviceSummary, ...] = ()
    ranks: tuple[RankSummary, ...] = ()
    gaps: tuple[WindowGap, ...] = ()
    """The newest stretches whose windows are missing from the fleet's streams."""
    sent: float = 0.0
    """Unix time in seconds at which this is sent, on the host's clock."""
    round_trip_ns: int = -1
    """How long the server took to answer just before, ns; -1: not known."""
    ranks_in_all: int = 0
    """Number of ranks on the host, also of those that ``ranks`` leaves out; 0 from hosts that do not send
    it."""

    @property
    def rank_devices(self) -> tuple[DeviceSummary, ...]:
        """The GPUs that its ranks use."""
        used = {one.device for one in self.ranks}
        return tuple(one for one in self.devices if one.label in used)

    @property
    def ranks_left_out(self) -> int:
        """Number of ranks that ``ranks`` leaves out."""
        return max(self.ranks_in_all - len(self.ranks), 0)
