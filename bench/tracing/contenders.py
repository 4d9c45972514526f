"""Defines the tools that the benchmark "cost" compares. Each tool probes one function of one file and counts
the calls of that function."""

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

from bench.measuring.program import ROOT
from stalltop.model.errors import StalltopError
from stalltop.probes.programs.bpf_calls import UPROBE_MULTI
from stalltop.probes.programs.compiled import KPROBE
from stalltop.probes.programs.loading import load_prepared
from stalltop.probes.programs.recipes import Recipe
from stalltop.probes.tracer.attach import Attacher, Attachment, MultiAttacher, Point
from stalltop.probes.tracer.attach_perf import PerfAttacher
from stalltop.probes.tracer.kernel_side import KernelSide

READY_SECONDS: Final = 60.0
"""Maximum time that a tool may take to start, answer or end. If it takes longer, it counts as hung."""


class Contender(Protocol):
    """A tool that measures the durations of the calls of one function."""

    def settle(self) -> None:
        """Waits until the tool has processed all calls made so far. Otherwise it would still work while the
        next tool is measured."""
        ...

    def finish(self) -> int | None:
        """Stops the tool and returns how many calls it has counted; None if it does not count, or has already
        ended."""
        ...


class Nothing:
    """Uses no probe at all, so that the function's own time is measured."""

    def settle(self) -> None:
        """Does nothing."""

    def finish(self) -> int | None:
        """Returns None, because nothing counts the calls."""
        return None


class EmptyPrograms:
    """A pair of empty BPF programs for an entry and a return probe, loaded in the same way as stalltop's own
    programs. ``way`` (``multi`` or ``perf``) says how they are attached."""

    def __init__(self, way: str) -> None:
        self._fds, *_ = load_prepared(
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
        """Attaches the programs to ``points`` of the file at ``path``."""
        return self._attacher.attach(path, points)

    def close(self) -> None:
        """Closes the programs; attached probes keep them loaded."""
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()


class Empty(Nothing):
    """Attaches a pair of empty programs, so that the cost of the two probes alone is measured."""

    def __init__(self, programs: EmptyPrograms, path: Path, offset: int) -> None:
        self._attachment = _attached(programs.attach(str(path), [Point(offset, 0)]), path)

    def finish(self) -> int | None:
        """Removes the probes. Returns None, because empty programs do not count calls."""
        self._attachment.close()
        return None


class StalltopKernel:
    """Holds stalltop's own BPF programs and maps, as the monitor uses them, and sums the calls that they
    count by process."""

    def __init__(self, way: Literal["multi", "perf"]) -> None:
        self.kernel = KernelSide(way=way)
        self._calls: dict[int, int] = {}

    def calls_of(self, pid: int) -> int:
        """Returns the calls of process ``pid`` that were counted so far."""
        counts = self.kernel.read()
        for key, calls in zip(counts.keys, counts.calls.tolist(), strict=True):
            if not key.between_calls:
                self._calls[key.tgid] = self._calls.get(key.tgid, 0) + calls
        return self._calls.get(pid, 0)


class Stalltop:
    """Attaches stalltop's programs to one function."""

    def __init__(self, side: StalltopKernel, path: Path, point: Point, pid: int) -> None:
        self._side = side
        self._pid = pid
        self._attachment = _attached(side.kernel.attach(str(path), [point]), path)

    def settle(self) -> None:
        """Reads the counts, as the monitor does every second. This also frees what ended threads used."""
        self._side.calls_of(self._pid)

    def finish(self) -> int | None:
        """Removes the probes and returns the calls that were counted."""
        self._attachment.close()
        return self._side.calls_of(self._pid)


class RingBuffer:
    """Starts ``ring_reader.py``, a tracer that sends an event for every call through a ring buffer to a
    reader in Python."""

    def __init__(self, path: Path, offset: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.tracing.ring_reader", str(path), str(offset)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
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
        """Waits until the reader has emptied the buffer."""
        self._ask()

    def finish(self) -> int | None:
        """Ends the reader and returns how many events it has received."""
        if self._process.poll() is not None:
            return None
        received, _ = self._ask()
        _end(self._process)
        return received

    def _ask(self) -> tuple[int, int]:
        """Returns the number of events received, and of those dropped because the buffer was full."""
        assert self._process.stdin is not None
        self._process.stdin.write("?\n")
        self._process.stdin.flush()
        received, dropped = map(int, self._line().split())
        return received, dropped

    def _line(self) -> str:
        assert self._process.stdout is not None
        return _line_of(self._process.stdout)


class Bpftrace:
    """Runs bpftrace with a histogram of the function's durations."""

    def __init__(self, command: str, path: Path, symbol: str) -> None:
        program = (
            f"uprobe:{path}:{symbol} {{ @start[tid] = nsecs; }} "
            f"uretprobe:{path}:{symbol} /@start[tid]/ "
            "{ @ns = hist(nsecs - @start[tid]); delete(@start[tid]); } "
            # bpftrace attaches the probes in the order of the text, so both are attached when the timer first
            # fires.
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
        """Does nothing, because bpftrace counts in the Linux kernel during the calls."""

    def finish(self) -> int | None:
        """Lets bpftrace print its histogram and end; returns the number of calls in that histogram, None if
        there is none."""
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
    """Returns the path of bpftrace; None if it is not installed or cannot trace here."""
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
    """Returns the next line of ``stream``. Raises StalltopError if none comes within ``READY_SECONDS`` or the
    tool has ended."""
    if not select.select([stream], [], [], READY_SECONDS)[0]:
        raise StalltopError("a tool that is compared does not answer")
    line = stream.readline()
    if not line:
        raise StalltopError("a tool that is compared has ended")
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
