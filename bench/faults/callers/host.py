"""Faults of the host that slow down the threads that call CUDA."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.faults.callers.ranks import remote_rank
from bench.faults.stage.controllers import disk_of
from bench.faults.stage.fault import Truth, fault
from bench.faults.stage.network import PrivateLink
from bench.faults.stage.stage import Stage
from bench.faults.stage.workloads import Speed, disk_victim, latencies, step, trainer
from stalltop.demo.caller import Caller

CPUS: Final = len(os.sched_getaffinity(0))
_MIB: Final = 1 << 20


@fault("cpu_contention", common=True)
def cpu_contention(stage: Stage) -> Iterator[Truth]:
    """Another tenant computes on all CPUs."""
    victim = stage.tenant("victim")
    trainer(stage, victim, compute_ms=stage.between("compute_ms", 3, 8), sync_ms=5)
    hog = stage.tenant("hog")
    hogs = stage.whole("hogs_per_cpu", 2, 4)
    yield Truth(victim, hog)
    stage.process(hog, "batch", "!5000", threads=hogs * CPUS)


@fault("own_threads", common=True)
def own_threads(stage: Stage) -> Iterator[Truth]:
    """The victim's process starts more computing threads than there are CPUs."""
    victim = stage.tenant("victim")
    caller = trainer(stage, victim, compute_ms=stage.between("compute_ms", 3, 8), sync_ms=5)
    threads = stage.whole("threads_per_cpu", 2, 5)
    yield Truth(victim)
    caller.start("!3000", threads=threads * CPUS)


@fault("cfs_throttling", common=True)
def cfs_throttling(stage: Stage) -> Iterator[Truth]:
    """The victim's CPU quota is set below the CPU time that the victim uses."""
    victim = stage.tenant("victim", ("cpu",))
    trainer(stage, victim, compute_ms=stage.between("compute_ms", 4, 8), sync_ms=4)
    yield Truth(victim)
    assert victim.limits is not None
    victim.limits.cpu(stage.between("quota_cpus", 0.12, 0.3))


@fault("cpu_pinning", common=True)
def cpu_pinning(stage: Stage) -> Iterator[Truth]:
    """All processes of the victim are bound to one CPU, while other CPUs have little to do."""
    victim = stage.tenant("victim")
    # Each process needs about half a CPU: together about one CPU or more, and about half of all CPUs at most.
    count = stage.whole("processes", 2, min(max(CPUS, 2), 4))
    compute_ms = stage.between("compute_ms", 6, 9)
    callers = [trainer(stage, victim, compute_ms=compute_ms, sync_ms=8) for _ in range(count)]
    cpu = stage.whole("cpu", 0, CPUS - 1)
    yield Truth(victim)
    for caller in callers:
        _pin(caller, {cpu})


def _pin(caller: Caller, cpus: set[int]) -> None:
    for thread in Path(f"/proc/{caller.pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), cpus)


@fault("interrupts")
def interrupts(stage: Stage) -> Iterator[Truth]:
    """Another tenant floods the host with packets, and the softirqs that handle them run on the victim's
    CPU."""
    *others, cpu = sorted(os.sched_getaffinity(0))
    victim, sender = stage.tenant("victim"), stage.tenant("sender")
    stage.files.remember("data")
    # The victim does a fixed amount of work. It does not compute for a fixed CPU time, because some Linux
    # kernels count interrupts as CPU time of the thread.
    reads = stage.whole("reads", 20, 60)
    caller = trainer(stage, victim, before=f"@cached:data:1048576:{reads}", sync_ms=3)
    _pin(caller, {cpu})
    flooder = stage.process(sender, "client", own_network=True)
    link = PrivateLink(flooder.pid)
    stage.closing(link.close)
    stage.closing(flooder.close)
    link.steer(cpu)
    _pin(flooder, set(others) or {cpu})
    burst = stage.whole("packets", 512, 2048)
    yield Truth(victim)
    flooder.start(f"@flood:{link.here}:9:{burst} ~50")


@fault("slow_disk", common=True)
def slow_disk(stage: Stage) -> Iterator[Truth]:
    """The victim reads from a disk that another tenant loads, or its own I/O limit slows its reads down."""
    how, victim, more = disk_victim(stage)
    size = stage.chance.choice((65_536, 131_072, 262_144))
    stage.notes["read_bytes"] = size
    trainer(stage, victim, before=f"@read:data:{size} {more}".rstrip(), sync_ms=6)
    loader = stage.tenant("disk-load") if how == "neighbour" else None
    yield Truth(victim, loader)
    if loader is None:
        assert victim.limits is not None
        victim.limits.read_rate(disk_of(stage.files.folder), int(size * stage.between("reads_per_s", 10, 40)))
    else:
        stage.process(loader, "backup", "@read:load:1048576", threads=stage.whole("readers", 12, 32))


@fault("fsync")
def fsync(stage: Stage) -> Iterator[Truth]:
    """The victim writes a checkpoint and calls fsync, while another tenant writes to the same disk, or the
    victim's own I/O limit slows its writes down."""
    how = stage.one_of("how", ("neighbour", "limit"))
    victim = stage.tenant("victim", ("blkio",) if how == "limit" else ())
    size = stage.chance.choice((65_536, 262_144, 1_048_576))
    stage.notes["checkpoint_bytes"] = size
    trainer(stage, victim, before=f"@save:data:{size}", sync_ms=6)
    writer = stage.tenant("writer") if how == "neighbour" else None
    yield Truth(victim, writer)
    if writer is None:
        assert victim.limits is not None
        rate = int(size * stage.between("checkpoints_per_s", 8, 30))
        victim.limits.write_rate(disk_of(stage.files.folder), rate)
    else:
        stage.process(writer, "backup", "@write:load:1048576", threads=stage.whole("writers", 8, 24))


@fault("reclaim", common=True)
def reclaim(stage: Stage) -> Iterator[Truth]:
    """The victim's memory limit is set below the size of the file that the victim reads again and again."""
    victim = stage.tenant("victim", ("memory",))
    stage.files.forget("data")
    trainer(stage, victim, before=f"@cached:data:1048576:{stage.whole('reads', 2, 6)}", sync_ms=5)
    yield Truth(victim)
    assert victim.limits is not None
    victim.limits.memory(stage.whole("limit_mib", 24, 64) * _MIB)


@fault("major_faults", common=True)
def major_faults(stage: Stage) -> Iterator[Truth]:
    """The pages of a file that the victim has mapped are dropped from memory again and again."""
    victim = stage.tenant("victim")
    pages = stage.whole("pages", 16, 64)
    stage.files.remember("data")
    caller = trainer(stage, victim, before=f"@touch:data:{pages}", sync_ms=5)
    yield Truth(victim)
    caller.change(f"@touch:data:{pages}:1 !1000 {step()}")


@fault("oom_kill")
def oom_kill(stage: Stage) -> Iterator[Truth]:
    """A process of the victim uses more memory than the tenant's limit."""
    victim = stage.tenant("victim", ("memory",))
    assert victim.limits is not None
    victim.limits.memory(96 * _MIB)
    trainer(stage, victim)
    hungry = stage.process(victim, "preprocess", "@use:1048576 ~20000")
    yield Truth(victim)
    hungry.change(f"@use:{stage.whole('wanted_mib', 200, 400) * _MIB}")


@fault("remote_service", "service-elsewhere", healthy_seconds=6.0)
def service_elsewhere(stage: Stage) -> Iterator[Truth]:
    """Answers of a server beyond a network link come 30 to 100 ms late."""
    victim = stage.tenant("victim")
    server = stage.process(stage.tenant("server"), "server", own_network=True)
    link = PrivateLink(server.pid)
    stage.closing(link.close)
    server.start(f"@serve:{link.peer}:7000")
    stage.process(victim, "train.py", f"!1000 @ask:{link.peer}:7000:100 {step()}", latencies=latencies(5))
    yield Truth(victim)
    # The server sends two segments per request, an answer and an acknowledgement, of at least 66 bytes each.
    link.delay(2 * 66 * 8 / stage.between("late_ms", 30, 100))


@fault("lock_contention", common=True)
def lock_contention(stage: Stage) -> Iterator[Truth]:
    """Another process holds a lock for 8 to 40 ms at a time, and the victim takes this lock in every step.
    The process belongs to the victim or to another tenant."""
    victim = stage.tenant("victim")
    trainer(stage, victim, before="@lock:shared:100", sync_ms=5)
    whose = stage.one_of("holder", ("own", "other"))
    holder = stage.tenant("holder") if whose == "other" else victim
    held_us = stage.whole("held_us", 8_000, 40_000)
    yield Truth(victim, holder if whose == "other" else None)
    stage.process(holder, "checkpointer", f"@lock:shared:0:{held_us} ~{held_us // 8}")


@fault("tcp_retransmits", common=True, healthy_seconds=6.0)
def tcp_retransmits(stage: Stage) -> Iterator[Truth]:
    """The victim's network link loses segments. Either the calling thread sends over this link, or another
    thread of its process does, as NCCL's proxy thread does for collectives."""
    victim = stage.tenant("victim")
    peer = stage.tenant("parameter-server")
    server = stage.process(peer, "server", own_network=True)
    link = PrivateLink(server.pid)
    stage.closing(link.close)
    server.start(f"@serve:{link.peer}:7000")
    send = f"@ask:{link.peer}:7000:{stage.whole('sent_bytes', 50_000, 400_000)}"
    whose = stage.one_of("sender", ("own", "beside"))
    speed = Speed(stage)
    if whose == "own":
        stage.process(victim, "train.py", f"!1000 {send} {step()}", latencies=latencies(5))
    else:
        remote_rank(stage, victim, speed).start(f"~5000 {send}")
    slower = stage.between("slower", 1.8, 4.0)
    yield Truth(victim)
    link.narrow(stage.between("mbit", 50, 200), stage.whole("queue_bytes", 8_000, 20_000))
    if whose == "beside":  # stand-in collectives do not use the link, so the lost segments do not slow them
        speed.slower(slower)
