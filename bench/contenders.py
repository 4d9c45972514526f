"""The ways of timing a function that are compared: each probes one function of one file, and counts."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final, Literal, Protocol

from stalltop.model.errors import StalltopError
from stalltop.probes.programs.bpf_calls import UPROBE_MULTI
from stalltop.probes.programs.compiled import KPROBE
from stalltop.probes.programs.loading import load_prepared
from stalltop.probes.programs.recipes import Recipe
from stalltop.probes.tracer.attach import Attacher, Attachment, MultiAttacher, Point
from stalltop.probes.tracer.attach_perf import PerfAttacher
from stalltop.probes.tracer.kernel_side import KernelSide

READY_SECONDS: Final = 60.0
"""How long a tool may take to begin, or to end, before it counts as hung."""


class Contender(Protocol):
    """A tool that times the calls of one function."""

    def settle(self) -> None:
        """Wait until it has dealt with the calls so far, so that it disturbs nobody else's turn."""
        ...

    def finish(self) -> int | None:
        """Stop it and say how many calls it has seen; None where it does not count, or was stopped before."""
        ...


class Nothing:
    """No probe at all: the function's own time."""

    def settle(self) -> None:
        """Nothing is left to do."""

    def finish(self) -> int | None:
        """It does not count."""
        return None


class EmptyPrograms:
    """The empty pair of programs, loaded as stalltop loads its own, for one way of attaching."""

    def __init__(self, way: str) -> None:
        self._fds, _ = load_prepared(
            Recipe(
                (Path(__file__).parent / "native/empty.c").read_text(),
                {"call_begins": KPROBE, "call_returns": KPROBE},
            ),
            {},
            attach_type=UPROBE_MULTI if way == "multi" else 0,
        )
        entry, returns = self._fds["call_begins"], self._fds["call_returns"]
        self._attacher: Attacher = (
            MultiAttacher(entry, returns) if way == "multi" else PerfAttacher(entry, returns)
        )

    def attach(self, path: str, points: Sequence[Point]) -> Attachment:
        """Probe ``points`` of the file at ``path``."""
        return self._attacher.attach(path, points)

    def close(self) -> None:
        """Let go of the programs; probes in place keep them."""
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()


class Empty(Nothing):
    """A pair of empty programs: the price of two probes."""

    def __init__(self, programs: EmptyPrograms, path: Path, offset: int) -> None:
        self._attachment = _attached(programs.attach(str(path), [Point(offset, 0)]), path)

    def finish(self) -> int | None:
        """Remove the probes; it does not count."""
        self._attachment.close()
        return None


class StalltopKernel:
    """Stalltop's own programs and maps, as the monitor has them, and what they have counted by process."""

    def __init__(self, way: Literal["multi", "perf"]) -> None:
        self.kernel = KernelSide(way=way)
        self._calls: dict[int, int] = {}

    def calls_of(self, pid: int) -> int:
        """Calls of this process that were counted so far."""
        counts = self.kernel.read()
        for key, calls in zip(counts.keys, counts.calls.tolist(), strict=True):
            if not key.between_calls:
                self._calls[key.tgid] = self._calls.get(key.tgid, 0) + calls
        return self._calls.get(pid, 0)


class Stalltop(Nothing):
    """Stalltop's programs on one function."""

    def __init__(self, side: StalltopKernel, path: Path, point: Point, pid: int) -> None:
        self._side = side
        self._pid = pid
        self._attachment = _attached(side.kernel.attach(str(path), [point]), path)

    def finish(self) -> int | None:
        """Remove the probes, and say what was counted."""
        self._attachment.close()
        return self._side.calls_of(self._pid)


class RingBuffer:
    """An event for every call through a ring buffer to a reader in Python."""

    def __init__(self, path: Path, offset: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.ring_reader", str(path), str(offset)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parent.parent,
            text=True,
            bufsize=1,
        )
        try:
            if self._line() != "ready":
                raise StalltopError("the ring-buffer reader did not start")
        except BaseException:
            _end(self._process)
            raise

    def settle(self) -> None:
        """Wait until the reader has emptied the buffer."""
        self._ask()

    def finish(self) -> int | None:
        """End the reader, and say how many events it has received."""
        if self._process.poll() is not None:
            return None
        received, _ = self._ask()
        _end(self._process)
        return received

    def _ask(self) -> tuple[int, int]:
        """Events received, and events that found no room."""
        assert self._process.stdin is not None
        self._process.stdin.write("?\n")
        self._process.stdin.flush()
        received, dropped = map(int, self._line().split())
        return received, dropped

    def _line(self) -> str:
        assert self._process.stdout is not None
        return _line_of(self._process.stdout)


class Bpftrace:
    """bpftrace with a histogram of the function's durations."""

    def __init__(self, command: str, path: Path, symbol: str) -> None:
        program = (
            f"uprobe:{path}:{symbol} {{ @start[tid] = nsecs; }} "
            f"uretprobe:{path}:{symbol} /@start[tid]/ "
            "{ @ns = hist(nsecs - @start[tid]); delete(@start[tid]); } "
            # Probes are attached in this order, so the first tick says that the others are in place.
            'interval:ms:100 { if (!@told) { printf("ready\\n"); @told = 1; } }'
        )
        self._process = subprocess.Popen(
            [command, "-e", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        try:
            assert self._process.stdout is not None
            while _line_of(self._process.stdout) != "ready":
                pass
        except BaseException:
            _end(self._process)
            raise

    def settle(self) -> None:
        """It counts in the kernel: nothing is left to do."""

    def finish(self) -> int | None:
        """Let it print its histogram and end, and say what that holds."""
        if self._process.poll() is not None:
            return None
        self._process.send_signal(signal.SIGINT)
        try:
            output, _ = self._process.communicate(timeout=READY_SECONDS)
        except subprocess.TimeoutExpired:
            _end(self._process)
            return None
        # Lines such as "[512, 1K)      8123 |@@@@@@@@      |".
        found = re.findall(r"^[\[(].*?[)\]]\s+(\d+) \|", output, re.MULTILINE)
        return sum(map(int, found)) if found else None


def bpftrace_command() -> str | None:
    """Where bpftrace is; None where it is not installed or cannot trace here."""
    command = shutil.which("bpftrace", path=f"{os.environ.get('PATH', '')}:/usr/bin:/usr/sbin")
    if command is None:
        return None
    try:
        done = subprocess.run(
            [command, "-e", "BEGIN { exit(); }"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=READY_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return command if done.returncode == 0 else None


def _attached(attachment: Attachment, path: Path) -> Attachment:
    if attachment.failed:
        raise StalltopError(f"{path.name} cannot be probed: {attachment.failed[0][1]}")
    return attachment


def _line_of(stream: IO[str]) -> str:
    """The next line. Raises StalltopError where none comes."""
    if not select.select([stream], [], [], READY_SECONDS)[0]:
        raise StalltopError("a tool to compare with does not answer")
    line = stream.readline()
    if not line:
        raise StalltopError("a tool to compare with has ended")
    return line.strip()


def _end(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.close()
    try:
        process.wait(timeout=5.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
