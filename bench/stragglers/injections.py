"""Faults that make the rank of one host late, and how each begins and ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import Final

from bench.stragglers.hosts import GIVE, READS, JobHost
from stalltop.demo.caller import Caller

_MAX_MHZ: Final = 1980


@dataclass(frozen=True, slots=True)
class Injection:
    """One kind of fault."""

    causes: tuple[str, ...]
    """The causes that are right: keys of ``diagnosis.causes.CAUSES``."""
    neighbour: bool
    """Whether the host's neighbour is the culprit."""
    begin: Callable[[JobHost, Random, ExitStack], object]
    """Begins the fault on a host, and adds what ends it."""
    prepare: Callable[[JobHost], object] = bool
    """Brings the host into the healthy state in which the fault can happen."""
    restore: Callable[[JobHost], object] = bool
    """Ends that state."""


def _ending(process: Caller, end: ExitStack) -> None:
    end.callback(process.close)


def _cpu(host: JobHost, chance: Random, end: ExitStack) -> None:
    _ending(host.beside("batch", "!5000", threads=chance.randint(8, 16)), end)


def _disk(host: JobHost, chance: Random, end: ExitStack) -> None:
    _ending(host.beside("backup", "@read:load:1048576", threads=chance.randint(24, 40)), end)


def _loader(host: JobHost, chance: Random, end: ExitStack) -> None:
    end.callback(host.read_from, "memory")
    host.load(f"@cached:data:131072:{READS} !{chance.randint(45_000, 80_000)} {GIVE}")


def _network(host: JobHost, chance: Random, end: ExitStack) -> None:
    # The server sends one or two segments per request, an answer and an acknowledgement, of 66 bytes each.
    # The link sends them while the rank makes its step, so only what takes longer than a step makes it late.
    host.link.delay(2 * 66 * 8 / chance.uniform(150, 300))
    end.callback(host.link.hurry)


def _lock(host: JobHost, chance: Random, end: ExitStack) -> None:
    held_us = chance.randint(40_000, 80_000)
    _ending(host.beside("indexer", f"@lock:shared:0:{held_us} ~{held_us // 8}"), end)


def _gpu(host: JobHost, chance: Random, end: ExitStack) -> None:
    part = chance.uniform(0.2, 0.4)
    listed = host.listed
    host.device.show(
        **listed,
        reasons=0x20 | 0x40,
        sm_clock=int(part * _MAX_MHZ),
        utilization=97,
        temperature=92,
        thermal_violation="700000000/s",
    )
    end.callback(host.device.show, **listed)
    host.gpu_takes(1 / part)
    end.callback(host.gpu_takes, 1.0)


INJECTIONS: Final[Mapping[str, Injection]] = {
    "CPU": Injection(("cpu_contention",), True, _cpu),
    "disk": Injection(
        ("loader_disk",),
        True,
        _disk,
        lambda host: host.read_from("disk"),
        lambda host: host.read_from("memory"),
    ),
    "loader": Injection(("loader_cpu",), False, _loader),
    "network": Injection(("remote_service",), False, _network),
    "lock": Injection(("lock_contention",), True, _lock),
    "GPU": Injection(("gpu_thermal",), False, _gpu),
}
"""By name."""
