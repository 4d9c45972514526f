"""Measures what the fleet's screen costs, by what it reads: summaries of all hosts, or digests."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Final

import psutil

from bench.measuring.cpu import cpu_ns
from bench.measuring.figures import FigureColumn
from bench.measuring.program import ROOT
from bench.measuring.table import TextTable
from bench.monitor.terminal import OnTerminal
from stalltop.fleet.local_server import LocalServer
from stalltop.model.errors import StalltopError

_CASES: Final = (
    ("summaries", "bench.fleet.sender", 1_000),
    ("summaries", "bench.fleet.sender", 10_000),
    ("digests", "bench.fleet.digest_sender", 1_000),
    ("digests", "bench.fleet.digest_sender", 10_000),
)
_SETTLE_SECONDS: Final = 8.0


def screen_costs(seconds: float) -> TextTable:
    """Returns CPU time and memory of ``stalltop fleet`` on a terminal. Raises StalltopError."""
    table = TextTable(
        f"fleet, the screen: 120x40, 1 Hz, {seconds:.0f} s each",
        (
            *("reads", "hosts"),
            FigureColumn("messages/s", "/s", "higher"),
            FigureColumn("first picture", "s"),
            FigureColumn("CPU %", "%"),
            FigureColumn("memory", "MB"),
        ),
        notes=[
            "CPU %: of one core, by the screen's process; messages/s: what the sender sent in that time",
            "first picture: from the start of the program to the table with all hosts",
        ],
    )
    for reads, sender, hosts in _CASES:
        table.add(reads, f"{hosts:,}", *_measured(sender, hosts, seconds))
    return table


def _measured(sender: str, hosts: int, seconds: float) -> tuple[str, ...]:
    with LocalServer() as server:
        whole = seconds + 2 * _SETTLE_SECONDS + 10.0
        arguments = [sys.executable, "-m", sender, server.url, str(hosts), str(whole)]
        sending = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=ROOT / "src")
        began = time.monotonic()
        try:
            time.sleep(_SETTLE_SECONDS)
            command = (sys.executable, "-P", "-m", "stalltop", "fleet", "--no-state", "--no-config")
            with OnTerminal((*command, "--nats", server.url)) as terminal:
                first = terminal.wait_for(f"{hosts:,} hosts")
                time.sleep(_SETTLE_SECONDS)
                cpu, at = cpu_ns(terminal.pid), time.monotonic_ns()
                time.sleep(seconds)
                percent = 100.0 * (cpu_ns(terminal.pid) - cpu) / (time.monotonic_ns() - at)
                memory = psutil.Process(terminal.pid).memory_info().rss / 1e6
                terminal.leave()
            text, _ = sending.communicate(timeout=120)
            if sending.returncode:
                raise StalltopError("the sender failed")
            rate = float(text.split()[0]) / (time.monotonic() - began)
        finally:
            sending.kill()
            sending.wait()
    return f"{rate:.0f}", f"{first:.2f}", f"{percent:.1f}", f"{memory:.0f}"
