"""Tests reading network ports from fake trees of sysfs, and from that of this machine."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from stalltop.model.network_ports import NetworkPort
from stalltop.probes.host import network
from stalltop.probes.host.network import (
    _OF_INTERFACE,
    LOOK_AGAIN_SECONDS,
    NOT_IN_TIME,
    NetworkReader,
    _Found,
    _Port,
)

COUNTERS = ("rx_bytes", "tx_bytes", "rx_errors", "tx_errors", "rx_missed_errors", "rx_dropped", "tx_dropped")


class Sysfs:
    """Writes a tree of sysfs, and serves as the clock of the reader."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 0.0
        (root / "sys/class/net").mkdir(parents=True)

    def interface(self, name: str, *, device: bool = True, state: str = "up", **files: str) -> Path:
        """Adds an interface whose counters are 0. ``files`` are further files in its folder."""
        folder = self.root / "sys/class/net" / name
        (folder / "statistics").mkdir(parents=True)
        for counter in COUNTERS:
            (folder / "statistics" / counter).write_text("0\n")
        if device:
            (folder / "device").mkdir()
        given = {"operstate": state, "type": "1", "speed": "-1", "carrier_down_count": "0", **files}
        for file, text in given.items():
            (folder / file).write_text(f"{text}\n")
        return folder

    def port(self, adapter: str, link_layer: str, counters: dict[str, str], node_type: str = "1: CA") -> Path:
        """Adds port 1 of an RDMA adapter, of 400 Gb/s."""
        folder = self.root / "sys/class/infiniband" / adapter / "ports/1"
        for name, text in {
            "link_layer": link_layer,
            "state": "4: ACTIVE",
            "rate": "400 Gb/sec (4X NDR)",
            **counters,
        }.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"{text}\n")
        (folder.parent.parent / "node_type").write_text(f"{node_type}\n")
        return folder

    def reader(self) -> NetworkReader:
        return NetworkReader(self.root, clock=lambda: self.now, patience_seconds=60)


@pytest.fixture
def sysfs(tmp_path: Path) -> Sysfs:
    return Sysfs(tmp_path)


def counted(folder: Path, **values: object) -> None:
    """Sets counters of an interface."""
    for name, value in values.items():
        (folder / "statistics" / name).write_text(f"{value}\n")


def named(ports: tuple[NetworkPort, ...]) -> dict[str, NetworkPort]:
    return {port.name: port for port in ports}


def test_counts_are_those_since_the_previous_reading(sysfs: Sysfs) -> None:
    eth0 = sysfs.interface("eth0", speed="25000")
    counted(eth0, rx_bytes=1_000_000, tx_bytes=5)
    reader = sysfs.reader()
    counted(eth0, rx_bytes=1_700_000, tx_bytes=5, rx_errors=2, rx_missed_errors=3)
    (eth0 / "carrier_down_count").write_text("1\n")
    (port,) = reader.read()
    assert port == NetworkPort(
        *("eth0", "interface", "", True, "up", 25_000_000_000),
        rx_bytes=700_000,
        tx_bytes=0,
        rx_errors=2,
        tx_errors=0,
        rx_missed=3,
        link_downs=1,
        rx_dropped=0,
        tx_dropped=0,
    )
    assert reader.read()[0].rx_bytes == 0
    assert reader.unknown == ()
    reader.close()
    reader.close()


def test_a_port_of_infiniband_counts_words_of_four_bytes(sysfs: Sysfs) -> None:
    files = {
        "counters/port_rcv_data": "1000",
        "counters/port_xmit_data": "0",
        "counters/port_xmit_wait": "70",
        "counters/symbol_error": "4",
        "hw_counters/out_of_sequence": "0",
        "hw_counters/packet_seq_err": "1",
        "hw_counters/local_ack_timeout_err": "2",
        "hw_counters/rnr_nak_retry_err": "3",
    }
    folder = sysfs.port("mlx5_0", "InfiniBand", files)
    reader = sysfs.reader()
    for name, value in {
        "counters/port_rcv_data": 1_250_001_000,
        "counters/port_xmit_data": 5,
        "counters/port_xmit_wait": 90,
        "counters/symbol_error": 5,
        "hw_counters/out_of_sequence": 7,
        "hw_counters/packet_seq_err": 9,
        "hw_counters/local_ack_timeout_err": 11,
        "hw_counters/rnr_nak_retry_err": 13,
    }.items():
        (folder / name).write_text(f"{value}\n")
    (port,) = reader.read()
    assert port == NetworkPort(
        *("mlx5_0/1", "infiniband", "", True, "active", 400_000_000_000),
        rx_bytes=5_000_000_000,
        tx_bytes=20,
        tx_wait_ticks=20,
        symbol_errors=1,
        out_of_sequence=7,
        packet_seq_err=8,
        local_ack_timeout_err=9,
        rnr_nak_retry_err=10,
    )
    assert port.total("error") == 1 + 7 + 8 + 9 + 10
    reader.close()


def test_other_drivers_have_other_names_and_count_bytes(sysfs: Sysfs) -> None:
    sysfs.port("efa_0", "Unspecified", {"hw_counters/rx_bytes": "10"}, "8: <unknown>")
    sysfs.port("bnxt_re0", "Ethernet", {"hw_counters/to_retransmits": "1", "hw_counters/tx_bytes": "7"})
    old = {"counters/port_rcv_data": "N/A (no PMA)", "hw_counters/rx_bytes": "4"}
    sysfs.port("old_0", "Ethernet", old, "4: RNIC")
    reader = sysfs.reader()
    ports = named(reader.read())
    assert (ports["efa_0/1"].kind, ports["efa_0/1"].rx_bytes, ports["efa_0/1"].tx_bytes) == ("rdma", 0, None)
    assert (ports["bnxt_re0/1"].kind, ports["bnxt_re0/1"].retransmits) == ("roce", 0)
    assert (ports["bnxt_re0/1"].rx_bytes, ports["bnxt_re0/1"].tx_bytes) == (None, 0)
    assert (ports["old_0/1"].kind, ports["old_0/1"].rx_bytes) == ("rdma", 0)
    reader.close()


def test_a_counter_that_falls_gives_no_rate(sysfs: Sysfs) -> None:
    eth0 = sysfs.interface("eth0")
    counted(eth0, rx_bytes=1 << 32, tx_bytes=50)
    reader = sysfs.reader()
    counted(eth0, rx_bytes=100, tx_bytes=80)
    (port,) = reader.read()
    assert (port.rx_bytes, port.tx_bytes) == (None, 30)
    counted(eth0, rx_bytes=160)
    assert reader.read()[0].rx_bytes == 60
    reader.close()


@pytest.mark.parametrize("text", ["", "N/A (no PMA)", None])
def test_a_file_without_a_number_costs_only_its_counter_until_it_has_one(
    sysfs: Sysfs, text: str | None
) -> None:
    eth0 = sysfs.interface("eth0")
    errors = eth0 / "statistics/rx_errors"
    errors.unlink() if text is None else errors.write_text(text)
    reader = sysfs.reader()
    counted(eth0, rx_bytes=9)
    (port,) = reader.read()
    assert (port.rx_bytes, port.rx_errors, port.tx_errors) == (9, None, 0)
    counted(eth0, rx_errors=5)
    sysfs.now += LOOK_AGAIN_SECONDS
    assert reader.read()[0].rx_errors is None, "what it counted before is not known"
    counted(eth0, rx_errors=7)
    assert reader.read()[0].rx_errors == 2
    reader.close()


def test_an_increase_that_could_not_be_read_comes_with_the_next_reading(sysfs: Sysfs) -> None:
    eth0 = sysfs.interface("eth0")
    reader = sysfs.reader()
    counted(eth0, rx_bytes="busy")
    assert reader.read()[0].rx_bytes is None
    counted(eth0, rx_bytes=40)
    assert reader.read()[0].rx_bytes == 40
    reader.close()


def test_interfaces_of_containers_and_machines_are_left_out(sysfs: Sysfs) -> None:
    sysfs.interface("lo", device=False, type="772")
    sysfs.interface("veth1a2b", device=False)
    sysfs.interface("docker0", device=False, uevent="DEVTYPE=bridge\nINTERFACE=docker0")
    sysfs.interface("vnet0", device=False, tun_flags="0x1002")
    sysfs.interface("ifb0", device=False, state="down")
    sysfs.interface("bond0", device=False, uevent="INTERFACE=bond0\nDEVTYPE=bond")
    sysfs.interface("bond9", device=False, state="down", uevent="DEVTYPE=bond")
    sysfs.interface("tun0", device=False, tun_flags="0x1001", state="unknown")
    sysfs.interface("eth0")
    sysfs.interface("eth1", state="down", speed="10000")
    sysfs.interface("ib0", type="32")
    sysfs.interface("eth0_0", phys_port_name="pf0vf0")
    (sysfs.interface("eth0v0", state="down") / "device/physfn").mkdir()
    (sysfs.interface("eth0v1") / "device/physfn").mkdir()
    # As in some virtual machines, the interface enP1 belongs to eth2, and eth2 also counts the bytes of enP1.
    enp1, eth2 = sysfs.interface("enP1"), sysfs.interface("eth2")
    (enp1 / "master").symlink_to(eth2)
    reader = sysfs.reader()
    ports = named(reader.read())
    assert set(ports) == {"bond0", "tun0", "eth0", "eth1", "ib0", "eth0v1", "enP1", "eth2"}
    assert {name for name, port in ports.items() if not port.physical} == {"bond0", "tun0", "ib0", "enP1"}
    assert (ports["eth1"].state, ports["eth1"].bits_per_second) == ("down", None)
    reader.close()


def test_without_an_interface_of_the_host_others_are_listed(sysfs: Sysfs) -> None:
    sysfs.interface("lo", device=False, type="772", state="unknown")
    reader = sysfs.reader()
    assert [port.name for port in reader.read()] == ["lo"]
    sysfs.interface("eth0", device=False)
    sysfs.now += LOOK_AGAIN_SECONDS
    assert [(port.name, port.rx_bytes) for port in reader.read()] == [("eth0", None)]
    assert [(port.name, port.rx_bytes) for port in reader.read()] == [("eth0", 0)]
    reader.close()


def test_a_port_that_is_gone_is_no_longer_listed_and_its_files_are_closed(
    sysfs: Sysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    sysfs.interface("eth0")
    eth1 = sysfs.interface("eth1")
    reader = sysfs.reader()
    files = len(os.listdir("/proc/self/fd"))
    gone = {
        int(fd)
        for fd in os.listdir("/proc/self/fd")
        if os.path.realpath(f"/proc/self/fd/{fd}").startswith(f"{eth1}/")
    }
    assert len(gone) == 9
    pread = os.pread

    def read(fd: int, length: int, offset: int) -> bytes:
        if fd in gone:
            raise OSError(19, "No such device")
        return pread(fd, length, offset)

    monkeypatch.setattr(os, "pread", read)
    assert [port.name for port in reader.read()] == ["eth0"]
    assert len(os.listdir("/proc/self/fd")) == files - 9
    gone.clear()
    counted(eth1, rx_bytes=7)
    # This eth1 is another interface of the same name, so its counts begin anew.
    assert [(port.name, port.rx_bytes) for port in reader.read()] == [("eth0", 0), ("eth1", None)]
    counted(eth1, rx_bytes=9)
    assert named(reader.read())["eth1"].rx_bytes == 2
    reader.close()
    assert len(os.listdir("/proc/self/fd")) == files - 18


def test_an_adapter_that_hangs_delays_no_window_and_loses_no_count(
    sysfs: Sysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    eth0 = sysfs.interface("eth0")
    reader = sysfs.reader()
    go_on, pread = threading.Event(), os.pread

    def hangs(fd: int, length: int, offset: int) -> bytes:
        go_on.wait(60)
        return pread(fd, length, offset)

    counted(eth0, rx_bytes=30)
    monkeypatch.setattr(os, "pread", hangs)
    monkeypatch.setattr(reader, "_patience", 0.01)
    assert reader.read() == ()
    assert reader.unknown == (NOT_IN_TIME,)
    assert reader.read() == ()
    go_on.set()
    monkeypatch.setattr(reader, "_patience", 60.0)
    end = time.monotonic() + 60
    while not (ports := reader.read()) and time.monotonic() < end:
        time.sleep(0.01)
    assert [port.rx_bytes for port in ports] == [30]
    reader.read()
    assert not reader.unknown
    reader.close()


def test_very_many_ports_are_bounded(sysfs: Sysfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "MOST_PORTS", 3)
    for number in range(5):
        sysfs.interface(f"eth{number}")
    sysfs.port("mlx5_0", "InfiniBand", {})
    reader = sysfs.reader()
    assert [port.name for port in reader.read()] == ["mlx5_0/1", "eth0", "eth1"]
    reader.close()


def test_names_and_states_are_cleaned(sysfs: Sysfs) -> None:
    sysfs.interface("eth\x1b[1m", state="up\x1b")
    reader = sysfs.reader()
    (port,) = reader.read()
    assert port.name.isprintable()
    assert port.state == "up"
    reader.close()


def test_the_network_of_this_machine_is_plausible() -> None:
    names = os.listdir("/sys/class/net") if os.path.isdir("/sys/class/net") else []
    reader = NetworkReader(patience_seconds=60)
    if not names:
        assert reader.read() == ()
        return
    ports = reader.read()
    assert reader.unknown == ()
    interfaces = [port for port in ports if port.kind == "interface"]
    assert {port.name for port in interfaces} <= set(names)
    assert interfaces or all(name == "lo" for name in names)
    for port in interfaces:
        assert port.rx_bytes is not None
        assert port.tx_bytes is not None
        assert 0 <= port.rx_bytes < 1 << 40
        assert port.rx_errors is not None
    reader.close()


def test_bytes_over_the_loopback_interface_of_this_machine_are_counted() -> None:
    """Sends a megabyte to itself, as there may be no other interface that counts."""
    folder = Path("/sys/class/net/lo")
    if not folder.is_dir():
        pytest.skip("this machine has no loopback interface")
    port = _Port(_Found(folder, NetworkPort("lo"), _OF_INTERFACE, "operstate"))
    before = port.read().values
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
    ):
        other, _ = server.accept()
        with other:
            for _ in range(16):
                one.sendall(bytes(1 << 16))
                left = 1 << 16
                while left:
                    left -= len(other.recv(left))
    moved = port.read().since(before)
    assert moved.rx_bytes is not None
    assert moved.rx_bytes >= 1 << 20
    port.close()
