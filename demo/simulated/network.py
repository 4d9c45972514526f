"""Simulates the network of the simulated host: an interface, an InfiniBand port for collectives, and a file
server."""

from __future__ import annotations

import math
from typing import Any, Final

from stalltop.model.network_ports import PORT_COUNTERS, NetworkPort
from stalltop.model.thread_evidence import Server, Servers

_OF_ETHERNET: Final = ("rx_errors", "tx_errors", "rx_missed", "link_downs", "rx_dropped", "tx_dropped")
"""Counters that the interface has in addition to the bytes."""
_NOT_OF_INFINIBAND: Final = ("tx_errors", "rx_missed", "retransmits", "rx_icrc_encapsulated", "ecn_marked")
"""Counters that the InfiniBand port does not have."""
_GIGA: Final = 1_000_000_000
_DATA_SERVER: Final = "10.20.0.7:2049"
"""The file server from which a rank reads its data."""


def network_ports(age: float, seconds: float) -> tuple[NetworkPort, ...]:
    """Returns the network ports in a window of ``seconds``. ``age`` is the time since the simulation began,
    s. The ports have no errors."""
    wave = math.sin(2 * math.pi * age / 47)
    of_infiniband = [one.name for one in PORT_COUNTERS if one.name not in _NOT_OF_INFINIBAND]

    def counts(names: list[str], received: float, sent: float) -> dict[str, Any]:
        moved = {"rx_bytes": int(received * seconds * _GIGA), "tx_bytes": int(sent * seconds * _GIGA)}
        return dict.fromkeys(names, 0) | moved

    return (
        NetworkPort(
            *("eth0", "interface", "", True, "up", 25 * _GIGA),
            **counts([*_OF_ETHERNET], 0.9 + 0.2 * wave, 0.31 - 0.05 * wave),
        ),
        NetworkPort(
            *("mlx5_0/1", "infiniband", "", True, "active", 400 * _GIGA),
            **counts(of_infiniband, 18.4 + 2.1 * wave, 18.2 + 2.1 * wave),
        ),
    )


def data_server(pid: int, seconds: float) -> Servers:
    """Returns the file server from which the process ``pid`` reads too little in a window of ``seconds``."""
    sent, received = int(96_000 * seconds), int(11_000_000 * seconds)
    return Servers(pid, (Server(_DATA_SERVER, sent, received, 14_000_000),))
