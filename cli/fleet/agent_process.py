"""The agent of a fleet as a process beside a command that records.

It cannot be a part of that command: it reads the recording, and a process that closes a file gives up all of
its POSIX locks on it, also those by which SQLite writes there (https://sqlite.org/howtocorrupt.html, 2.2).
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from stalltop.cli.fleet.options import sending_arguments, server_access
from stalltop.cli.tracing import say
from stalltop.fleet.with_parent import ending_with_parent
from stalltop.model.errors import UsageError

AGAIN_SECONDS: Final = 10.0
"""Time after which an agent that has ended is started again, s."""
_FOR_GOOD: Final = (UsageError.exit_code,)
"""Exit codes after which it would only fail again."""
END_SECONDS: Final = 8.0
"""Longest wait for an agent that was asked to end, s: it sends what waits."""


def agent_beside(options: argparse.Namespace, recording: Path) -> AgentProcess | None:
    """Returns the agent of a recorder, which is to be started; None if ``options`` have no ``--nats``. Raises
    UsageError, and StalltopError if the client library is missing."""
    given = sending_arguments(options)
    if options.nats is None:
        if given:
            name = given[0].partition("=")[0]
            raise UsageError(f"{name}: only with --nats", "add --nats URL")
        return None
    if options.own:
        raise UsageError("--own: not with --nats: the agent would not find this tracer")
    access = server_access(options)
    access.options()  # raises the errors of files that cannot be used
    arguments = ["agent", f"--recording={recording}", *given]
    # It must not trace by itself if the recorder cannot be the tracer of the host.
    arguments.append("--simulated" if options.simulated else "--client")
    arguments += [f"--socket={options.socket}"] if options.socket else []
    arguments += [] if options.state else ["--no-state"]
    return AgentProcess(arguments, f"the agent that sends to {access.shown}")


class AgentProcess:
    """A process that passes the windows of this host on, and is started again if it ends. Used by the thread
    that started it: the process ends with this thread."""

    def __init__(self, arguments: list[str], name: str) -> None:
        """``name`` is what messages call it."""
        self._arguments = arguments
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None
        self._again = 0.0
        """When the agent may be started again, by ``time.monotonic()``."""

    def check(self) -> None:
        """Starts the agent if it does not run. Call this often."""
        if self._process is not None and self._process.poll() is not None:
            code, self._process = self._process.returncode, None
            how = f"exit code {code}" if code >= 0 else f"signal {-code}"
            if code in _FOR_GOOD:
                self._again = math.inf
                say(f"{self._name} ended with {how}, and is not started again")
                return
            self._again = time.monotonic() + AGAIN_SECONDS
            say(f"{self._name} ended with {how}; it starts again in {AGAIN_SECONDS:g} s")
        if self._process is None and time.monotonic() >= self._again:
            self._start()

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(
                ending_with_parent([sys.executable, "-P", "-m", "stalltop", *self._arguments]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the recorder, which ends it
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        except OSError as error:
            self._again = time.monotonic() + AGAIN_SECONDS
            say(f"{self._name} cannot be started: {error.strerror}")

    def stop(self) -> None:
        """Ends the agent. May be called twice."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
        finally:
            process.kill()
            process.wait()
