"""Collects the summaries of all hosts, and says what they mean together. No I/O: the caller passes messages
and times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from stalltop.model.chain import SEVERITIES, loss_step
from stalltop.model.fleet.fleet_jobs import jobs_of
from stalltop.model.fleet.fleet_view import FleetHost, FleetProblem, FleetTenant, FleetView, HostState
from stalltop.model.fleet.host_summary import HostAddress, HostSummary, ProblemSummary, TenantSummary
from stalltop.model.fleet.rank_entries import RankEntries
from stalltop.model.text.words import SEVERAL

SILENT_SECONDS: Final = 5.0
"""A host without a message for longer than this is silent. Hosts send one a second."""
FORGET_SECONDS: Final = 3600.0
"""A host that has been silent for longer than this is forgotten."""
CLOCK_SECONDS: Final = 2.0
"""A host whose clock differs from the server's by more than this is shown as one with another clock. A
summary arrives up to a second after the end of its window."""
MOST_HOSTS: Final = 65_536
"""Maximum number of hosts. The server accepts as many connections."""
_STATES: Final[Mapping[HostState, int]] = {"live": 2, "unreadable": 0, "silent": 1}
"""Order of hosts that lose nothing, by their state."""


@dataclass(slots=True)
class _KnownHost:
    summary: HostSummary | None = None
    at: float = 0.0
    fault: str = ""
    """Why its last message cannot be read; '' if it can."""
    ahead: float = 0.0


class FleetState:
    """The last summary of each host. Not thread-safe."""

    def __init__(self) -> None:
        self._hosts: dict[HostAddress, _KnownHost] = {}
        self._entries = RankEntries()

    def __len__(self) -> int:
        return len(self._hosts)

    def take(self, address: HostAddress, summary: HostSummary, at: float) -> None:
        """Takes a summary that the server received at the Unix time ``at``. Older ones than the last one are
        ignored: a server that recovers may deliver them again."""
        known = self._known(address)
        if known is not None and at >= known.at:
            known.summary, known.at, known.fault, known.ahead = summary, at, "", summary.end - at
            self._entries.take(address, summary, at)

    def refuse(self, address: HostAddress, reason: str, at: float) -> None:
        """Notes that a message of a host cannot be read. ``reason`` follows the name of the host in a
        sentence, such as ``sends no summary: …``."""
        known = self._known(address)
        if known is not None and at >= known.at:
            known.at, known.fault = at, reason

    def view(self, now: float) -> FleetView:
        """Returns the fleet at the Unix time ``now``, on the server's clock."""
        for address in [one for one, known in self._hosts.items() if now - known.at > FORGET_SECONDS]:
            del self._hosts[address]
        newest = max((_version(known) for known in self._hosts.values()), default=())
        hosts = [_host(address, known, now, newest) for address, known in self._hosts.items()]
        live = [host for host in hosts if host.state == "live" and host.summary is not None]
        return FleetView(
            now,
            tuple(sorted(hosts, key=_worst_first)),
            _tenants(live),
            _problems(live),
            jobs_of(hosts, self._entries),
        )

    def _known(self, address: HostAddress) -> _KnownHost | None:
        if address not in self._hosts and len(self._hosts) >= MOST_HOSTS:
            return None
        return self._hosts.setdefault(address, _KnownHost())


def _version(known: _KnownHost) -> tuple[int, ...]:
    """Returns the release in a summary as numbers; () if there is none."""
    text = "" if known.summary is None else known.summary.program
    numbers = text.split("+")[0].split(".")
    return tuple(map(int, numbers)) if all(one.isdecimal() for one in numbers) else ()


def _host(address: HostAddress, known: _KnownHost, now: float, newest: tuple[int, ...]) -> FleetHost:
    age, summary = now - known.at, known.summary
    state: HostState = "silent" if age > SILENT_SECONDS else "unreadable" if known.fault else "live"
    remarks = []
    if state == "silent":
        remarks.append(f"silent for {age:.0f} s")
    if known.fault:
        remarks.append(known.fault)
    ahead = known.ahead if summary is not None and abs(known.ahead) > CLOCK_SECONDS else None
    if ahead is not None:
        remarks.append(f"its clock is {abs(ahead):,.0f} s {'ahead' if ahead > 0 else 'behind'}")
    if summary is not None:
        version = _version(known)
        if version and version < newest:
            remarks.append(f"runs stalltop {summary.program}, others a newer one")
        if summary.tracing:
            remarks.append(f"does not trace: {summary.tracing}")
        if summary.lost_calls:
            remarks.append(f"{summary.lost_calls:,} calls not counted")
        remarks += [f"{gap.end - gap.start:.0f} s of windows missing: {gap.reason}" for gap in summary.gaps]
    return FleetHost(address, state, known.at, summary, ahead, tuple(remarks))


def _worst_first(host: FleetHost) -> tuple[int, int, int, HostAddress]:
    """Sort key. Hosts that lose time come first, by the severity of their worst problem and the step of their
    loss, so that noise moves no row; then hosts that cannot be read, are silent, or have no problem."""
    worst = host.worst
    if worst is None:
        return len(SEVERITIES), 0, _STATES[host.state], host.address
    return SEVERITIES.index(worst.severity), -loss_step(host.lost_ms_per_s), 0, host.address


class _On(NamedTuple):
    address: HostAddress
    problem: ProblemSummary


def _problems(hosts: Iterable[FleetHost]) -> tuple[FleetProblem, ...]:
    """Groups the problems of ``hosts`` by cause and culprit. Without a culprit, problems of one cause are one
    group."""
    groups: dict[tuple[str, str, str], list[_On]] = {}
    for host in hosts:
        assert host.summary is not None
        for one in host.summary.problems:
            key = one.cause, one.culprit_namespace, SEVERAL.sub("", one.culprit)
            groups.setdefault(key, []).append(_On(host.address, one))
    found = []
    for (cause, namespace, culprit), group in groups.items():
        group.sort(key=lambda on: (-on.problem.lost_ms_per_s, on.address))
        worst = group[0].problem
        found.append(
            FleetProblem(
                cause,
                worst.title,
                min((on.problem.severity for on in group), key=SEVERITIES.index),
                namespace,
                culprit,
                tuple(dict.fromkeys(on.address for on in group)),
                tuple(dict.fromkeys(on.problem.victim for on in group if on.problem.victim)),
                sum(on.problem.lost_ms_per_s for on in group),
                min(on.problem.since for on in group),
                worst.summary,
                worst.fix,
            )
        )
    return tuple(sorted(found, key=_worst_problem_first))


def _worst_problem_first(problem: FleetProblem) -> tuple[int, int, float, str, str]:
    lost = -loss_step(problem.lost_ms_per_s)
    return SEVERITIES.index(problem.severity), lost, problem.since, problem.cause, problem.culprit


class _OnHost(NamedTuple):
    host: FleetHost
    tenant: TenantSummary


def _tenants(hosts: Iterable[FleetHost]) -> tuple[FleetTenant, ...]:
    groups: dict[tuple[str, str], list[_OnHost]] = {}
    for host in hosts:
        assert host.summary is not None
        for one in host.summary.tenants:
            groups.setdefault((one.namespace, one.name), []).append(_OnHost(host, one))
    found = []
    for (namespace, name), group in groups.items():
        calls = busy = 0.0
        for host, tenant in group:
            assert host.summary is not None
            seconds = host.summary.seconds or 1.0
            calls += tenant.calls / seconds
            busy += tenant.total_ns / seconds / 1e9
        slowest = max(group, key=lambda one: one.tenant.p99_ns)
        lost = sum(one.tenant.lost_ms_per_s for one in group)
        figures = calls, busy, slowest.tenant.p99_ns, slowest.host.address, lost
        found.append(FleetTenant(namespace, name, len(group), *figures))
    return tuple(sorted(found, key=lambda one: (-loss_step(one.lost_ms_per_s), -one.busy, one.name)))
