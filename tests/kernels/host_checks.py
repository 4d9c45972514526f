"""Checks, in a guest, the events of the host that the BPF programs report: starts and ends of processes,
retransmits, stops and OOM kills. They must match what really happened in the guest."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Callable

from stalltop.demo.cgroups import Cgroups, container_id, container_path
from stalltop.probes.host.events import HostEvents, RawStop, RawVictim

CHILDREN = 7
SECONDS = 60.0
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)
"""A classic BPF program of one instruction, return 0, which drops every packet (linux/filter.h)."""
_SO_ATTACH_FILTER = 26
_TOTAL_RETRANSMITS_AT = 100
"""Offset of ``tcpi_total_retrans`` in struct tcp_info (linux/tcp.h)."""
_MEMORY_BYTES = 32 << 20


class HostCounts:
    """Collects the events of the host, here of the guest, that the BPF programs report."""

    def __init__(self) -> None:
        self.events = HostEvents()
        self.used = Counter[tuple[int, int, str]]()
        """Counts by PID, cgroup id and name."""
        self.victims: list[RawVictim] = []
        self.stops: list[RawStop] = []
        self.retransmits = Counter[tuple[int, int]]()
        """Retransmitted segments by inode of the socket and address family."""
        self.events.begin()
        _wait_until(lambda: self.events.loaded, "the programs to be loaded")

    def read(self) -> None:
        """Add the events since the previous read."""
        raw = self.events.read()
        assert not raw.dropped
        self.victims += raw.victims
        self.stops += raw.stops
        for again in raw.retransmits:
            self.retransmits[again.inode, again.family] += again.segments
        for use in raw.uses:
            for name in ("reclaims", "forks", "execs", "exits"):
                self.used[use.tgid, use.cgroup_id, name] += getattr(use, name)


def count_lives(host: HostCounts) -> None:
    """Check the counts of forks, execs and exits in a cgroup."""
    with Cgroups() as cgroups:
        cgroup = cgroups.make(container_path("docker", container_id()))
        rounds = " ".join(map(str, range(CHILDREN)))
        script = f"echo $$ > {cgroup}/cgroup.procs; for i in {rounds}; do /bin/true; done"
        shell = subprocess.Popen(["/bin/sh", "-c", script])
        assert shell.wait(SECONDS) == 0
        host.read()
        inode = cgroup.stat().st_ino
    assert host.used[shell.pid, inode, "forks"] == CHILDREN
    assert host.used[0, inode, "execs"] == CHILDREN
    assert host.used[0, inode, "exits"] == CHILDREN + 1, "exits of the children and of the shell"


def count_retransmits(host: HostCounts) -> None:
    """Check the count of retransmitted segments of a socket whose peer drops everything."""
    with socket.socket() as listener, socket.socket() as sender:
        fcntl.ioctl(listener, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", _IFF_UP))
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        sender.connect(listener.getsockname())
        receiver, _ = listener.accept()
        with receiver:
            program = ctypes.create_string_buffer(_DROP_ALL, len(_DROP_ALL))
            receiver.setsockopt(
                socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HxxxxxxQ", 1, ctypes.addressof(program))
            )
            sender.send(b"x")
            _wait_until(lambda: _sent_again(sender) >= 2, "two retransmitted segments")
            inode = os.fstat(sender.fileno()).st_ino

            def told() -> bool:
                host.read()
                return host.retransmits[inode, 4] == _sent_again(sender)

            _wait_until(told, "as many retransmits as the kernel counts")


def find_stops(host: HostCounts) -> None:
    """Check that the events name who sent SIGSTOP to a process and who froze its cgroup."""
    with Cgroups() as cgroups:
        cgroup = cgroups.make(container_path("docker", container_id()))
        child = subprocess.Popen(["/bin/sh", "-c", "read line"], stdin=subprocess.PIPE)
        (cgroup / "cgroup.procs").write_text(str(child.pid))
        child.send_signal(signal.SIGSTOP)
        (cgroup / "cgroup.freeze").write_text("1")
        (cgroup / "cgroup.freeze").write_text("0")
        child.kill()
        child.communicate(timeout=SECONDS)
        host.read()
        inode = cgroup.stat().st_ino
    told = {(stop.tgid, stop.cgroup_id): (stop.by_tgid, stop.signal) for stop in host.stops}
    assert told[child.pid, 0] == (os.getpid(), signal.SIGSTOP)
    assert told[0, inode] == (os.getpid(), 0)


def find_victim(host: HostCounts) -> None:
    """Check the event of the OOM kill of a process, and that the memory reclaims of the process before the
    kill are counted."""
    with Cgroups() as cgroups:
        cgroup = cgroups.make(container_path("containerd", container_id()))
        for parent in reversed([place for place in cgroup.parents if (place / "cgroup.procs").exists()]):
            with contextlib.suppress(OSError):
                (parent / "cgroup.subtree_control").write_text("+memory")
        (cgroup / "memory.max").write_text(str(_MEMORY_BYTES))
        child = os.fork()
        if not child:
            with contextlib.suppress(BaseException):
                (cgroup / "cgroup.procs").write_text(str(os.getpid()))
                pieces = [b"x" * (1 << 20) for _ in range(4 * _MEMORY_BYTES >> 20)]
                os._exit(bool(pieces))
            os._exit(3)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status == -signal.SIGKILL, status
        host.read()
        inode = cgroup.stat().st_ino
    assert [(victim.pid, victim.cgroup_id) for victim in host.victims] == [(child, inode)]
    assert host.victims[0].name.startswith("python")
    assert host.used[child, inode, "reclaims"] > 0


def _sent_again(sender: socket.socket) -> int:
    """Return the number of retransmitted segments that the Linux kernel counted for the socket."""
    info = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return int(struct.unpack_from("=I", info, _TOTAL_RETRANSMITS_AT)[0])


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.02)
