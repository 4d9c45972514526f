"""Tests that the events of the host (block I/O, reclaim, OOM kills, retransmits, forks) match what programs
did."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.faults.stage.controllers import Limits, disk_of
from stalltop.demo.cgroups import Cgroups, container_id, container_path
from stalltop.probes.host.block_io import BlockIoNames
from stalltop.probes.host.cgroup_pressure import Pressed, Pressures
from stalltop.probes.host.events import (
    NOTHING,
    HostEvents,
    LoadedEvents,
    RawBlockIo,
    RawUse,
    RawVictim,
    recipe,
    value_name,
)
from stalltop.probes.host.layout import HOST_ENTRIES, HostLoss
from stalltop.probes.host.parts import BLOCK_CGROUP, PARTS, Part
from stalltop.probes.host.socket_owners import SocketOwners
from stalltop.probes.programs.bpf_calls import put, run_raw_tracepoint
from stalltop.probes.programs.loading import load_prepared, pid_namespace
from stalltop.probes.programs.task_offsets import KernelTypes
from stalltop.probes.tenants.cgroups import layout
from stalltop.probes.tenants.owners import Owners
from stalltop.probes.tenants.process_names import ProcessNames
from stalltop.probes.tenants.tenants import Tenants
from tests.kernel.conftest import DISK_FILE_BYTES
from tests.kernel.harness import every_interrupt_counts, wait_until
from tests.kernel.host.host_programs import HostProgram

MIB = 1 << 20


class HostLog:
    """Collects the events of this host that the BPF programs report."""

    def __init__(self, parts: tuple[Part, ...] = PARTS) -> None:
        self.events = HostEvents(parts)
        self.block_io: list[RawBlockIo] = []
        self.uses: list[RawUse] = []
        self.victims: list[RawVictim] = []
        self.retransmits = Counter[tuple[int, int]]()
        """Retransmitted segments by inode of the socket and address family."""
        self.events.begin()
        wait_until(lambda: self.events.loaded, what="the programs to be loaded")

    def read(self) -> None:
        raw = self.events.read()
        assert not raw.dropped
        assert not raw.forgotten
        self.block_io += raw.block_io
        self.uses += raw.uses
        self.victims += raw.victims
        for again in raw.retransmits:
            self.retransmits[again.inode, again.family] += again.segments

    def io(self, pid: int, *, write: bool) -> list[RawBlockIo]:
        self.read()
        return [io for io in self.block_io if io.tgid == pid and io.write == write]

    def used(self, pid: int, cgroup_id: int | None = None) -> Counter[str]:
        self.read()
        found = Counter[str]()
        for use in self.uses:
            if use.tgid == pid and cgroup_id in (None, use.cgroup_id):
                found.update(use._asdict())
        return found


@pytest.fixture(scope="module")
def host() -> Iterator[HostLog]:
    host = HostLog()
    assert host.events.unknown == ()
    yield host
    host.events.close()


@dataclass(frozen=True)
class Limited:
    """The cgroups of a container with limits, and the reader of their pressure."""

    path: str
    unified: Path
    limits: Limits
    pressures: Pressures

    @property
    def places(self) -> tuple[Path, ...]:
        """Return the cgroups that the container's processes have to join."""
        return self.unified, *self.limits.places

    def look(self, tenant: str, program: HostProgram) -> Pressed:
        """Return the pressure of the cgroup since the previous call; ``program`` is the process of
        ``tenant``."""
        return self.pressures.look({tenant: (f"/{self.path}", [program.pid])})[tenant]


@contextlib.contextmanager
def limited(runtime: str, controller: str) -> Iterator[Limited]:
    path = container_path(runtime, container_id())
    with contextlib.ExitStack() as stack:
        unified = stack.enter_context(Cgroups()).make(path)
        pressures = stack.enter_context(contextlib.closing(Pressures()))
        limits = stack.enter_context(contextlib.closing(Limits(path, unified, (controller,))))
        yield Limited(path, unified, limits, pressures)


@every_interrupt_counts
@pytest.mark.parametrize(("what", "write"), [("read-direct", False), ("write-through", True)])
def test_every_byte_that_a_process_moves_is_reported(
    host: HostLog, disk_file: Path, what: str, write: bool
) -> None:
    with HostProgram(what, disk_file, 64 * 1024, 200) as program:
        host.io(program.pid, write=write)
        before = {io.device: io.bytes for io in host.io(program.pid, write=write)}
        earlier_ns = sum(io.service_ns for io in host.io(program.pid, write=write))
        began = time.monotonic_ns()
        program.begin()
        moved = program.done()
        took = time.monotonic_ns() - began
        found = host.io(program.pid, write=write)
        device = max(found, key=lambda io: io.bytes).device
        of_device = [io for io in found if io.device == device]
    assert moved == 200 * 64 * 1024
    # Before ``begin``, and a little after it, the interpreter reads its own files, which count as well.
    assert moved <= sum(io.bytes for io in of_device) <= moved + before.get(device, 0) + 4 * MIB
    requests = sum(io.requests for io in of_device)
    assert requests >= 200
    # The program waits for each read, so there is one request at a time. If the file is fragmented, a read of
    # 64 KiB becomes several requests at the same time, at most 16 of one page each.
    at_once = 1 if requests < 1.5 * 200 else 64 // 4
    assert 0 < sum(io.service_ns for io in of_device) <= earlier_ns + took * at_once
    assert 0 < max(io.max_ns for io in of_device) <= took
    assert f"{device >> 20}:{device & 0xFFFFF}" == disk_of(disk_file.parent)


@every_interrupt_counts
def test_requests_delayed_by_a_limit_belong_to_their_process(host: HostLog, disk_file: Path) -> None:
    """The Linux kernel issues a delayed request later, from one of its own threads."""
    with limited("docker", "blkio") as cell, contextlib.closing(Tenants()) as tenants:
        cell.limits.read_rate(disk_of(disk_file.parent), MIB)
        with HostProgram("read-direct", disk_file, 64 * 1024, 32, cell.places) as program:
            owners = Owners(tenants, ProcessNames())
            owners.begin(set())
            owner = owners.of(program.pid)
            assert owners.found[owner.tenant].cgroup_path == f"/{cell.path}"
            cell.look(owner.tenant, program)
            host.read()
            host.block_io.clear()
            began = time.monotonic_ns()
            program.begin()
            assert program.done() == 2 * MIB
            took = time.monotonic_ns() - began
            host.read()
            pressed = {owner.tenant: cell.look(owner.tenant, program)}
            records = BlockIoNames(owners, cell.pressures).records(host.block_io, pressed)
            own = [io for io in records if io.pid == program.pid and not io.write]
    assert [io.tenant for io in own] == [owner.tenant]
    assert own[0].bytes >= 2 * MIB
    # 2 MiB at 1 MiB/s take two seconds, less an initial burst. ``queued_ns`` is the time in which the cgroup
    # had no request in flight; a little of this time may lie before the program's first request.
    assert 0.5e9 < own[0].queued_ns <= 1.1 * took
    assert own[0].queued_ns > 5 * own[0].service_ns
    assert not [io for io in records if io.tenant == owner.tenant and not io.pid and not io.write]


def test_reclaim_under_a_limit_is_counted_for_the_process(host: HostLog, disk_file: Path) -> None:
    with open(disk_file, "rb") as file:  # cached pages are charged to the first reader, so drop them
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with limited("podman", "memory") as cell:
        cell.limits.memory(16 * MIB)
        with HostProgram("read-cached", disk_file, MIB, 4, cell.places) as program:
            cell.look("a", program)
            program.begin()
            began = time.monotonic_ns()
            assert program.done() == 4 * DISK_FILE_BYTES
            took = time.monotonic_ns() - began
            pressed = cell.look("a", program)
            used = host.used(program.pid, cell.unified.stat().st_ino)
    assert pressed.limit_hits > 0
    assert pressed.refaults > 0
    assert (pressed.oom_kills, pressed.limit_kills) == (0, 0)
    assert used["reclaims"] > 0
    assert 0 < used["reclaim_ns"] <= took


def test_an_oom_kill_is_reported_with_its_victim_and_limit(host: HostLog, disk_file: Path) -> None:
    with limited("containerd", "memory") as cell:
        cell.limits.memory(32 * MIB)
        with HostProgram("use-memory", disk_file, MIB, 256, cell.places) as program:
            assert cell.look("a", program).memory_limit_bytes == 32 * MIB
            began = time.monotonic_ns()
            program.begin()
            wait_until(lambda: program.process.poll() is not None, what="the kill")
            host.read()
            pressed = cell.look("a", program)
        folders = {str(place) for place in cell.places}
        victims = [victim for victim in host.victims if victim.pid == program.pid]
        assert [victim.cgroup_id for victim in victims] == [cell.unified.stat().st_ino]
    assert victims[0].name.startswith("python")
    assert began <= victims[0].time_ns <= time.monotonic_ns()
    assert (pressed.oom_kills, pressed.limit_kills) == (1, 1)
    assert pressed.limit_hits > 0
    assert pressed.memory_folder in folders
    assert pressed.memory_version in (1, 2)
    assert pressed.memory_cgroup == f"/{cell.path}"


DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)
"""A classic BPF program of one instruction, return 0, which drops every packet (linux/filter.h)."""
SO_ATTACH_FILTER = 26
TOTAL_RETRANSMITS_AT = 100
"""Offset of ``tcpi_total_retrans`` in struct tcp_info (linux/tcp.h)."""


def drop_all(receiver: socket.socket) -> None:
    program = ctypes.create_string_buffer(DROP_ALL, len(DROP_ALL))
    receiver.setsockopt(
        socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HxxxxxxQ", 1, ctypes.addressof(program))
    )


def sent_again(sender: socket.socket) -> int:
    """Return the number of retransmitted segments that the Linux kernel counted for the socket."""
    info = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return int(struct.unpack_from("=I", info, TOTAL_RETRANSMITS_AT)[0])


@pytest.mark.parametrize(
    ("bound", "to", "family"),
    [("127.0.0.1", "127.0.0.1", 4), ("::1", "::1", 6), ("::", "::ffff:127.0.0.1", 4)],
    ids=["v4", "v6", "v4 by a v6 socket"],
)
def test_retransmitted_segments_belong_to_their_socket(
    host: HostLog, bound: str, to: str, family: int
) -> None:
    kind = socket.AF_INET6 if ":" in bound else socket.AF_INET
    with socket.socket(kind) as listener, socket.socket(kind) as sender:
        listener.bind((bound, 0))
        listener.listen()
        sender.connect((to, listener.getsockname()[1]))
        receiver, _ = listener.accept()
        with receiver:
            drop_all(receiver)
            sender.send(b"x")
            wait_until(lambda: sent_again(sender) >= 3, what="three retransmitted segments")
            inode = os.fstat(sender.fileno()).st_ino

            def told() -> bool:
                host.read()
                return host.retransmits[inode, family] == sent_again(sender)

            wait_until(told, what="as many retransmits as the kernel counts")
            assert SocketOwners().look({inode}, {os.getpid()}) == {inode: os.getpid()}
    assert not host.retransmits[inode, 10 - family]


def test_forks_execs_and_exits_are_counted_exactly(host: HostLog) -> None:
    with Cgroups() as cgroups:
        cgroup = cgroups.make(container_path("docker", container_id()))
        script = f"read go; echo $$ > {cgroup}/cgroup.procs; for i in 1 2 3 4 5 6 7; do /bin/true; done"
        with subprocess.Popen(
            ["/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as shell:
            assert shell.stdin is not None
            shell.stdin.write("\n")
            shell.stdin.flush()
            shell.wait(timeout=60)
        of_shell = host.used(shell.pid, cgroup.stat().st_ino)
        of_children = host.used(0, cgroup.stat().st_ino)
    assert of_shell["forks"] == 7
    assert of_children["execs"] == 7
    assert of_children["exits"] == 8, "exits of seven children and of the shell"


def test_new_threads_do_not_count_as_forks(host: HostLog) -> None:
    program = "import threading; [threading.Thread(target=int).start() for _ in range(9)]"
    process = subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert process.returncode == 0
    before = host.used(os.getpid())["forks"]
    threads = subprocess.Popen([sys.executable, "-c", program])
    threads.wait(timeout=60)
    assert host.used(threads.pid)["forks"] == 0
    assert host.used(os.getpid())["forks"] == before + 1


def test_new_cgroups_are_reported_with_their_paths_even_if_they_are_gone(host: HostLog) -> None:
    with contextlib.closing(Cgroups()) as cgroups:
        paths = [
            container_path("docker", container_id()),
            container_path("docker", f"{'x' * 200}/{'y' * 200}"),
        ]
        made = [cgroups.make(path) for path in paths]
        ids = [place.stat().st_ino for place in made]
    assert not any(place.exists() for place in made)
    found = host.events.made_cgroups()
    assert found[ids[0]] == f"/{paths[0]}"
    assert ids[1] not in found, "its path is too long"
    assert all(path.startswith("/") for path in found.values())
    assert not host.events.made_cgroups().keys() & {*ids}


def test_cgroups_of_v1_are_not_taken_for_those_of_v2(host: HostLog) -> None:
    if layout().kind != "hybrid":
        pytest.skip("this host has no cgroup v1")
    host.events.made_cgroups()
    name = f"stalltop-test-{os.getpid()}"
    place = Path("/sys/fs/cgroup/pids") / name
    place.mkdir()
    place.rmdir()
    assert f"/{name}" not in host.events.made_cgroups().values()


def test_a_part_that_the_kernel_refuses_does_not_affect_others() -> None:
    lost = Part("unknown member", "WITH_NOTHING", {"task_struct": ("no_such_member",)}, {})
    nowhere = Part("unknown tracepoint", "WITH_RECLAIM", {}, {"reclaim_begins": ("no_such_tracepoint",)})
    lives = next(part for part in PARTS if part.flag == "WITH_LIVES")
    host = HostLog((lost, nowhere, lives))
    try:
        what = [line.partition(":")[0] for line in host.events.unknown]
        assert "unknown member" in what
        assert "unknown tracepoint" in what
        subprocess.run(["/bin/true"], check=True, timeout=60)
        assert host.used(os.getpid())["forks"] == 1
    finally:
        host.events.close()


def test_a_part_that_cannot_be_compiled_is_reported_and_the_others_run() -> None:
    broken = Part("broken part", "WITH_BLOCK", {}, {})  # lacks the offsets that its BPF program needs
    lives = next(part for part in PARTS if part.flag == "WITH_LIVES")
    host = HostLog((broken, lives))
    try:
        assert [line.partition(":")[0] for line in host.events.unknown] == ["broken part"]
        subprocess.run(["/bin/true"], check=True, timeout=60)
        assert host.used(os.getpid())["forks"] == 1
    finally:
        host.events.close()


def test_events_whose_begin_is_forgotten_are_counted() -> None:
    parts = [part for part in PARTS if part.flag in ("WITH_BLOCK", "WITH_RECLAIM")]
    types = KernelTypes.of_kernel()
    members = [each for part in parts for each in part.members.items()] + [*BLOCK_CGROUP.items()]
    offsets = {
        value_name(struct, member): at
        for struct, names in members
        for member, at in types.offsets(struct, names).items()
    }
    values = {**pid_namespace(), **offsets}
    fds, *_ = load_prepared(recipe(parts, values), values)
    try:
        events = LoadedEvents({}, os.dup(fds["lost"]), os.dup(fds["active"]), [])
        assert events.lost() == (0, 0)
        run_raw_tracepoint(fds["request_done"], 0, 0, 0)  # the completion of a request that is not known
        run_raw_tracepoint(fds["reclaim_ends"], 0)
        assert events.lost() == (0, 2)
        assert events.lost() == (0, 0)
        # The table of cgroups forgets the oldest.
        put(
            fds["lost"],
            int(HostLoss.HOST_ACTIVE).to_bytes(4, sys.byteorder),
            (HOST_ENTRIES + 5).to_bytes(8, sys.byteorder),
        )
        for cgroup in range(HOST_ENTRIES - 100):
            put(fds["active"], cgroup.to_bytes(8, sys.byteorder), bytes(8))
        assert events.lost() == (0, 105)
        assert events.lost() == (0, 0)
        events.close()
    finally:
        for fd in fds.values():
            os.close(fd)


def test_closing_the_events_while_they_load_leaves_nothing() -> None:
    before = bpf_descriptors()
    events = HostEvents()
    events.begin()
    events.close()
    wait_until(lambda: events.loaded, what="the end of the loading")
    assert events.read() == NOTHING
    assert bpf_descriptors() == before


def bpf_descriptors() -> int:
    """Return how many BPF programs, maps and links this process holds."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found += "bpf" in os.readlink(f"/proc/self/fd/{name}")
    return found
