"""Runs the checks in a guest: every program loads, and known calls are counted, split and charged exactly."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stalltop.demo.build import Built
from stalltop.model.errors import TracingError
from stalltop.probes.programs.task_offsets import knows_sessions, knows_uprobe_multi
from stalltop.probes.stacks.layout import SAMPLE_NS
from stalltop.probes.tracer.kernel_side import KernelSide, Way
from tests.kernels import host_checks, traced
from tests.kernels.verifier import Verified, watched_loads

FIRST_WITH_MULTI: Final = (6, 6)
"""The first kernel with ``uprobe_multi`` links."""
FIRST_WITH_SESSIONS: Final = (6, 13)


@dataclass(frozen=True, slots=True)
class CheckedPrograms:
    """Paths of the test programs, which are the same in a guest as on the host."""

    driver: Path
    waiter: Path
    relay: Path
    standin: Path

    @property
    def built(self) -> Built:
        """The stand-in CUDA libraries and their caller."""
        return Built(self.standin)


class Report:
    """Writes lines of JSON for the host to the serial port ``path``."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_NOCTTY)

    def __call__(self, kind: str, **facts: object) -> None:
        data = json.dumps({"kind": kind, **facts}).encode() + b"\n"
        while data:
            data = data[os.write(self._file, data) :]

    @contextlib.contextmanager
    def check(self, name: str, **facts: object) -> Iterator[dict[str, object]]:
        """Report whether the block passes, together with what the block puts into the yielded dictionary."""
        found = dict(facts)
        began = time.monotonic()
        try:
            yield found
        except BaseException as error:
            self("failed", check=name, why=f"{error}\n{traceback.format_exc()}", **found)
        else:
            self("passed", check=name, seconds=round(time.monotonic() - began, 2), **found)

    def loaded(self, variant: str, programs: list[Verified]) -> None:
        """Report what the verifier said about programs."""
        for program in programs:
            self("program", variant=variant, **program._asdict())


def run(settings: dict[str, Any]) -> None:
    """Run every check and report it; after a failure the others continue."""
    programs = CheckedPrograms(**{name: Path(path) for name, path in settings["programs"].items()})
    report = Report(settings["report"])
    report(
        "kernel",
        release=platform.release(),
        cpus=os.cpu_count(),
        knows_multi=knows_uprobe_multi(),
        knows_sessions=knows_sessions(),
    )
    for way in ways():
        for splits in (True, False):
            _in_one_way(report, programs, way, splits)
    with report.check("host part") as found:
        _host_part(report, found)
    report("end")


def ways() -> tuple[Way, ...]:
    """Return the ways of attaching that this Linux kernel has, the preferred way first."""
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    assert version
    return ("multi", "perf") if (int(version[1]), int(version[2])) >= FIRST_WITH_MULTI else ("perf",)


def _in_one_way(report: Report, programs: CheckedPrograms, way: Way, splits: bool) -> None:
    variant = f"{way}, {'with' if splits else 'without'} splits"
    with contextlib.ExitStack() as stack:
        with report.check("loads", variant=variant):
            with watched_loads() as loads:
                try:
                    kernel = KernelSide(
                        way=way, slots=512, threads=128, functions=traced.FUNCTIONS, splits=splits
                    )
                except TracingError as reason:
                    report("refused", variant=variant, reason=reason.reason, remedy=reason.remedy)
                    raise
                finally:
                    report.loaded(variant, loads)
            stack.callback(kernel.close)
            assert kernel.no_splits is None, str(kernel.no_splits)
            assert kernel.way == way
        if "kernel" not in locals():
            return
        with report.check("clocks", variant=variant):
            kernel.samples.choose(SAMPLE_NS)
            kernel.samples.run(needed=True)
            assert not kernel.samples.failure, kernel.samples.failure
        side = traced.TracedSide(kernel, programs.driver, programs.waiter, programs.relay, programs.built)
        if kernel.sessions:
            with report.check("counts in sessions", variant=variant) as found, watched_loads() as loads:
                try:
                    traced.count_sessions(side, found)
                finally:
                    report.loaded(variant, loads)
        checks: list[tuple[str, Callable[..., None]]] = [("counts", traced.count_calls)]
        if splits:
            checks += [
                ("counts CUDA", traced.count_cuda),
                ("splits", traced.split_waits),
                ("charges", traced.charge_waits),
            ]
        for name, check in checks:
            with report.check(name, variant=variant) as found:
                check(side, found)


def _host_part(report: Report, found: dict[str, object]) -> None:
    with watched_loads() as loads:
        try:
            host = host_checks.HostCounts()
        finally:
            report.loaded("host", loads)
    try:
        found["unknown"] = host.events.unknown
        assert host.events.unknown == ()
        host_checks.count_lives(host)
        host_checks.count_retransmits(host)
        host_checks.find_stops(host)
        host_checks.find_victim(host)
    finally:
        host.events.close()
