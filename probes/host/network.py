"""Reads the counters of the host's network interfaces and of its RDMA ports (InfiniBand, RoCE) from sysfs."""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from stalltop.model.network_ports import NetworkPort, PortKind
from stalltop.model.text.clean import clean
from stalltop.probes.aside import Aside

PATIENCE_SECONDS: Final = 0.2
"""Longest time, in seconds, for which a window waits for the counters. For the counters of an RDMA port, the
Linux kernel queries the adapter's firmware, which may be busy or may hang."""
LOOK_AGAIN_SECONDS: Final = 10.0
"""Interval, in seconds, between two searches for ports; a search also reads the speeds of the ports. Reading
the speed of an interface needs a lock of the Linux kernel (rtnl) that others may hold."""
MOST_PORTS: Final = 64
"""Maximum number of ports that are read. Ports of RDMA adapters and physical interfaces come first."""

NOT_IN_TIME: Final = "throughput of the network: its counters could not be read in time"

_OF_INTERFACE: Final[Mapping[str, tuple[str, ...]]] = {
    "rx_bytes": ("statistics/rx_bytes",),
    "tx_bytes": ("statistics/tx_bytes",),
    "rx_errors": ("statistics/rx_errors",),
    "tx_errors": ("statistics/tx_errors",),
    "rx_missed": ("statistics/rx_missed_errors",),
    "link_downs": ("carrier_down_count",),
    "rx_dropped": ("statistics/rx_dropped",),
    "tx_dropped": ("statistics/tx_dropped",),
}
"""For each counter of ``NetworkPort``: the files that may contain it, as paths in the interface's folder
(Documentation/ABI/testing/sysfs-class-net-statistics and sysfs-class-net)."""
_WORDS: Final = ("counters/port_rcv_data", "counters/port_xmit_data")
"""Files that count words of ``_WORD_BYTES`` instead of bytes."""
_WORD_BYTES: Final = 4
_OF_RDMA_PORT: Final[Mapping[str, tuple[str, ...]]] = {
    "rx_bytes": ("counters/port_rcv_data", "hw_counters/rx_bytes"),
    "tx_bytes": ("counters/port_xmit_data", "hw_counters/tx_bytes"),
    "rx_errors": ("counters/port_rcv_errors",),
    "link_downs": ("counters/link_downed",),
    "link_recoveries": ("counters/link_error_recovery",),
    "symbol_errors": ("counters/symbol_error",),
    "integrity_errors": ("counters/local_link_integrity_errors",),
    "buffer_overruns": ("counters/excessive_buffer_overrun_errors",),
    "out_of_sequence": ("hw_counters/out_of_sequence", "hw_counters/oos_drop_count"),
    "packet_seq_err": ("hw_counters/packet_seq_err", "hw_counters/seq_err_naks_rcvd"),
    "local_ack_timeout_err": ("hw_counters/local_ack_timeout_err", "hw_counters/retrans_timeout_events"),
    "retransmits": ("hw_counters/to_retransmits", "hw_counters/retrans_pkts"),
    "rnr_nak_retry_err": ("hw_counters/rnr_nak_retry_err", "hw_counters/rnr_naks_rcvd"),
    "out_of_buffer": ("hw_counters/out_of_buffer",),
    "duplicate_request": ("hw_counters/duplicate_request", "hw_counters/dup_req"),
    "rx_icrc_encapsulated": ("hw_counters/rx_icrc_encapsulated",),
    "rx_dropped": ("hw_counters/rx_drops",),
    "tx_dropped": ("counters/port_xmit_discards",),
    "tx_wait_ticks": ("counters/port_xmit_wait",),
    "ecn_marked": ("hw_counters/np_ecn_marked_roce_packets",),
    "cnp_handled": ("hw_counters/rp_cnp_handled",),
}
"""For each counter of ``NetworkPort``: the files that may contain it, as paths in the RDMA port's folder. The
first file that has a number is used. The names of ``hw_counters`` are those of the drivers mlx5, bnxt_re and
efa; the others are described in Documentation/ABI/stable/sysfs-class-infiniband."""
_STACKED: Final = frozenset(("bond", "team", "vlan", "wireguard", "ppp", "macsec"))
"""DEVTYPE of virtual interfaces that belong to the host. They are listed although other interfaces move their
bytes. Bridges, veth and tap interfaces belong to the host's containers and virtual machines: they are listed
only if there is no other interface."""
_IFF_TUN: Final = 0x0001
"""Flag of an interface that passes IP packets to a program, such as a VPN (linux/if_tun.h)."""
_INFINIBAND, _LOOPBACK = "32", "772"
"""Types of interfaces (linux/if_arp.h)."""
_REPRESENTOR: Final = re.compile(r"(?:c\d+)?pf\d+(?:vf|sf)\d+")
"""Matches the port name of an interface that represents a virtual function or subfunction of an adapter in
the adapter's switch (Documentation/networking/devlink/devlink-port.rst)."""
_RATE: Final = re.compile(r"([\d.]+) Gb/sec")
_MOST_BYTES: Final = 64


class _Found(NamedTuple):
    """A port that was found."""

    folder: Path
    about: NetworkPort
    files: Mapping[str, tuple[str, ...]]
    """By counter: names of the files that may have it."""
    state: str
    """The file with the state, which is read in each sample; '' if the state is read only in searches for
    ports."""


class _Port:
    """A port and its open files."""

    def __init__(self, found: _Found) -> None:
        self.found = found
        self._counters: dict[str, tuple[int, int]] = {}
        """By counter: its file descriptor, and the factor by which its value is multiplied."""
        self._state = -1
        """File descriptor of the state; -1 if there is none."""
        self.open_missing()

    def open_missing(self) -> None:
        """Opens the files that are not open yet. If a file is missing or has no number now, only its counter
        is missing."""
        folder = self.found.folder
        for counter, names in self.found.files.items():
            for name in names if counter not in self._counters else ():
                with suppress(OSError):
                    fd = os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC)
                    if _number(fd) is not None:
                        self._counters[counter] = fd, _WORD_BYTES if name in _WORDS else 1
                        break
                    os.close(fd)
        if self._state < 0 and self.found.state:
            with suppress(OSError):
                self._state = os.open(folder / self.found.state, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> _Sample:
        """Returns the present values. Raises OSError if the port is gone."""
        values = {
            name: number * factor
            for name, (fd, factor) in self._counters.items()
            if (number := _number(fd)) is not None
        }
        about = self.found.about
        state = clean(os.pread(self._state, _MOST_BYTES, 0)) if self._state >= 0 else about.state
        return _Sample(self, about, state, values)

    def close(self) -> None:
        """Closes the files."""
        for fd in (*(fd for fd, _ in self._counters.values()), self._state):
            if fd >= 0:
                os.close(fd)


class _Sample(NamedTuple):
    """The values of a port at one moment."""

    port: _Port
    about: NetworkPort
    state: str
    values: dict[str, int]
    """Counters by name, with the values that the Linux kernel shows."""

    def since(self, before: Mapping[str, int]) -> NetworkPort:
        """Returns the port with the increases of its counters since they had the values ``before``.

        A counter that fell was reset, or wrapped around: its increase is not known.
        """
        about = self.about
        increases: dict[str, Any] = {
            name: value - before[name]
            for name, value in self.values.items()
            if name in before and value >= before[name]
        }
        return NetworkPort(
            *(about.name, about.kind, about.host, about.physical, self.state),
            None if self.state == "down" else about.bits_per_second,
            **increases,
        )


class NetworkReader:
    """Reads the network ports of the host, once per window. Counts are those since the previous reading.

    The files are read on a thread of their own. They stay open, so reading a counter takes one system call.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """``root`` is the root of the host's files. The sysfs below it shows the interfaces of the host's
        network namespace. A container sees these there too, even if it has a network namespace of its own."""
        folders = (folder for folder in (root / "sys", Path("/sys")) if os.path.isdir(folder / "class/net"))
        self._sysfs = next(folders, None)
        self._clock = clock
        self._patience = patience_seconds
        self._aside = Aside("network")
        self._before: dict[_Port, dict[str, int]] = {}
        """Latest values of the counters of each port."""
        # Only the thread of ``_aside`` uses the following three attributes.
        self._looked = float("-inf")
        self._found: dict[str, _Found] = {}
        self._open: dict[str, _Port] = {}
        self.unknown: tuple[str, ...] = ()
        """Figures that the last reading could not measure, one line each."""
        self.read()

    def read(self) -> tuple[NetworkPort, ...]:
        """Returns the ports and their counts since the previous reading; none if reading takes too long. The
        counts of a new port are known from the next reading on."""
        samples = self._aside.call(self._sample, self._patience)
        self.unknown = () if samples is not None else (NOT_IN_TIME,)
        if samples is None:
            return ()
        ports = tuple(one.since(self._before.get(one.port, {})) for one in samples)
        self._before = {one.port: self._before.get(one.port, {}) | one.values for one in samples}
        return ports

    def close(self) -> None:
        """Closes the files, unless a reading hangs. May be called twice."""
        self._aside.call(self._let_go, self._patience)
        self._aside.close()

    def _let_go(self) -> None:
        for port in self._open.values():
            port.close()
        self._open.clear()

    def _sample(self) -> list[_Sample]:
        now = self._clock()
        if now - self._looked >= LOOK_AGAIN_SECONDS:
            self._looked = now
            self._look()
        samples = []
        for name, found in self._found.items():
            try:
                if name not in self._open:
                    self._open[name] = _Port(found)
                samples.append(self._open[name].read())
            except OSError:
                # The port is gone, but another port may have its name now, so the next sample searches for
                # ports.
                self._looked = float("-inf")
                if name in self._open:
                    self._open.pop(name).close()
        return samples

    def _look(self) -> None:
        """Looks for ports."""
        found = () if self._sysfs is None else (*_rdma_ports(self._sysfs), *_interfaces(self._sysfs))
        self._found = {one.about.name: one for one in found[:MOST_PORTS]}
        for name, port in list(self._open.items()):
            if name in self._found:
                port.found = self._found[name]
                port.open_missing()
            else:
                self._open.pop(name).close()


def _number(fd: int) -> int | None:
    """Returns the number in a file; None if there is none now, for instance because the adapter's firmware is
    busy. Raises OSError if the port is gone."""
    try:
        return int(os.pread(fd, _MOST_BYTES, 0))
    except ValueError:
        return None
    except OSError as error:
        if error.errno == errno.ENODEV:
            raise
        return None


def _interfaces(sysfs: Path) -> Sequence[_Found]:
    """Returns the interfaces of the host. Interfaces of containers and virtual machines are returned only if
    there are no others. The loopback interface is returned only if there is no other interface at all."""
    found: list[tuple[int, _Found]] = []
    for name in _names(sysfs / "class/net"):
        folder = sysfs / "class/net" / name
        kind = _text(folder / "type")
        rank = _rank(folder, kind)
        about = NetworkPort(
            clean(name),
            # In virtual machines, some interfaces count the bytes of the adapter below them, too. Such an
            # adapter does not count as physical, so that its bytes are not counted twice.
            physical=rank == 0 and kind != _INFINIBAND and not os.path.exists(folder / "master/device"),
            state=_text(folder / "operstate"),
            bits_per_second=_megabits(_text(folder / "speed")),
        )
        if rank >= 0:
            found.append((rank, _Found(folder, about, _OF_INTERFACE, "operstate")))
    found.sort(key=lambda pair: pair[0])
    ranks = [rank for rank, _ in found]
    if not ranks:
        return ()
    # Interfaces of the ranks 2 and 3 are listed only if there are none of a lower rank.
    return [one for rank, one in found if rank <= max(ranks[0], 1)]


def _rank(folder: Path, kind: str) -> int:
    """Returns the rank of an interface: the lower, the more closely it belongs to the host. 0: an adapter; 1:
    a bond, VLAN or VPN; 2: any other; 3: the loopback interface; -1: an interface that is not listed."""
    up = _text(folder / "operstate") != "down"
    if os.path.exists(folder / "device"):
        function = os.path.exists(folder / "device/physfn")
        stands_for_another = _REPRESENTOR.fullmatch(_text(folder / "phys_port_name")) is not None
        return -1 if stands_for_another or (function and not up) else 0
    if not up:
        return -1
    if kind == _LOOPBACK:
        return 3
    kinds = re.findall(r"^DEVTYPE=(.*)$", _text(folder / "uevent"), re.MULTILINE)
    with suppress(ValueError):
        if int(_text(folder / "tun_flags"), 16) & _IFF_TUN:
            return 1
    return 1 if _STACKED.intersection(kinds) else 2


def _rdma_ports(sysfs: Path) -> Iterator[_Found]:
    for adapter in _names(sysfs / "class/infiniband"):
        ports = sysfs / "class/infiniband" / adapter / "ports"
        for number in _names(ports):
            folder = ports / number
            rate = _RATE.match(_text(folder / "rate"))
            # The file has the number and the name of the state: ``4: ACTIVE``.
            state = _text(folder / "state").partition(":")[2].strip().lower()
            about = NetworkPort(
                clean(f"{adapter}/{number}"),
                _kind(_text(folder / "link_layer"), _text(ports.parent / "node_type")),
                state=state,
                bits_per_second=round(float(rate[1]) * 1e9) if rate and state == "active" else None,
            )
            yield _Found(folder, about, _OF_RDMA_PORT, "")


def _kind(link_layer: str, node_type: str) -> PortKind:
    """Returns the kind of an RDMA port. ``node_type`` begins with 1 for adapters of the InfiniBand
    architecture, which includes RoCE."""
    if link_layer == "InfiniBand":
        return "infiniband"
    return "roce" if link_layer == "Ethernet" and node_type.startswith("1") else "rdma"


def _megabits(text: str) -> int | None:
    """Returns the speed of an interface in bits per second; None if it is unknown. ``text`` is the speed in
    Mbit/s; it is -1 or '' if unknown."""
    return int(text) * 1_000_000 if text.isdecimal() else None


def _names(folder: Path) -> Iterable[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return ()


def _text(path: Path) -> str:
    """Returns the content of a small file; '' if it cannot be read."""
    try:
        return _words(path.read_bytes())
    except OSError:
        return ""


def _words(content: bytes) -> str:
    return "\n".join(map(clean, content.decode(errors="replace").strip().splitlines()))
