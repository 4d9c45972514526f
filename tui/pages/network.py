"""The section about the network of a host: a line for each network port, and what went wrong on it. Pure
functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from stalltop.model.chain import Chain
from stalltop.model.hosts.names import host_of, hosts_in
from stalltop.model.network_ports import CounterSort, NetworkPort
from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.window import SPLITS, Window
from stalltop.tui.pages.sections import Section, heading, more
from stalltop.widgets.drawing.strips import printable
from stalltop.widgets.page import PageLine

MOST_LISTED: Final = 16
"""The most ports that are listed."""
_MOST_COUNTERS: Final = 5
"""Maximum number of counters that are named in one line (of errors, of drops or of congestion)."""
_LEAST_SHARE: Final = 0.1
"""A problem concerns the network if the part `network` is at least this share of the time of its rows."""
_NAME, _STATE, _SPEED = 14, 7, 8
"""Widths of columns, in cells."""
_KINDS: Final = {"interface": "", "infiniband": "InfiniBand", "roce": "RoCE", "rdma": "RDMA"}
_TROUBLE: Final[tuple[tuple[CounterSort, str, str], ...]] = (
    ("error", "errors", "warn"),
    ("drop", "dropped", "text"),
    ("congestion", "congestion", "text"),
)
"""Classes of counters, each with its name on the page and its role. A class has a line of its own if one of
its counters is above 0."""


def network(window: Window, host: str, glyphs: Glyphs) -> Section:
    """Return the section about the network ports of ``host``; '' stands for the only host of ``window``. The
    section is empty if no ports are known."""
    several = len(hosts_in(window.host)) > 1
    ports = [port for port in window.evidence.network_ports if not several or port.host == host]
    if not ports:
        return Section("network", ())
    ports.sort(key=lambda port: (port.state == "down", port.kind == "interface", port.name))
    head = f"{'STATE':<{_STATE}} {'SPEED':>{_SPEED}}  {'RECEIVED':>9} {'SENT':>9}"
    lines = [
        heading("Network of this host", "RDMA bytes count at the RDMA port only"),
        PageLine(((f"  {'PORT':<{_NAME}} {head}", "dim"),)),
    ]
    for port in ports[:MOST_LISTED]:
        lines += _port(port, window.seconds, glyphs)
    return Section("network", (*lines, *more(len(ports) - MOST_LISTED)))


def _port(port: NetworkPort, seconds: float, glyphs: Glyphs) -> Iterable[PageLine]:
    """Yield the lines about one port."""
    name = figures.fit(printable(port.name), _NAME, glyphs)
    moved = f"{_per_second(port.rx_bytes, seconds, glyphs)} {_per_second(port.tx_bytes, seconds, glyphs)}"
    state = figures.fit(printable(port.state or glyphs.missing), _STATE, glyphs)
    about = [_KINDS[port.kind], _use(port, seconds), "" if port.physical else "counted by another port, too"]
    yield PageLine(
        (
            (f"  {name} ", "label"),
            (f"{state} {_speed(port.bits_per_second, glyphs):>{_SPEED}}  ", "dim"),
            (moved, "dim" if port.state == "down" else "text"),
            ("".join(f"  {said}" for said in about if said), "dim"),
        ),
        indent=4,
    )
    for sort, word, role in _TROUBLE:
        counts = port.counts(sort)
        if not counts:
            continue
        named = [f"{count:,} {counter.label}" for counter, count in counts[:_MOST_COUNTERS]]
        left_out = len(counts) - len(named)
        said = ", ".join([*named, *([f"and {left_out} more"] if left_out else [])])
        yield PageLine(((f"    {word}: {said}", role), ("  in this window", "dim")), indent=6)


def _per_second(count: int | None, seconds: float, glyphs: Glyphs) -> str:
    if count is None or seconds <= 0:
        return figures.missing(figures.BYTES_WIDTH + 3, glyphs)
    return f"{figures.size(count / seconds, glyphs)}/s".rjust(figures.BYTES_WIDTH + 3)


def _speed(bits_per_second: int | None, glyphs: Glyphs) -> str:
    """Format the speed of a link, such as ``100Gb/s``."""
    if bits_per_second is None:
        return glyphs.missing
    giga = bits_per_second / 1e9
    return f"{giga:g}Gb/s" if giga >= 1 else f"{giga * 1e3:g}Mb/s"


def _use(port: NetworkPort, seconds: float) -> str:
    """Return how much of the port's speed its busier direction used, as text; '' if that is not known."""
    busier = max(port.rx_bytes or 0, port.tx_bytes or 0)
    if not port.bits_per_second or seconds <= 0 or port.rx_bytes is port.tx_bytes is None:
        return ""
    return f"{figures.percent(800.0 * busier / seconds / port.bits_per_second).strip()} of its speed"


def network_of(chain: Chain, window: Window, glyphs: Glyphs) -> Section:
    """Return the section about the network of the host of ``chain``; empty if the problem has nothing to do
    with NCCL or the network."""
    if not concerns_network(chain, window):
        return Section("network", ())
    return network(window, host_of(window.host, chain.tenant), glyphs)


def concerns_network(chain: Chain, window: Window) -> bool:
    """Return whether a problem is about NCCL or the network, or whether its rows spent at least
    ``_LEAST_SHARE`` of their time in the part ``network``."""
    if "nccl" in (chain.layer, *(key.layer for key in chain.rows)):
        return True
    if any(link.device == "network" for link in chain.links):
        return True
    rows, named = window.rows, set(chain.rows)
    if rows.split_ns is None:
        return False
    spent = [rows.split_ns[at] for at, key in enumerate(rows.keys) if key in named]
    whole = sum(int(parts.sum()) for parts in spent)
    waited = sum(int(parts[SPLITS.index("network")]) for parts in spent)
    return waited > 0 and waited >= _LEAST_SHARE * whole
