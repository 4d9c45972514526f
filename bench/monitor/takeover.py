"""Measures how soon clients get data again when the tracer of their host is killed, and checks that clients
attach no probes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench.measuring.cpu import cpu_ns
from bench.measuring.figures import FigureColumn, FigureText
from bench.measuring.program import ROOT
from bench.measuring.spread import Spread
from bench.measuring.table import TextTable
from bench.monitor.workload import scenario
from bench.soak.footprint import bpf_objects
from stalltop.cli.host import READY_SECONDS
from stalltop.demo.build import Built
from stalltop.demo.tenants import DemoTenants
from stalltop.model.errors import StalltopError
from stalltop.model.evidence import HOST_LAYER
from stalltop.serving.host.host_source import HostSource
from stalltop.serving.host.place import TracerPlace, connected
from stalltop.serving.host.tracer_link import TracerLink

SUMMARY: Final = (
    "seconds until ten clients get data again after a kill of the tracer, and what ten clients cost"
)
CLIENTS: Final = 10
_RECORDERS: Final = 2
"""Of the clients, so many are recorders, one of which takes the tracer's place; the others only read."""
_SETTLE_SECONDS: Final = READY_SECONDS + 2.5
"""From the start of a client until the first in line is prepared, s."""
_WAIT_SECONDS: Final = 90.0
_TARGET_SECONDS: Final = 2.0
_TARGET: Final = f"{_TARGET_SECONDS:g}"
_CALLS_PER_S: Final = 20_000
_COST_SECONDS: Final = 10.0
"""For how long the CPU time of tenants and tracer is measured, s."""


def run(built: Built, folder: Path, *, quick: bool) -> list[TextTable]:
    """Kills tracers and returns the table. Raises StalltopError if no client takes the place of one."""
    kills = 3 if quick else 20
    socket = folder / "tracer.sock"
    first: list[float] = []
    every: list[float] = []
    with contextlib.ExitStack() as stack:
        tenants = stack.enter_context(DemoTenants(scenario(_CALLS_PER_S), built=built))
        recorders = {}
        readers: list[_Reader] = []
        for number in range(1 + _RECORDERS):
            recorder = stack.enter_context(_recorder(folder, socket))
            recorders[recorder.pid] = recorder
            _until(lambda: connected(socket), "a tracer").close()
            if number == 0:
                readers.append(stack.enter_context(_Reader(socket)))
                costs = _costs(socket, readers[0], tenants.pids, rounds=2 if quick else 5)
        readers += [stack.enter_context(_Reader(socket)) for _ in range(CLIENTS - _RECORDERS - 1)]
        time.sleep(_SETTLE_SECONDS)
        probes = {pid: _links(pid) for pid in recorders}
        for kill in range(kills):
            print(f"takeover: kill {kill + 1} of {kills}", file=sys.stderr)
            tracer = readers[0].tracer
            recorders.pop(tracer).kill()
            at = time.monotonic()
            took = [_until(lambda: reader.since(tracer), "a new tracer") - at for reader in readers]  # noqa: B023
            first.append(min(took))
            every.append(max(took))
            new = stack.enter_context(_recorder(folder, socket))
            recorders[new.pid] = new
            time.sleep(_SETTLE_SECONDS)
    table = TextTable(
        f"takeover: {kills} kills (SIGKILL) of the tracer of {CLIENTS} clients",
        (
            "what",
            FigureColumn("seconds", "s"),
            FigureColumn("longest", "s"),
            FigureColumn("target", told_only=True),
        ),
    )
    table.add("until the first client has a window of the next tracer", *_cells(first), _TARGET)
    table.add("until every client has one", *_cells(every), _TARGET)
    attached = [links for links in probes.values() if links]
    table.notes += [
        "",
        f"BPF links of the tracer: {attached[0]}; of the recorders that are its clients: 0",
        f"{_RECORDERS} of the clients are recorders, one of which takes the place of the tracer",
    ]
    if len(attached) != 1:
        raise StalltopError(f"{len(attached)} processes of one host attached probes")
    if max(every) > _TARGET_SECONDS:
        table.notes.append(f"FAULT: a client waited longer than {_TARGET_SECONDS:g} s")
    return [table, costs]


def _costs(socket: Path, first: _Reader, pids: Sequence[int], *, rounds: int) -> TextTable:
    """Returns what tenants and the tracer take with one client, and with ten, measured in turns."""
    tenants: dict[int, list[float]] = {1: [], CLIENTS: []}
    tracers: dict[int, list[float]] = {1: [], CLIENTS: []}
    for number in range(rounds):
        print(f"takeover: cost, round {number + 1} of {rounds}", file=sys.stderr)
        for clients in tenants:
            with contextlib.ExitStack() as stack:
                for _ in range(clients - 1):
                    stack.enter_context(_Reader(socket))
                time.sleep(_SETTLE_SECONDS)
                began = _taken(first, pids)
                time.sleep(_COST_SECONDS)
                ended = _taken(first, pids)
                calls, spent, own, at = (after - before for before, after in zip(began, ended, strict=True))
                tenants[clients].append(spent / max(calls, 1))
                tracers[clients].append(own / at / 1e7)
    table = TextTable(
        f"takeover: what a tracer costs with one client and with {CLIENTS}, in turns, {rounds} rounds",
        (
            "what",
            FigureColumn("1 client", ""),
            FigureColumn(f"{CLIENTS} clients", ""),
            FigureColumn("ratio", ""),
        ),
    )
    for what, form, found in (
        ("CPU time of the tenants, ns a call", ",.0f", tenants),
        ("CPU time of the tracer, % of a core", ".2f", tracers),
    ):
        ratios = [many / one for one, many in zip(found[1], found[CLIENTS], strict=True)]
        cells = [Spread.of(found[clients]).text(form) for clients in found]
        table.add(what, *cells, Spread.of(ratios).text(".2f"))
    return table


def _taken(first: _Reader, pids: Sequence[int]) -> tuple[float, float, float, float]:
    """Waits for the next window. Returns the calls so far, the CPU time of the tenants and of the tracer in
    ns, and the time (``time.monotonic()``)."""
    before = first.windows
    _until(lambda: first.windows != before, "a window")
    return first.calls, sum(map(cpu_ns, pids)), cpu_ns(first.tracer), time.monotonic()


def _cells(seconds: list[float]) -> tuple[str, str]:
    return Spread.of(seconds).text(".2f"), FigureText(f"{max(seconds):.2f}", (max(seconds),))


class _Reader:
    """A client that reads windows in a thread, and may not trace."""

    def __init__(self, socket: Path) -> None:
        link = TracerLink(_until(lambda: connected(socket), "a tracer"))
        self._source = HostSource(link, TracerPlace(socket), None, tell=lambda _: None)
        self.tracer = link.tracer.pid
        """PID of the tracer that made the newest window."""
        self.calls = 0
        """Outermost and nested calls in all windows so far."""
        self.windows = 0
        self._at = time.monotonic()
        self._closing = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._source.close()
        self._thread.join()

    def since(self, before: int) -> float:
        """Returns when the first window of another tracer than ``before`` came (time.monotonic()); 0.0 if
        there is none yet."""
        return self._at if self.tracer != before else 0.0

    def _run(self) -> None:
        with contextlib.suppress(RuntimeError):
            while not self._closing:
                window = self._source.read()
                self.calls += sum(
                    calls
                    for key, calls in zip(window.rows.keys, window.rows.calls.tolist(), strict=True)
                    if key.layer != HOST_LAYER
                )
                self.windows += 1
                tracer = window.coverage.tracer
                if tracer is not None and tracer.pid != self.tracer:
                    self._at = time.monotonic()
                    self.tracer = tracer.pid


@contextlib.contextmanager
def _recorder(folder: Path, socket: Path) -> Iterator[subprocess.Popen[Any]]:
    path = folder / f"{time.monotonic_ns()}.stalltop"
    command = [sys.executable, "-P", "-m", "stalltop", "record", "--no-state", "--to", str(path)]
    with subprocess.Popen(
        [*command, "--socket", str(socket)], cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as recorder:
        try:
            yield recorder
        finally:
            recorder.kill()


def _links(pid: int) -> int:
    return sum(kind == "link" for kind, _ in bpf_objects(pid))


def _until(look: Any, what: str) -> Any:
    end = time.monotonic() + _WAIT_SECONDS
    while not (found := look()):
        if time.monotonic() > end:
            raise StalltopError(f"waited {_WAIT_SECONDS:g} s for {what}")
        time.sleep(0.01)
    return found
