"""Lets both revisions (sides) of a comparison measure in turns, one round each: A B, B A, A B …"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.measuring.program import Program
from stalltop.model.errors import StalltopError

_SIDE: Final = Path(__file__).parent / "side.py"
_STEP_SECONDS: Final = 1800.0
"""Maximum time of a round, or of a benchmark without rounds. If it takes longer, it counts as hung."""
_END_SECONDS: Final = 30.0
"""Maximum time that a side may take to clean up before it is killed."""

Tables = Sequence[Mapping[str, Any]]
"""Tables that a side has measured, as the dicts that ``side.py`` sends."""


class SideProcess:
    """One side of a comparison: a process (``side.py``) that measures one revision and waits for its turn
    before each round."""

    def __init__(
        self, label: str, runs: Program, name: str, options: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        """Starts the process. ``label`` names the side in messages, ``runs`` is the checkout whose benchmark
        ``name`` is run, and ``options`` are further arguments of ``side.py``."""
        self.label = label
        self.tables: Tables | None = None
        """The tables that this side has measured; None until its benchmark has ended."""
        self._heard = b""
        self._process = subprocess.Popen(
            [runs.python, "-P", str(_SIDE), name, str(runs.root), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=runs.root,
            env={**os.environ, **environment},
            # Ctrl-C must reach only the process that compares, which then ends both sides in order.
            start_new_session=True,
        )
        self._asked = False

    def step(self) -> None:
        """Lets this side run until its next round is due or its benchmark has ended. Raises StalltopError if
        the benchmark fails."""
        assert self._process.stdin is not None
        if self._asked:
            with contextlib.suppress(BrokenPipeError):  # the side has ended; its last message is read below
                self._process.stdin.write(b"go\n")
                self._process.stdin.flush()
        said = self._line()
        self._asked = "at" in said
        if self._asked:
            print(f"{self.label}: {said['at']}", file=sys.stderr)
        elif "failed" in said:
            raise StalltopError(f"{self.label}: {said['failed']}")
        else:
            self.tables = said["tables"]

    def close(self) -> None:
        """Ends this side's process and all processes that it has started."""
        process = self._process
        assert process.stdin is not None
        # Close stdin last: when stdin ends, the process exits, even if it has not cleaned up yet.
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.stdout is not None
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        while b"\n" not in self._heard:
            if not select.select([self._process.stdout], [], [], _STEP_SECONDS)[0]:
                raise StalltopError(f"{self.label}: no answer for {_STEP_SECONDS / 60:.0f} minutes")
            data = os.read(self._process.stdout.fileno(), 1 << 16)
            if not data:
                status = self._process.wait()
                raise StalltopError(
                    f"{self.label}: its benchmark ended with exit status {status} (see above)"
                )
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found


def in_turns(sides: Sequence[SideProcess], number: int) -> list[Tables]:
    """Runs both sides to their end and returns their tables. If ``number``, the number of this run, is even,
    the first side measures first. Raises StalltopError if a side fails.

    The order is reversed after each round, so that a machine that gets slower and slower affects both sides
    alike.
    """
    with closing(sides):
        turn = number
        while any(side.tables is None for side in sides):
            for side in sides if turn % 2 == 0 else reversed(sides):
                if side.tables is None:
                    side.step()
            turn += 1
    return [side.tables for side in sides if side.tables is not None]


@contextlib.contextmanager
def closing(sides: Sequence[SideProcess]) -> Iterator[None]:
    """Ends the processes of all ``sides`` when the block is left, also by an error."""
    try:
        yield
    finally:
        with contextlib.ExitStack() as stack:
            for side in sides:
                stack.callback(side.close)
