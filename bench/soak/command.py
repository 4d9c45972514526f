"""``./bench/run soak``: plays the life of a host fast beside one recorder, for a chosen time."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from bench.measuring import namespace
from bench.measuring.document import put_figures
from bench.measuring.machine import machine
from bench.measuring.program import ROOT
from bench.soak.disturbances import Disk, Gpus, RecorderClock, slow_screen, take_over
from bench.soak.footprint import existing, footprint
from bench.soak.graph import drawing
from bench.soak.life import Life, Schedule
from bench.soak.results import Soak
from bench.soak.watch import Watch
from stalltop.cli.host import PAST_BYTES
from stalltop.demo.build import Built, build
from stalltop.model.errors import StalltopError, TracingError, UsageError
from stalltop.serving.host.place import connected
from stalltop.serving.host.tracer_link import TracerLink

PLACE: Final = "soak"
"""Name of the place for the figures in docs/performance.md."""
PICTURE: Final = ROOT / "docs/images/soak.svg"
SAMPLE_SECONDS: Final = 5.0
_SHORT_PAST_BYTES: Final = PAST_BYTES // 8
"""Memory for the past of a disturbed recorder: it is full after some minutes, not an hour."""
_DISK_FULL_SECONDS: Final = 15.0
_SLOW_SCREEN_SECONDS: Final = 30.0
_START_SECONDS: Final = 90.0
_END_SECONDS: Final = 60.0
_LAST_SECONDS: Final = 3.0
"""Time in which windows with the last calls come, s."""


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="bench/run soak",
        description="Play the life of a host fast beside one recorder that is its tracer: 100 containers a "
        "minute with processes and libraries, clock steps, suspends, full disks, slow screens, GPUs that "
        "come and go, tracers that are killed. Needs root.",
    )
    made.add_argument("--minutes", type=float, default=60.0, help="how long (default: 60)")
    made.add_argument(
        "--calm",
        action="store_true",
        help="only containers that come and go, and residents: no disturbances, no processes by the hundred",
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured to FILE")
    made.add_argument(
        "--write-docs", action="store_true", help="write table and graph into docs/performance.md"
    )
    return made


def main(arguments: Sequence[str], say: Callable[[str], None] = print) -> int:
    """Runs a soak; returns 1 if something grew, was left behind, or was missed and not counted; else 0.
    Raises StalltopError if it cannot run."""
    options = parser().parse_args(arguments)
    if options.calm and options.write_docs:
        raise UsageError("--calm: its figures have no place in the documents", "leave --write-docs out")
    if os.geteuid() != 0:
        raise TracingError("a soak needs root", "run with sudo")
    if not namespace.inside():
        return namespace.run_inside("soak", arguments)
    folder = Path(tempfile.mkdtemp(prefix="stalltop-soak-"))
    try:
        soak = _Run(folder, options.minutes, calm=options.calm).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report(soak, say, options.json, write_docs=options.write_docs)
    return 1 if soak.faults() else 0


def report(soak: Soak, say: Callable[[str], None], json_file: Path | None, *, write_docs: bool) -> None:
    """Prints the tables of ``soak``; also writes them, and the graph, where that is asked for."""
    text = "\n\n".join(table.text().rstrip() for table in soak.tables())
    say(f"{soak.machine}\n\n{text}")
    if json_file is not None:
        json_file.write_text(json.dumps(soak.plain()) + "\n")
    if write_docs:
        PICTURE.write_text(drawing(soak))
        put_figures(PLACE, f"{soak.machine}\n\n{text}")


class _Run:
    """One soak. ``folder`` is empty."""

    def __init__(self, folder: Path, minutes: float, *, calm: bool) -> None:
        self._folder = folder
        self._calm = calm
        self._soak = Soak(machine(), minutes)
        self._seconds = 60.0 * minutes
        self._socket = folder / "tracer.sock"
        self._schedule = Schedule()
        self._objects: set[tuple[str, int]] = set()
        self._began = 0.0
        self._asides: list[threading.Thread] = []

    def run(self) -> Soak:
        """Runs the soak."""
        # The recorder probes copies, which no other process on this host uses.
        built = Built(Path(shutil.copytree(build().folder, self._folder / "libraries")))
        clock, gpus = RecorderClock(self._folder / "clock"), Gpus(self._folder / "gpus")
        life = Life(built, self._folder, self._schedule, storms=not self._calm)
        with contextlib.ExitStack() as stack:
            stack.callback(life.close)
            disk = stack.enter_context(Disk(self._folder / "disk"))
            life.begin()
            recorder = self._recorder(clock, disk, gpus.environment(built.folder))
            stack.callback(recorder.kill)
            watch = Watch(self._linked(), life.names)
            stack.callback(watch.close)
            self._await_probes(watch)
            self._began = time.monotonic()
            life.go()
            self._schedule.every(SAMPLE_SECONDS, functools.partial(self._sample, recorder.pid), first=0.0)
            if not self._calm:
                self._plan(recorder.pid, clock, disk, gpus)
            self._schedule.run(self._began + self._seconds)
            self._schedule.clear()
            disk.free()
            life.end()
            time.sleep(_LAST_SECONDS)
            for aside in self._asides:
                aside.join()
            self._take(life, watch)
            self._end(recorder)
        return self._soak

    def _recorder(
        self, clock: RecorderClock, disk: Disk, environment: dict[str, str]
    ) -> subprocess.Popen[Any]:
        past = PAST_BYTES if self._calm else _SHORT_PAST_BYTES
        command = [sys.executable, "-m", "bench.soak.recorder", str(clock.file), str(past), "record"]
        command += ["--no-state", "--to", str(disk.place / "recording.stalltop"), "--max-size", "16MiB"]
        return subprocess.Popen(
            [*command, "--socket", str(self._socket)],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stderr=(self._folder / "said").open("w"),
        )

    def _linked(self) -> TracerLink:
        until = time.monotonic() + _START_SECONDS
        while (link := connected(self._socket)) is None:
            if time.monotonic() > until:
                raise StalltopError(f"the recorder did not start: {self._said()}")
            time.sleep(0.1)
        return TracerLink(link)

    def _await_probes(self, watch: Watch) -> None:
        until = time.monotonic() + _START_SECONDS
        while watch.windows < 3:
            if time.monotonic() > until:
                raise StalltopError(f"the recorder made no windows: {self._said()}")
            time.sleep(0.1)

    def _plan(self, pid: int, clock: RecorderClock, disk: Disk, gpus: Gpus) -> None:
        """Plans the disturbances: each kind has its own pause, so that they meet in ever other ways. In a
        short run, each kind comes at least once."""
        most = self._seconds / 2
        plan: tuple[tuple[str, float, Callable[[], object]], ...] = (
            ("clock step", 150.0, functools.partial(clock.step, pid)),
            ("suspend", 210.0, functools.partial(clock.suspend, pid)),
            ("full disk", 270.0, functools.partial(self._full_disk, disk)),
            ("GPU lost or back", 100.0, gpus.change),
            ("slow screen", 330.0, functools.partial(self._aside, self._slow_screen)),
            ("tracer killed", 290.0, functools.partial(self._aside, self._take_over)),
        )
        for number, (kind, pause, act) in enumerate(plan):
            every = min(pause, most)
            first = every * (5 + number) / 10
            self._schedule.every(every, functools.partial(self._disturb, kind, act), first)

    def _disturb(self, kind: str, act: Callable[[], object]) -> None:
        self._soak.events.append((round(time.monotonic() - self._began, 1), kind))
        act()

    def _sample(self, pid: int) -> None:
        try:
            found, objects = footprint(pid, round(time.monotonic() - self._began, 1))
        except OSError:
            raise StalltopError(f"the recorder has ended: {self._said()}") from None
        self._soak.footprints.append(found)
        self._objects |= objects

    def _full_disk(self, disk: Disk) -> None:
        disk.fill()
        self._schedule.after(_DISK_FULL_SECONDS, disk.free)

    def _aside(self, work: Callable[[], object]) -> None:
        """Runs what takes long in a thread, beside everything else; its error is a failure of the run."""

        def act() -> None:
            try:
                work()
            except (StalltopError, OSError) as error:
                self._soak.failures.append(f"{work.__name__.strip('_')}: {error}")

        self._asides.append(threading.Thread(target=act, daemon=True))
        self._asides[-1].start()

    def _slow_screen(self) -> None:
        with slow_screen(self._socket) as screen:
            screen.wait_for("stalltop")
            time.sleep(_SLOW_SCREEN_SECONDS)

    def _take_over(self) -> None:
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            self._soak.takeovers.append(round(take_over(Path(folder), Path(folder) / "spare.sock"), 2))

    def _end(self, recorder: subprocess.Popen[Any]) -> None:
        recorder.terminate()
        try:
            recorder.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._soak.failures.append(f"the recorder did not end within {_END_SECONDS:g} s of SIGTERM")
            recorder.kill()
            recorder.wait()
        self._soak.recorded = self._said()
        self._soak.left_behind = len(existing(self._objects))

    def _said(self) -> str:
        lines = (self._folder / "said").read_text().strip().splitlines()
        return lines[-1].removeprefix("stalltop: ").replace(str(self._folder), "") if lines else "nothing"

    def _take(self, life: Life, watch: Watch) -> None:
        soak = self._soak
        soak.containers, soak.processes, soak.made = life.containers, life.processes, life.made.total()
        soak.counted, soak.losses = watch.calls.total(), dict(watch.losses)
        soak.told, untold = watch.compared(life.made)
        soak.untold = {life.names[tenant]: calls for tenant, calls in untold.items()}
        soak.elsewhere = dict(watch.elsewhere)
        soak.failures += life.failures
