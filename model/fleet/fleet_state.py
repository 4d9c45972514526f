"""Collects the summaries of all hosts, and says what they mean together. No I/O: the caller passes messages
and times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stalltop.model.fleet.fleet_jobs import jobs_of
from stalltop.model.fleet.fleet_view import FleetHost, FleetView, HostState, Urgency, urgency
from stalltop.model.fleet.grouping import merge_problems, merge_tenants, problems_of, tenants_of
from stalltop.model.fleet.host_summary import HostAddress, HostSummary
from stalltop.model.fleet.likeness import DeviceSamples
from stalltop.model.fleet.rank_entries import RankEntries
from stalltop.model.fleet.server_clock import is_repeated

SILENT_SECONDS: Final = 5.0
"""A host without a message for longer than this is silent. Hosts send one a second."""
FORGET_SECONDS: Final = 3600.0
"""A host that has been silent for longer than this is forgotten."""
CLOCK_SECONDS: Final = 2.0
"""A host whose clock differs from the server's by more than this is shown as one with another clock. A
summary arrives up to a second after the end of its window."""
MOST_HOSTS: Final = 65_536
"""Maximum number of hosts. The server accepts as many connections."""


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
        self._devices = DeviceSamples()

    def __len__(self) -> int:
        return len(self._hosts)

    def take(self, address: HostAddress, summary: HostSummary, at: float) -> None:
        """Takes a summary that the server received at the Unix time ``at``. Older ones than the last one are
        ignored: a server that recovers may deliver them again."""
        known = self._known(address)
        if known is not None and not is_repeated(at, known.at):
            known.summary, known.at, known.fault, known.ahead = summary, at, "", summary.end - at
            self._entries.take(address, summary, at)
            self._devices.take(address, summary)

    def refuse(self, address: HostAddress, reason: str, at: float) -> None:
        """Notes that a message of a host cannot be read. ``reason`` follows the name of the host in a
        sentence, such as ``sends no summary: …``."""
        known = self._known(address)
        if known is not None and not is_repeated(at, known.at):
            known.at, known.fault = at, reason

    def silent(self, address: HostAddress, at: float) -> None:
        """Notes a host of which only the time of its last message is known."""
        known = self._known(address)
        if known is not None:
            known.at = max(known.at, at)

    def view(self, now: float, *, jobs: bool = True) -> FleetView:
        """Returns the fleet at the Unix time ``now``, on the server's clock. ``jobs``: with its jobs."""
        for address in [one for one, known in self._hosts.items() if now - known.at > FORGET_SECONDS]:
            del self._hosts[address]
            self._devices.forget(address)
            self._entries.forget(address)
        self._entries.keep(
            one.communicator
            for known in self._hosts.values()
            if known.summary is not None
            for one in known.summary.ranks
        )
        newest = max((_version(known) for known in self._hosts.values()), default=())
        hosts = [_host(address, known, now, newest) for address, known in self._hosts.items()]
        live = [host for host in hosts if host.state == "live" and host.summary is not None]
        return FleetView(
            now,
            tuple(sorted(hosts, key=_worst_first)),
            merge_tenants(one for host in live for one in tenants_of(host)),
            merge_problems(one for host in live for one in problems_of(host)),
            jobs_of(hosts, self._entries, self._devices) if jobs else (),
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
        if summary.ranks_left_out:
            left, whole = summary.ranks_left_out, summary.ranks_in_all
            remarks.append(f"{left:,} of its {whole:,} ranks are left out: a summary has no room for them")
        remarks += [f"{gap.end - gap.start:.0f} s of windows missing: {gap.reason}" for gap in summary.gaps]
    return FleetHost(address, state, known.at, summary, ahead, tuple(remarks))


def _worst_first(host: FleetHost) -> Urgency:
    severity = "" if host.worst is None else host.worst.severity
    return urgency(severity, host.lost_ms_per_s, host.state, host.address)
