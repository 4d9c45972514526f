"""Writes one line about the network of the host."""

from __future__ import annotations

from stalltop.model.network_ports import Throughput, of_rdma, throughput
from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.window import Window


def network(window: Window, glyphs: Glyphs) -> list[str]:
    """Return the throughput of the network, the throughput of RDMA, and the errors, each as a text. Returns
    [] if they are not known."""
    ports = window.evidence.network_ports
    moved, rdma = throughput(ports, window.seconds), throughput(of_rdma(ports), window.seconds)
    if moved is None:
        return []
    parts = [f"network {_moved(moved, glyphs)}"]
    if rdma is not None:
        parts.append(f"of it RDMA {_moved(rdma, glyphs)}")
    if moved.errors:
        parts.append(f"{figures.rate(moved.errors, glyphs).strip()} network errors/s")
    return parts


def _moved(moved: Throughput, glyphs: Glyphs) -> str:
    received, sent = (figures.size(one, glyphs).strip() for one in (moved.rx_bytes, moved.tx_bytes))
    return f"{received}/s received, {sent}/s sent"
