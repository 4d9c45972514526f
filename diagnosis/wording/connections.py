"""Says what is known of the connections of a process to servers on other hosts."""

from __future__ import annotations

import socket

from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.wording.figures import duration, size
from stalltop.model.thread_evidence import Server


def servers_of(facts: Facts, pid: int) -> tuple[Server, ...]:
    """Returns the servers on other hosts to which the process ``pid`` is connected."""
    return next((each.servers for each in facts.window.evidence.threads.servers if each.pid == pid), ())


def named(server: Server) -> str:
    """Returns the address of a server, with the name of the service that usually has its port:
    ``10.20.0.7:2049 (nfs)``."""
    port = server.address.rpartition(":")[2]
    try:
        return f"{server.address} ({socket.getservbyport(int(port))})"
    except (OSError, OverflowError, ValueError):
        return server.address


def connection(facts: Facts, server: Server) -> str:
    """Returns the address of a server, with the rates of bytes in both directions and the round-trip time."""
    said = [named(server)]
    if server.received_bytes or server.sent_bytes:
        received, sent = (size(facts.per_second(n)) for n in (server.received_bytes, server.sent_bytes))
        said.append(f"{received}/s received, {sent}/s sent")
    if server.rtt_ns:
        said.append(f"round trip {duration(server.rtt_ns)}")
    return ", ".join(said)
