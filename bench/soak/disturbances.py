"""What goes wrong on a host: its clock is set, it is suspended, its disk is full, terminals are slow, devices
come and go, and tracers are killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.measuring.program import ROOT
from bench.monitor.terminal import OnTerminal
from stalltop.demo.node import NVML_VARIABLE
from stalltop.model.errors import StalltopError
from stalltop.serving.host.host_source import HostSource
from stalltop.serving.host.place import TracerPlace, connected
from stalltop.serving.host.tracer_link import TracerLink

DISK_BYTES: Final = 24 << 20
"""Size of the file system for the recording."""
_STEPS: Final = (3_600.0, -3_600.0, 86_400.0, -86_400.0, 1.5)
"""By how much the clock is set, s."""
_SUSPENDED_SECONDS: Final = 8 * 3_600.0
_STOPPED_SECONDS: Final = 2.0
"""For this long, the recorder really gets no CPU while it is suspended, s."""
_SLOW_BYTES_PER_S: Final = 1_500
_START_SECONDS: Final = 90.0


class RecorderClock:
    """The clocks of the soaked recorder (``bench.soak.recorder``)."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._wall = self._always = 0.0
        self.steps = self.suspends = 0
        self._write()

    def step(self, pid: int) -> None:
        """Sets the clock forward or back."""
        self._wall += _STEPS[self.steps % len(_STEPS)]
        self.steps += 1
        self._write()
        os.kill(pid, signal.SIGUSR1)

    def suspend(self, pid: int) -> None:
        """Stops the process for `_STOPPED_SECONDS`, which it takes for `_SUSPENDED_SECONDS` of suspension."""
        self.suspends += 1
        os.kill(pid, signal.SIGSTOP)
        time.sleep(_STOPPED_SECONDS)
        self._wall += _SUSPENDED_SECONDS
        self._always += _SUSPENDED_SECONDS
        self._write()
        os.kill(pid, signal.SIGUSR1)
        os.kill(pid, signal.SIGCONT)

    def _write(self) -> None:
        self.file.write_text(f"{self._wall} {self._always}\n")


class Disk:
    """A small file system in memory for the recording."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.full = 0
        """How often it was filled."""

    def __enter__(self) -> Disk:
        self.place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "stalltop-soak", str(self.place)]
        subprocess.run(command, check=True)
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", str(self.place)], check=False)

    def fill(self) -> None:
        """Takes all space that is left."""
        self.full += 1
        with contextlib.suppress(OSError), (self.place / "ballast").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))

    def free(self) -> None:
        """Gives the space back."""
        (self.place / "ballast").unlink(missing_ok=True)


class Gpus:
    """Stand-in GPUs, of which some fail and come back."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.changes = 0
        self._write()

    def environment(self, libraries: Path) -> dict[str, str]:
        """Returns the environment of a stalltop that reads these GPUs."""
        return {"LD_LIBRARY_PATH": str(libraries), NVML_VARIABLE: str(self._file)}

    def change(self) -> None:
        """Loses a GPU, or gets others back."""
        self.changes += 1
        self._write()

    def _write(self) -> None:
        # NVML is opened again 30 s after a GPU was lost; only then it sees another number of devices.
        lost = self.changes % 2
        lines = [f"devices={(2, 4, 3)[self.changes // 2 % 3]}", f"1.lost={lost}", f"0.xids={self.changes}"]
        fresh = self._file.with_suffix(".new")
        fresh.write_text("\n".join(lines) + "\n")
        fresh.replace(self._file)


@contextlib.contextmanager
def slow_screen(socket: Path) -> Iterator[OnTerminal]:
    """Shows the screen of a client, on a line too slow for it."""
    command = [sys.executable, "-P", "-m", "stalltop", "live", "--no-state", "--socket", str(socket)]
    with OnTerminal(command, bytes_per_s=_SLOW_BYTES_PER_S) as screen:
        yield screen


def take_over(folder: Path, socket: Path) -> float:
    """Kills a tracer that has a client. Returns the seconds until the first window of that client, which is
    then the tracer. Raises StalltopError if that fails."""
    with contextlib.ExitStack() as stack:
        processes = {}
        for number in range(2):
            files = ["--to", str(folder / f"spare-{number}.stalltop"), "--socket", str(socket)]
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "stalltop", "record", "--no-state", *files],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes[process.pid] = process
            if not number:
                mine = HostSource(_linked(socket), TracerPlace(socket), None, tell=lambda _: None)
                stack.callback(mine.close)
                mine.read()
        _await_clients(socket, 2)
        tracer = mine.read().coverage.tracer
        assert tracer is not None
        processes[tracer.pid].kill()
        began = time.monotonic()
        while (found := mine.read().coverage.tracer) is None or found.pid == tracer.pid:
            if time.monotonic() - began > _START_SECONDS:
                raise StalltopError("no client took the place of a tracer that was killed")
        return time.monotonic() - began


def _linked(socket: Path) -> TracerLink:
    until = time.monotonic() + _START_SECONDS
    while (link := connected(socket)) is None:
        if time.monotonic() > until:
            raise StalltopError("the tracer did not start")
        time.sleep(0.1)
    return TracerLink(link)


def _await_clients(socket: Path, clients: int) -> None:
    """Waits until the tracer at ``socket`` has so many clients, and they had time to prepare."""
    from stalltop.cli.host import READY_SECONDS

    until = time.monotonic() + _START_SECONDS
    while Path("/proc/net/unix").read_text().count(f" {socket}\n") < clients + 1:
        if time.monotonic() > until:
            raise StalltopError("the client did not connect")
        time.sleep(0.1)
    time.sleep(READY_SECONDS + 2.0)
