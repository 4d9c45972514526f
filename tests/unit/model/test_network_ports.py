"""Tests throughput of network ports, and sums of their counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.model import network_ports
from stalltop.model.merge.merging import merge
from stalltop.model.network_ports import MovingPorts, NetworkPort, added_ports, of_rdma, throughput
from tests.windows.full import EVIDENCE, full_window

ETH = NetworkPort("eth0", rx_bytes=1_000, tx_bytes=10)
IB = NetworkPort("mlx5_0/1", "infiniband", rx_bytes=4_000, tx_bytes=None, out_of_sequence=6)


def test_bytes_that_two_ports_count_are_added_once() -> None:
    bond = NetworkPort("bond0", physical=False, rx_bytes=1_000, tx_bytes=10, rx_errors=2)
    assert throughput([ETH, bond, IB], 2.0) == (2_500.0, 5.0, 4.0)
    assert throughput(of_rdma([ETH, bond, IB]), 2.0) == (2_000.0, 0.0, 3.0)
    assert throughput([bond], 1.0) == (1_000.0, 10.0, 2.0), "there is no other"


@pytest.mark.parametrize("ports", [[], [NetworkPort("eth0")], [NetworkPort("eth0", rx_errors=1)]])
def test_unknown_throughput_is_none(ports: list[NetworkPort]) -> None:
    assert throughput(ports, 1.0) is None
    assert throughput([ETH], 0.0) is None


def test_the_largest_counts_come_first() -> None:
    port = NetworkPort("eth0", rx_errors=1, link_downs=0, tx_errors=5, rx_dropped=9)
    assert [(one.name, count) for one, count in port.counts("error")] == [("tx_errors", 5), ("rx_errors", 1)]
    assert (port.total("error"), port.total("drop"), port.total("error", "drop")) == (6, 9, 15)


def test_counters_add_up_and_gauges_are_the_last() -> None:
    later = NetworkPort("eth0", state="down", rx_bytes=5, rx_errors=2)
    assert added_ports([[ETH, IB], [later]]) == (
        NetworkPort("eth0", state="down", rx_bytes=1_005, tx_bytes=10, rx_errors=2),
        IB,
    )


def test_what_is_not_known_in_any_window_stays_unknown() -> None:
    moving = MovingPorts()
    moving.add([ETH])
    moving.add([NetworkPort("eth0", rx_errors=3)])
    assert moving.sum() == (NetworkPort("eth0", rx_bytes=1_000, tx_bytes=10, rx_errors=3),)
    moving.remove([ETH])
    assert moving.sum() == (NetworkPort("eth0", rx_errors=3),)
    moving.remove([NetworkPort("eth0", rx_errors=3)])
    assert moving.sum() == ()


def test_a_sum_since_the_start_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_ports, "MOST_PORTS", 4)
    moving = MovingPorts()
    moving.add([NetworkPort(f"tun{at}", rx_bytes=at) for at in range(9)])
    moving.bound()
    assert [port.name for port in moving.sum()] == ["tun8", "tun7"]


def test_ports_of_several_hosts_stay_separate() -> None:
    one = full_window()
    assert [port.host for port in merge([one, one]).evidence.network_ports] == ["", ""]
    fleet = merge([one, replace(one, host="gpu8")])
    assert [(port.host, port.name) for port in fleet.evidence.network_ports] == [
        (host, port.name) for host in ("gpu7", "gpu8") for port in EVIDENCE.network_ports
    ]
