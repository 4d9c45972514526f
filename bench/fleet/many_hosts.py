"""Measures how soon a late reader knows all hosts, and what following them costs."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from bench.fleet.on_screen import screen_costs
from bench.measuring.figures import FigureColumn
from bench.measuring.program import ROOT
from bench.measuring.table import TextTable
from stalltop.demo.build import Built
from stalltop.fleet.connection import ServerAccess
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.watch import FleetWatch
from stalltop.model.errors import StalltopError

SUMMARY: Final = "a fleet of simulated hosts on one NATS server: late join, and what following it costs"
HOSTS: Final = (1_000, 10_000)
STEADY_HOSTS: Final = 1_000
_JOIN_SECONDS: Final = 60.0


def run(built: Built, folder: Path, *, quick: bool) -> list[TextTable]:
    """Measures and returns the tables. Raises StalltopError if the server cannot be started."""
    join = TextTable(
        "fleet, late join: the last summary of each host",
        (
            "hosts",
            FigureColumn("sent/s", better="higher"),
            FigureColumn("join", "s"),
            FigureColumn("CPU", "s"),
            FigureColumn("view", "ms"),
        ),
        notes=["CPU: of the reader, to receive and decode; view: to sort hosts and group problems"],
    )
    for hosts in HOSTS:
        with LocalServer() as server:
            sent, _, busy = _sent(_sender(server.url, hosts, 0))
            with_cpu = time.process_time()
            watch = FleetWatch(ServerAccess((server.url,)))
            try:
                watch.start()
                if not watch.join(_JOIN_SECONDS):
                    raise StalltopError(f"{hosts} hosts were not known within {_JOIN_SECONDS:g} s")
                cpu = time.process_time() - with_cpu
                began = time.perf_counter()
                known = len(watch.view().hosts)
                took = time.perf_counter() - began
                if known != hosts:
                    raise StalltopError(f"{known} of {hosts} hosts are known")
                figures = f"{sent / busy:.0f}", f"{watch.join_seconds:.2f}", f"{cpu:.2f}", f"{took * 1e3:.0f}"
                join.add(f"{hosts:,}", *figures)
            finally:
                watch.stop()
    return [join, screen_costs(10.0 if quick else 30.0), _steady(30.0 if quick else 600.0)]


def _steady(seconds: float) -> TextTable:
    """Measures a reader that follows hosts which send a summary a second."""
    table = TextTable(
        f"fleet: {STEADY_HOSTS:,} hosts at 1 Hz for {seconds:.0f} s, read once a second",
        ("hosts", "sent", "read", FigureColumn("CPU", "%"), FigureColumn("refused")),
    )
    with LocalServer() as server:
        sender = _sender(server.url, STEADY_HOSTS, seconds)
        watch = FleetWatch(ServerAccess((server.url,)))
        try:
            watch.start()
            while not watch.messages:
                time.sleep(0.01)
            began, cpu = time.monotonic(), time.process_time()
            while sender.poll() is None:
                time.sleep(1.0)
                watch.view()
            sent, *_ = _sent(sender)
            percent = 100 * (time.process_time() - cpu) / (time.monotonic() - began)
            until = time.monotonic() + 5.0
            while watch.messages < sent and time.monotonic() < until:
                time.sleep(0.05)
            counts = f"{sent:.0f}", f"{watch.messages}"
            table.add(f"{STEADY_HOSTS:,}", *counts, f"{percent:.1f}", f"{watch.refused}")
        finally:
            watch.stop()
            sender.kill()
    return table


def _sender(url: str, hosts: int, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "bench.fleet.sender", url, str(hosts), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT / "src")


def _sent(sender: subprocess.Popen[str]) -> tuple[float, float, float]:
    """Waits for the sender, and returns messages, seconds in all, and seconds of sending."""
    text, _ = sender.communicate()
    if sender.returncode:
        raise StalltopError("the sender of summaries failed")
    sent, whole, busy = map(float, text.split())
    return sent, whole, busy
