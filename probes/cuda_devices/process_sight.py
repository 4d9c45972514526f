"""Reads the sight of a process (its environment and device files), which determines the GPUs that it sees.

Paths that a process names, and the file systems of containers, are not under stalltop's control: they may
lead anywhere, and hang. So a confined process reads them (``probes.confined``). Another thread asks it, and
the caller waits for that thread only a moment.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from stalltop.probes.aside import Aside
from stalltop.probes.cuda_devices.visible_devices import GIVEN, JOB_GPUS, ORDER, STEP_GPUS, VISIBLE
from stalltop.probes.tenants.environment import Environments, started_with
from stalltop.probes.tenants.host_files import inside

PATIENCE_SECONDS: Final = 1.0
"""Maximum time in seconds that one window waits for unknown sights, of all processes together. Reading one
process takes some ms."""
HANG_SECONDS: Final = 5.0
"""Time after which a read is given up, in seconds."""
MOST_HANGING: Final = 4
"""Number of hanging reads that are left behind: after each of them, other processes are read on a new thread.
If one more read hangs, no process is read until that read returns."""

_UNKNOWN: Final = (errno.ETIMEDOUT, errno.ECHILD)
"""Errors that say nothing about a process: the confined process that reads it gave no answer, or there is
none."""
_MPS_PIPES: Final = "CUDA_MPS_PIPE_DIRECTORY"
_MPS_PIPES_DEFAULT: Final = "/tmp/nvidia-mps"
_VARIABLES: Final = (VISIBLE, ORDER, GIVEN, STEP_GPUS, JOB_GPUS, _MPS_PIPES)
_DEVICE_FILE: Final = re.compile(r"nvidia(\d{1,5})")

Program = tuple[int, int]
"""A PID, and ``CudaProgram.born_ns`` of the program that it runs."""


class Sight(NamedTuple):
    """The facts that decide which devices one program sees."""

    environments: tuple[dict[str, str], ...]
    """The present values of the variables that choose devices. If the program has changed them, also the
    values with which it was started, because it is unknown which of the two sets CUDA read."""
    files: frozenset[int] = frozenset()
    """The number N of each ``/dev/nvidiaN`` in the program's root folder."""
    contained: bool = False
    """Whether the program's root folder differs from this host's."""
    mps: bool = False
    """Whether an MPS server listens at the path that the program uses for MPS."""


class ProcessNotVisibleError(Exception):
    """The sight is not known now: its read waits for another one, is under way, or was given up."""


class Sights:
    """Returns sights of programs, each read once. Used from one thread."""

    def __init__(
        self,
        root: Path = Path("/"),
        patience_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        read: Callable[[int], Sight] | None = None,
    ) -> None:
        """``read`` reads the sight of a process, or raises OSError: with ``ETIMEDOUT`` or ``ECHILD`` if the
        sight is unknown. By default, it is read in this process."""
        self._read = read
        self._root = root
        self._patience = PATIENCE_SECONDS if patience_seconds is None else patience_seconds
        self._left = self._patience
        self._clock = clock
        self._found: dict[Program, Sight | None] = {}
        """Sight by program; None if the files of the program cannot be read, for instance because the process
        has ended."""
        self._given_up: set[Program] = set()
        self._hanging = 0
        self._looking: tuple[Program, float] | None = None
        """Program of the latest read, and the clock time at which the read began."""
        self._new_aside()

    def begin(self) -> None:
        """Begins a new window, with a new time limit for waiting."""
        self._left = self._patience

    def of(self, program: Program) -> Sight | None:
        """Returns the sight of ``program``, or None if it cannot be read. Raises ProcessNotVisibleError."""
        if program not in self._found:
            self._look(program)
        if program not in self._found:
            raise ProcessNotVisibleError
        return self._found[program]

    def forget(self, pid: int) -> None:
        """Forgets a process that has ended."""
        self._given_up = {program for program in self._given_up if program[0] != pid}
        for program in [program for program in self._found if program[0] == pid]:
            del self._found[program]

    def close(self) -> None:
        """Stops reading; does not wait. May be called twice."""
        self._aside.close()

    def _look(self, program: Program) -> None:
        if self._aside.busy:
            self._give_up()
        if self._aside.busy or program in self._given_up:
            return
        found, given_up, root, environments = self._found, self._given_up, self._root, self._environments
        read = self._read or (lambda pid: sight_of(pid, root, environments))

        def look() -> None:
            try:
                found[program] = read(program[0])
            except OSError as error:
                if error.errno in _UNKNOWN:
                    given_up.add(program)
                else:
                    found[program] = None

        now = self._clock()
        self._looking = program, now
        self._aside.call(look, max(self._left, 0.0))
        self._left -= self._clock() - now

    def _give_up(self) -> None:
        """Gives up a read that hangs, and continues with others on a new thread."""
        if self._looking is None or self._clock() - self._looking[1] < HANG_SECONDS:
            return
        self._given_up.add(self._looking[0])
        if self._hanging < MOST_HANGING:
            self._hanging += 1
            self._aside.close()
            self._new_aside()

    def _new_aside(self) -> None:
        self._aside = Aside("environments")
        self._environments = Environments(self._root)


def sight_of(pid: int, root: Path, environments: Environments) -> Sight:
    """Reads the sight of a process. Raises OSError; may hang."""
    began = started_with(pid, _VARIABLES, root)
    now = environments.now(pid, _VARIABLES)
    chosen = (began,) if now is None or now == began else (began, now)
    own = root / f"proc/{pid}/root"
    theirs, ours = os.stat(own), os.stat(root)
    return Sight(
        chosen,
        frozenset(
            int(found[1]) for name in os.listdir(own / "dev") if (found := _DEVICE_FILE.fullmatch(name))
        ),
        (theirs.st_dev, theirs.st_ino) != (ours.st_dev, ours.st_ino),
        any(_has_mps(own, environment.get(_MPS_PIPES) or _MPS_PIPES_DEFAULT) for environment in chosen),
    )


def _has_mps(own: Path, pipes: str) -> bool:
    return os.path.lexists(inside(own, f"{pipes.strip('/')}/control"))
