"""Network ports of a host: their traffic and errors in a window, and sums of windows."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, NamedTuple

PortKind = Literal["interface", "infiniband", "roce", "rdma"]
"""``interface``: a network interface, such as ``eth0``; ``infiniband``, ``roce``: a port of an RDMA adapter
with a link layer of InfiniBand or Ethernet; ``rdma``: a port of another RDMA adapter, such as AWS EFA."""
CounterSort = Literal["traffic", "error", "drop", "congestion"]
"""``drop``: packets that were dropped; some are dropped on every host, such as those of unknown protocols.
``congestion``: signs that a receiver or a switch was too slow."""

MOST_PORTS: Final = 1024
"""Maximum number of ports in a sum that covers all windows since the first. If there are more, only half of
the maximum is kept: the ports with the most bytes."""


@dataclass(frozen=True, slots=True)
class PortCounter:
    """Description of a counter of a network port."""

    name: str
    """Name of the field of ``NetworkPort``; files, JSON and SQL use this name as well."""
    sort: CounterSort
    about: str
    """What is counted within a window, in one line."""
    label: str
    """What is counted, in a few words for the screen; '' for traffic."""


def _counter(sort: CounterSort, about: str, label: str = "") -> Any:
    return field(default=None, metadata={"sort": sort, "about": about, "label": label})


@dataclass(frozen=True, slots=True)
class NetworkPort:
    """A network interface of the host, or a port of an RDMA adapter, in a window.

    Each counter is the increase within the window; None if the port does not have the counter, or if its
    increase is not known.
    """

    name: str
    """Name of the interface, such as ``eth0``; or adapter and port, such as ``mlx5_0/1``."""
    kind: PortKind = "interface"
    host: str = ""
    """Host of the port in a window of several hosts; '' in a window of one host."""
    physical: bool = True
    """False if another port counts the same bytes as well, because this port is a bond, a VLAN, a tunnel, or
    an interface for IP over InfiniBand."""
    state: str = ""
    """State of the link as the Linux kernel calls it, in small letters, such as ``up``, ``down`` or
    ``active``; '' if unknown."""
    bits_per_second: int | None = None
    """Speed of the link; None if it is down or the driver does not report it."""

    rx_bytes: int | None = _counter("traffic", "bytes received")
    tx_bytes: int | None = _counter("traffic", "bytes sent")
    rx_errors: int | None = _counter("error", "packets that arrived damaged", "damaged")
    tx_errors: int | None = _counter("error", "packets that could not be sent", "not sent")
    rx_missed: int | None = _counter(
        "error",
        "packets that were lost because the host took them from the adapter too late",
        "missed by the host",
    )
    link_downs: int | None = _counter("error", "how often the link went down", "link down")
    link_recoveries: int | None = _counter(
        "error", "how often the link failed and recovered by itself", "link recovered"
    )
    symbol_errors: int | None = _counter("error", "small errors of the link: symbol errors", "symbol errors")
    integrity_errors: int | None = _counter(
        "error", "how often small errors of the link exceeded their limit", "link integrity"
    )
    buffer_overruns: int | None = _counter(
        "error", "how often packets arrived faster than the port's buffer could take them", "buffer overruns"
    )
    out_of_sequence: int | None = _counter(
        "error", "RDMA packets that arrived out of sequence: packets before them were lost", "out of sequence"
    )
    packet_seq_err: int | None = _counter(
        "error", "how often a receiver reported that RDMA packets were lost (NAK)", "lost on the way"
    )
    local_ack_timeout_err: int | None = _counter(
        "error",
        "how often RDMA packets were retransmitted because no receiver acknowledged them",
        "not acknowledged",
    )
    retransmits: int | None = _counter("error", "RDMA packets retransmitted", "retransmitted")
    rnr_nak_retry_err: int | None = _counter(
        "error", "how often a receiver had posted no buffer for RDMA packets (RNR NAK)", "receiver not ready"
    )
    out_of_buffer: int | None = _counter(
        "error", "RDMA packets lost because a program of this host had posted no buffer", "no buffer posted"
    )
    duplicate_request: int | None = _counter("error", "RDMA requests that arrived again", "requests repeated")
    rx_icrc_encapsulated: int | None = _counter(
        "error", "RoCE packets that arrived with a wrong checksum", "wrong checksum"
    )
    rx_dropped: int | None = _counter(
        "drop",
        "received packets that the host dropped, such as those of unknown protocols",
        "received dropped",
    )
    tx_dropped: int | None = _counter(
        "drop", "packets that were dropped before they were sent", "dropped unsent"
    )
    tx_wait_ticks: int | None = _counter(
        "congestion",
        "ticks of the adapter's clock in which packets waited because the other end of the link had no room",
        "ticks waiting to send",
    )
    ecn_marked: int | None = _counter(
        "congestion", "received RoCE packets that a congested switch had marked (ECN)", "ECN marks"
    )
    cnp_handled: int | None = _counter(
        "congestion",
        "how often a receiver's notification of congestion (CNP) slowed this port's sending",
        "slowed by receivers",
    )

    def total(self, *sorts: CounterSort) -> int:
        """Returns the sum of the known counters of ``sorts``."""
        return sum(getattr(self, one.name) or 0 for one in PORT_COUNTERS if one.sort in sorts)

    def counts(self, *sorts: CounterSort) -> list[tuple[PortCounter, int]]:
        """Returns the counters of ``sorts`` that are above 0, the largest first."""
        found = [(one, getattr(self, one.name) or 0) for one in PORT_COUNTERS if one.sort in sorts]
        return sorted((pair for pair in found if pair[1]), key=lambda pair: -pair[1])


PORT_COUNTERS: Final = tuple(
    PortCounter(one.name, one.metadata["sort"], one.metadata["about"], one.metadata["label"])
    for one in fields(NetworkPort)
    if one.metadata
)
"""All counters of a port. Tables of files, the SQL view and the documentation of both are derived from these
descriptions."""
_NAMES: Final = tuple(one.name for one in PORT_COUNTERS)
_Key = tuple[str, str, str]


class Throughput(NamedTuple):
    """Traffic and errors per second of several network ports together."""

    rx_bytes: float
    tx_bytes: float
    errors: float


def throughput(ports: Iterable[NetworkPort], seconds: float) -> Throughput | None:
    """Returns the traffic and errors per second of ``ports`` in a window of ``seconds``; None if nothing is
    known.

    Bytes that several ports count, such as a bond and its interfaces, count once. Errors of all ports count.
    """
    ports = tuple(ports)
    once = [port for port in ports if port.physical] or ports
    if seconds <= 0 or all(port.rx_bytes is None and port.tx_bytes is None for port in once):
        return None
    return Throughput(
        sum(port.rx_bytes or 0 for port in once) / seconds,
        sum(port.tx_bytes or 0 for port in once) / seconds,
        sum(port.total("error") for port in ports) / seconds,
    )


def of_rdma(ports: Iterable[NetworkPort]) -> list[NetworkPort]:
    """Returns the ports of RDMA adapters among ``ports``."""
    return [port for port in ports if port.kind != "interface"]


def of_host(ports: Iterable[NetworkPort], host: str) -> tuple[NetworkPort, ...]:
    """Returns ``ports`` with the name of their host, for a window of several hosts."""
    return tuple(replace(port, host=host) for port in ports)


class _PortSum:
    """Sums of the counters of one port."""

    def __init__(self) -> None:
        self.latest = NetworkPort("")
        self.windows = 0
        """Number of windows that have the port."""
        self.sums = [0] * len(_NAMES)
        self.known = [0] * len(_NAMES)
        """For each counter, the number of windows in which it was known."""

    def count(self, port: NetworkPort, sign: int) -> None:
        """Adds the counters of one window if ``sign`` is 1; subtracts them if it is -1."""
        self.windows += sign
        for at, name in enumerate(_NAMES):
            value = getattr(port, name)
            if value is not None:
                self.sums[at] += sign * value
                self.known[at] += sign

    def port(self) -> NetworkPort:
        """Returns the port as it was in the last window, with the sums of its counters."""
        together = zip(_NAMES, self.sums, self.known, strict=True)
        sums: dict[str, Any] = {name: total if known else None for name, total, known in together}
        return replace(self.latest, **sums)


class MovingPorts:
    """Sum of the network ports of a sliding range of windows."""

    def __init__(self) -> None:
        self._ports: dict[_Key, _PortSum] = {}

    def add(self, ports: Iterable[NetworkPort]) -> None:
        """Adds the ports of the newest window."""
        for port in ports:
            entry = self._ports.setdefault(_key(port), _PortSum())
            entry.latest = port
            entry.count(port, 1)

    def remove(self, ports: Iterable[NetworkPort]) -> None:
        """Subtracts the ports of the oldest window. ``ports`` must equal what ``add`` got for that window."""
        for port in ports:
            entry = self._ports[_key(port)]
            entry.count(port, -1)
            if not entry.windows:
                del self._ports[_key(port)]

    def sum(self) -> tuple[NetworkPort, ...]:
        """Returns the ports of all windows, each with the sums of its counters. A port that the last window
        lacks has the state of the last window that has it."""
        return tuple([entry.port() for entry in self._ports.values()])

    def bound(self) -> None:
        """Limits the number of ports to ``MOST_PORTS``, for a sum from which no window is removed."""
        if len(self._ports) > MOST_PORTS:
            kept = heapq.nlargest(
                MOST_PORTS // 2, self._ports.items(), key=lambda item: item[1].port().total("traffic")
            )
            self._ports = dict(kept)


def added_ports(parts: Iterable[Sequence[NetworkPort]]) -> tuple[NetworkPort, ...]:
    """Adds up the ports of consecutive windows (oldest first) or of windows of several hosts."""
    together = MovingPorts()
    for ports in parts:
        together.add(ports)
    return together.sum()


def _key(port: NetworkPort) -> _Key:
    return port.host, port.kind, port.name
