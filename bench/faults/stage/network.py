"""Makes a network of this host and a network namespace, joined by a link. The link can be made to lose
segments, to deliver them late, or to interrupt a CPU.

The network namespace belongs to a process in it. When that process ends, the Linux kernel removes the
namespace and the link.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from pathlib import Path
from typing import Final

from stalltop.model.errors import StalltopError

INTO_NEW: Final = ("unshare", "--net")
"""Command that runs a program in a network namespace of its own."""
_COMMAND_SECONDS: Final = 30
_numbers = itertools.count()


class PrivateLink:
    """A network link between this host and the network namespace of process ``pid``. No other process uses
    the link."""

    def __init__(self, pid: int) -> None:
        # 198.18.0.0/15 is reserved for benchmarks (RFC 2544), so no host uses it.
        turn = next(_numbers)
        number = _number(os.getpid(), turn)
        net = f"198.{18 + (number >> 14)}.{(number >> 6) & 255}"
        low = (number & 63) * 4
        self.peer: Final = f"{net}.{low + 2}"
        """The IP address at the other end, in the namespace."""
        self.here: Final = f"{net}.{low + 1}"
        self._name = link_name(os.getpid(), turn)
        inside = self._inside = ("nsenter", "--target", str(pid), "--net")
        _run("ip", "link", "add", self._name, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        _run(*inside, "ip", "address", "add", f"{self.peer}/30", "dev", "eth0")
        _run(*inside, "ip", "link", "set", "eth0", "up")
        _run(*inside, "ip", "link", "set", "lo", "up")
        _run("ip", "address", "add", f"{self.here}/30", "dev", self._name)
        _run("ip", "link", "set", self._name, "up")

    def narrow(self, mbit: float, queue_bytes: int) -> None:
        """Lets this host send at most ``mbit`` Mbit/s over the link, and drops segments that do not fit into
        a queue of ``queue_bytes``."""
        shape = ("tbf", "rate", f"{mbit}mbit", "burst", "4kb", "limit", str(queue_bytes))
        _run("tc", "qdisc", "replace", "dev", self._name, "root", *shape)

    def steer(self, cpu: int) -> None:
        """Lets softirqs on CPU ``cpu`` handle the packets that arrive at this end (receive packet
        steering)."""
        Path(f"/sys/class/net/{self._name}/queues/rx-0/rps_cpus").write_text(cpu_mask(cpu))

    def delay(self, kbit: float) -> None:
        """Lets the other end send at most ``kbit`` kbit/s, without losing any segments. A timer of the
        Linux kernel releases the segments, so that they arrive late, like the segments of a slow host."""
        shape = ("tbf", "rate", f"{kbit}kbit", "burst", "1600", "limit", "1000000")
        _run(*self._inside, "tc", "qdisc", "replace", "dev", "eth0", "root", *shape)

    def hurry(self) -> None:
        """Ends `delay`."""
        _run(*self._inside, "tc", "qdisc", "delete", "dev", "eth0", "root")

    def close(self) -> None:
        """Removes the link, if it still exists."""
        subprocess.run(
            ["ip", "link", "delete", self._name],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_COMMAND_SECONDS,
            check=False,
        )


def cpu_mask(cpu: int) -> str:
    """Returns the mask of one CPU in the format of files in /sys: groups of 32 bits in hexadecimal, highest
    first."""
    return ",".join(f"{group:08x}" for group in (1 << cpu % 32, *[0] * (cpu // 32)))


def link_name(pid: int, turn: int) -> str:
    """Returns the name of the link that process ``pid`` makes after it has made ``turn`` others."""
    return f"stl{_number(pid, turn)}"


def _number(pid: int, turn: int) -> int:
    return (pid * 61 + turn) % (1 << 15)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StalltopError(f"cannot run {command[0]}: {error}", "apt install iproute2 util-linux") from error
    if done.returncode:
        raise StalltopError(f"{' '.join(command)}: {done.stderr.strip() or 'failed'}")
