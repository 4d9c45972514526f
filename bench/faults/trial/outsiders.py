"""Recognizes processes of the host that are not part of a trial (outsiders). A chain that rightly blames such
a process is not an error of the diagnosis."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from bench.faults.stage.stage import Place
from bench.faults.trial.watcher import Seen
from stalltop.diagnosis.engine import LOOK_SECONDS
from stalltop.model.chain import Chain, Link
from stalltop.model.window import Window

COVERED: Final = 0.9
"""A process is rightly blamed if it used at least this share of the CPU or disk time with which it is
charged. The share is less than 1 because use and charge are not measured over exactly the same time."""


def is_excused(looks: Sequence[Seen], chain: Chain, places: Sequence[Place]) -> bool:
    """Returns whether ``chain``, which is open in the last of ``looks``, rightly blames a process outside of
    the trial: its first culprit is not part of the trial, and a separate measurement shows that this culprit
    used about as much CPU or disk time as it is charged with.

    Without this proof, returns False, and the chain counts as wrong. Also returns False if the culprit is
    this process itself, in which the tracer runs.
    """
    first = next(iter(chain.culprits), None)
    if first is None or not first.tenant or first.pid == os.getpid():
        return False
    if is_here(looks[-1].window, first.tenant, places) or first.ns_per_s is None:
        return False
    windows = list(_recent(looks))
    seconds = sum(window.seconds for window in windows)
    used = sum(_disk_ns(window, first) if first.device else _cpu_ns(window, first) for window in windows)
    return seconds > 0 and used > 0 and used / seconds >= COVERED * first.ns_per_s


def taken_by_outsiders(looks: Sequence[Seen], victim: Place, places: Sequence[Place]) -> float:
    """Returns how long ``victim`` waited for CPUs on which processes outside of the trial ran, as a share of
    the length of ``looks``. If several threads of the victim wait at once, the waits of all of them count."""
    seconds = sum(look.window.seconds for look in looks)
    taken_ns = sum(
        charge.ns
        for look in looks
        for charge in look.window.evidence.charges
        if charge.kind == "runqueue"
        and is_about(look.window, charge.tenant, victim)
        and not is_here(look.window, charge.culprit_tenant, places)
    )
    return taken_ns / 1e9 / seconds if seconds else 0.0


def is_here(window: Window, tenant: str, places: Sequence[Place]) -> bool:
    """Returns whether a tenant of the window is one of ``places``."""
    return any(is_about(window, tenant, place) for place in places)


def is_about(window: Window, tenant: str, place: Place) -> bool:
    """Returns whether a tenant of the window is ``place``."""
    found = window.tenants.get(tenant)
    return found is not None and found.container_id == place.identity


def _recent(looks: Sequence[Seen]) -> Iterator[Window]:
    """Returns the last windows of ``looks``, as many as the diagnosis examines at a time
    (``LOOK_SECONDS``)."""
    count, seconds = 0, 0.0
    while count < len(looks) and seconds < LOOK_SECONDS:
        count += 1
        seconds += looks[-count].window.seconds
    return (look.window for look in islice(reversed(looks), count))


def _cpu_ns(window: Window, culprit: Link) -> int:
    """Returns the CPU time of the culprit's process in the window; if the culprit stands for several
    processes of a tenant, that of the tenant."""
    if not culprit.pid:
        return sum(use.cpu_ns for use in window.evidence.tenants if use.tenant == culprit.tenant)
    return sum(use.cpu_ns for use in window.evidence.processes if use.pid == culprit.pid)


def _disk_ns(window: Window, culprit: Link) -> int:
    """Returns how long the disk worked on the requests of the culprit's process in the window, ns."""
    return sum(
        io.service_ns
        for io in window.evidence.block_io
        if (io.tenant, io.pid, io.device) == (culprit.tenant, culprit.pid, culprit.device)
    )
