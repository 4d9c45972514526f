"""Tests the line about the network on the main screen, and the section about it on pages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.formats.text.network import network as network_text
from stalltop.model.chain import Link
from stalltop.model.devices.device import System
from stalltop.model.evidence import BlockIo
from stalltop.model.network_ports import NetworkPort
from stalltop.model.text.glyphs import ASCII, UNICODE
from stalltop.model.window import SPLITS, Window
from stalltop.tui.chain.page import chain_page
from stalltop.tui.pages.network import MOST_LISTED, concerns_network, network
from stalltop.tui.screens.run_options import RunOptions
from tests.tui.faults import GAP, LATE, STARVED, STORM, faulty
from tests.tui.screen import Screen, running
from tests.windows.by_hand import window
from tests.windows.full import full_window

SYSTEM = System(
    cpus=16,
    cpu_percent=12.3,
    memory_total_bytes=141 << 30,
    memory_used_bytes=3 << 29,
    load=(1.2, 3.4, 5.6),
)
SWAPPING = replace(SYSTEM, swap_total_bytes=16 << 30, swap_used_bytes=1 << 28)
ETH = NetworkPort(
    "eth0", state="up", bits_per_second=100_000_000_000, rx_bytes=1_200_000_000, tx_bytes=310_000_000
)
DOWN = NetworkPort("eth1", state="down", rx_bytes=0, tx_bytes=0)
IB = NetworkPort(
    *("mlx5_0/1", "infiniband", "", True, "active", 400_000_000_000),
    rx_bytes=25_000_000_000,
    tx_bytes=48_000_000_000,
    out_of_sequence=12,
    packet_seq_err=40,
    rx_dropped=3,
    tx_wait_ticks=1_000_000,
)
BOND = replace(ETH, name="bond0", physical=False)


def of(*ports: NetworkPort, system: System = SYSTEM, seconds: float = 1.0) -> Window:
    made = replace(window(), system=system, seconds=seconds)
    return replace(made, evidence=replace(made.evidence, network_ports=ports))


def text(lines: object) -> str:
    return "\n".join("".join(part for part, _ in line.parts) for line in lines)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("width", "system", "ports", "seen", "unseen"),
    [
        (80, SYSTEM, (ETH,), "load  1.20", "NET"),
        (100, SWAPPING, (ETH, BOND), "load  1.20  NET ↓1.20GB/s ↑ 310MB/s", "RDMA"),
        (120, SYSTEM, (ETH,), "5.60  NET ↓1.20GB/s ↑ 310MB/s", "errors"),
        (120, SWAPPING, (ETH, IB), "5.60  NET ↓26.2GB/s ↑48.3GB/s", "RDMA"),
        (200, SWAPPING, (ETH, IB), "NET ↓26.2GB/s ↑48.3GB/s  RDMA ↓25.0GB/s ↑48.0GB/s", "eth0"),
        (200, SYSTEM, (ETH, IB), "RDMA ↓25.0GB/s ↑48.0GB/s 52.0 errors/s", "eth0"),
        (200, SYSTEM, (), "5.60", "NET"),
    ],
)
async def test_the_line_of_the_host_tells_what_the_network_moves(
    width: int, system: System, ports: tuple[NetworkPort, ...], seen: str, unseen: str
) -> None:
    async with running(of(*ports, system=system), size=(width, 30)) as screen:
        await screen.sees(seen)
        assert unseen not in host_line(screen)


def host_line(screen: Screen) -> str:
    """Return the line with the bars of the host."""
    return next(line for line in screen.text().splitlines() if "CPU " in line and "load" in line)


@pytest.mark.parametrize(("width", "text"), [(80, "DISK  500MB/s"), (120, "DISK r 300MB/s w 200MB/s")])
async def test_the_line_of_the_host_has_the_rates_of_its_disks(width: int, text: str) -> None:
    moved = ((False, 600_000_000), (True, 400_000_000))
    io = tuple(BlockIo("", 7, "dd", "vda", write, 9, size, 0, 0, 0) for write, size in moved)
    one = of(seconds=2.0)
    one = replace(one, evidence=replace(one.evidence, block_io=io))
    async with running(one, size=(width, 30)) as screen:
        await screen.sees(text)


async def test_figures_of_any_size_move_nothing_and_ascii_needs_no_arrows() -> None:
    options = RunOptions(interval=0.0, ascii=True)
    async with running(of(ETH), size=(120, 30), options=options) as screen:
        await screen.sees("NET <1.20GB/s > 310MB/s")
        before = host_line(screen)
        await screen.feed(of(replace(ETH, rx_bytes=3, tx_bytes=10**15)))
        await screen.sees("NET < 600MB/s > 500TB/s")  # the mean of two seconds
        assert host_line(screen).index("NET") == before.index("NET")


def test_a_line_of_a_port_has_state_speed_and_rates() -> None:
    section = network(of(DOWN, ETH, BOND, IB, seconds=2.0), "", UNICODE)
    lines = text(section.lines).splitlines()
    assert [line.split()[0] for line in lines[1:]] == [
        *("PORT", "mlx5_0/1", "errors:", "dropped:", "congestion:", "bond0", "eth0", "eth1"),
    ]
    assert lines[2].split() == [
        *(
            "mlx5_0/1",
            "active",
            "400Gb/s",
            "12.5GB/s",
            "24.0GB/s",
            "InfiniBand",
            "48.0%",
            "of",
            "its",
            "speed",
        ),
    ]
    assert "errors: 40 lost on the way, 12 out of sequence" in lines[3]
    assert lines[5].strip().startswith("congestion: 1,000,000 ticks waiting to send")
    assert "counted by another port, too" in lines[6]
    assert "of its speed" in lines[7]
    assert lines[8].split() == ["eth1", "down", "–", "0B/s", "0B/s"]
    roles = {part: role for line in section.lines for part, role in line.parts}
    assert roles["    errors: 40 lost on the way, 12 out of sequence"] == "warn"


def test_unknown_figures_of_a_port_are_dashes() -> None:
    (line,) = network(of(NetworkPort("eth0", rx_bytes=2_000)), "", ASCII).lines[2:]
    assert text([line]).split() == ["eth0", "-", "-", "2.00kB/s", "-"]
    assert network(of(), "", UNICODE).lines == ()


def test_many_ports_and_many_errors_are_cut() -> None:
    ports = [NetworkPort(f"eth{number:02}", rx_bytes=0) for number in range(MOST_LISTED + 3)]
    assert "and 3 more" in text(network(of(*ports), "", UNICODE).lines)
    (full,) = (port for port in full_window().evidence.network_ports if port.kind == "roce")
    assert "and 11 more" in text(network(of(full), "", UNICODE).lines)


def test_a_fleet_shows_the_ports_of_one_host() -> None:
    both = replace(of(replace(ETH, host="gpu7"), replace(IB, host="gpu8")), host="gpu7, gpu8")
    assert "eth0" in text(network(both, "gpu7", UNICODE).lines)
    assert "mlx5" not in text(network(both, "gpu7", UNICODE).lines)
    assert network(both, "gpu9", UNICODE).lines == ()


def test_only_problems_with_nccl_or_the_network_show_it() -> None:
    chains = (LATE, STARVED, STORM)
    one = faulty(*chains)
    one = replace(one, evidence=replace(one.evidence, network_ports=(IB,)))
    assert [concerns_network(chain, one) for chain in chains] == [True, False, False]
    lossy = replace(STORM, links=(Link("mechanism", "segments are sent again", device="network"),))
    assert concerns_network(lossy, one)
    for chain in (*chains, lossy):
        page = text(chain_page(chain, one, glyphs=UNICODE, letters=False))
        assert ("Network of this host" in page) == concerns_network(chain, one)
        assert ("mlx5_0/1" in page) == concerns_network(chain, one)


@pytest.mark.parametrize(("percent", "shown"), [(50, True), (5, False)])
def test_waits_for_sockets_show_it(percent: int, shown: bool) -> None:
    one = faulty(STARVED)
    assert one.rows.split_ns is not None
    split = one.rows.split_ns.copy()
    at = one.rows.keys.index(GAP)
    whole = int(split[at].sum())
    split[at] = 0
    split[at, SPLITS.index("running")] = whole * (100 - percent) // 100
    split[at, SPLITS.index("network")] = whole * percent // 100
    waiting = replace(one, rows=replace(one.rows, split_ns=split))
    chain = replace(STARVED, rows=(GAP,))
    assert concerns_network(chain, waiting) == shown
    unsplit = replace(one, rows=replace(one.rows, split_ns=None))
    assert not concerns_network(chain, unsplit)


async def test_the_page_of_a_device_shows_the_network() -> None:
    one = full_window()
    async with running(one, size=(120, 60)) as screen:
        await screen.press("D")  # the only device
        await screen.sees("Esc closes")
        await screen.press("end")
        await screen.sees("Network of this host")
        await screen.sees("mlx5_0/1")


def test_once_tells_throughput_and_errors_in_a_line() -> None:
    assert network_text(of(ETH), UNICODE) == ["network 1.20GB/s received, 310MB/s sent"]
    assert network_text(of(ETH, IB), UNICODE) == [
        "network 26.2GB/s received, 48.3GB/s sent",
        "of it RDMA 25.0GB/s received, 48.0GB/s sent",
        "52.0 network errors/s",
    ]
    assert network_text(of(), UNICODE) == []
