"""Measures how soon a late reader knows all hosts, and what following them costs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np
import psutil
from nats.aio.msg import Msg

from bench.fleet.feeding import with_client
from bench.fleet.on_screen import screen_costs
from bench.measuring.cpu import cpu_ns
from bench.measuring.figures import FigureColumn
from bench.measuring.program import ROOT
from bench.measuring.table import TextTable
from stalltop.demo.build import Built
from stalltop.fleet.connection import ServerAccess
from stalltop.fleet.digest_watch import DigestWatch
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.streams import make_streams
from stalltop.fleet.watch import FleetWatch
from stalltop.model.errors import StalltopError

SUMMARY: Final = "a fleet of simulated hosts on one NATS server: late join, and what its screen costs"
STEADY: Final = "a fleet of 1,000 simulated hosts for minutes: what is lost, how late it is, CPU and memory"
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
    return [join, screen_costs(10.0 if quick else 30.0)]


def steady(built: Built, folder: Path, *, quick: bool) -> list[TextTable]:
    """Measures for eleven minutes, or one if ``quick``, and returns the table. Raises StalltopError if the
    server cannot be started."""
    return [_steady(60.0 if quick else 660.0)]


class _LagWatch(FleetWatch):
    """A reader that notes how long each message was on its way from the server, s."""

    def __init__(self, access: ServerAccess) -> None:
        super().__init__(access)
        self.lags: list[float] = []

    def _take(self, message: Msg, at: float) -> None:
        self.lags.append(time.time() - at)
        super()._take(message, at)


def _steady(seconds: float) -> TextTable:
    """Measures a reader of all summaries, and a worker of ``stalltop rollup``, while hosts send a summary a
    second."""
    table = TextTable(
        f"steady: {STEADY_HOSTS:,} hosts at 1 Hz for {seconds:.0f} s, read once a second",
        (
            *("hosts", "sent", "read"),
            FigureColumn("refused"),
            FigureColumn("lag p99", "ms"),
            FigureColumn("CPU %", "%"),
            FigureColumn("memory", "MB"),
            FigureColumn("rollup CPU %", "%"),
            FigureColumn("rollup memory", "MB"),
            FigureColumn("server memory", "MB"),
        ),
        notes=[
            "read, lag, CPU, memory: of a reader of all summaries; lag: from the server to the reader",
            "a summary is not read if the next one of its host has replaced it in the stream before",
            "rollup: one worker, which makes the digests of all racks and of the cluster each second",
        ],
    )
    with LocalServer() as server:
        access = ServerAccess((server.url,))
        with_client(access, make_streams)
        command = [sys.executable, "-P", "-m", "stalltop", "rollup", "--nats", server.url]
        worker = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd=ROOT / "src")
        watch, digests = _LagWatch(access), DigestWatch(access)
        watch.start()
        sender = _sender(server.url, STEADY_HOSTS, seconds)
        try:
            began, cpu, worked = time.monotonic(), time.process_time(), cpu_ns(worker.pid)
            while sender.poll() is None:
                time.sleep(1.0)
                watch.view()
            sent, *_ = _sent(sender)
            took = time.monotonic() - began
            percent = 100 * (time.process_time() - cpu) / took
            rollup = 100 * (cpu_ns(worker.pid) - worked) / 1e9 / took
            until = time.monotonic() + 5.0
            while watch.messages < sent and time.monotonic() < until:
                time.sleep(0.05)
            digests.start()
            digests.join(10.0)
            if digests.clusters != 1 or len(digests.digest().hosts) != STEADY_HOSTS:
                raise StalltopError("the worker made no digest of all hosts")
            table.add(
                f"{STEADY_HOSTS:,}",
                *(f"{sent:.0f}", f"{watch.messages}", f"{watch.refused}"),
                f"{1e3 * float(np.percentile(watch.lags, 99)):.1f}",
                f"{percent:.1f}",
                _megabytes(os.getpid()),
                f"{rollup:.1f}",
                *(_megabytes(worker.pid), _megabytes(server.pid)),
            )
        finally:
            digests.stop()
            watch.stop()
            for process in (sender, worker):
                process.kill()
                process.wait()
    return table


def _megabytes(pid: int) -> str:
    return f"{psutil.Process(pid).memory_info().rss / 1e6:.0f}"


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
