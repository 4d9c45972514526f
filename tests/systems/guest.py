"""Helpers for the test steps that run in the virtual machine (`tests.systems`): run stalltop's commands, and
start processes that make CUDA and NCCL calls and are ended when the step ends."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from stalltop.demo.build import Built, build
from stalltop.demo.caller import Caller
from stalltop.demo.latencies import Latency, write_table

T = TypeVar("T")

PROGRAM = Path(__file__).resolve().parents[2] / "stalltop"
PATIENCE_SECONDS = 900.0
"""Longest wait, in seconds. The guest's CPU is emulated and may be thirty times slower than the host's."""


class StepError(Exception):
    """A step failed; the message says what the step found."""


def need(is_so: object, otherwise: str) -> None:
    """Raise StepError with the message ``otherwise`` unless ``is_so`` is true."""
    if not is_so:
        raise StepError(otherwise)


def wait_until(look: Callable[[], T], what: str, seconds: float = PATIENCE_SECONDS) -> T:
    """Call ``look`` until its result is true and return it. Raises StepError after ``seconds``."""
    end = time.monotonic() + seconds
    while not (found := look()):
        need(time.monotonic() < end, f"waited {seconds:g} s for {what}; last result: {found!r}")
        time.sleep(0.5)
    return found


def output(*command: str, code: int = 0) -> str:
    """Run a command and return its stdout. Raises StepError if it ends with another code."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    need(
        done.returncode == code,
        f"{' '.join(command)} ended with {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}",
    )
    return done.stdout


def ended(*command: str) -> None:
    """Run a command that stops a process, a unit or a container.

    Ignores the exit code of the command, because its target may have stopped already.
    """
    subprocess.run(command, capture_output=True, check=False)


def stalltop(*arguments: str) -> str:
    """Run stalltop and return its stdout. Raises StepError unless it ends with 0."""
    return output(str(PROGRAM), *arguments)


def told(*arguments: str) -> Any:
    """Run stalltop and return the JSON that it prints."""
    return json.loads(stalltop(*arguments))


class Guest:
    """The workplace of one step, which removes everything at its end."""

    def __init__(self) -> None:
        # /var/tmp is on a disk; some systems keep /tmp in memory.
        self.folder = Path(tempfile.mkdtemp(prefix="system-test-", dir="/var/tmp"))
        # Users that a step makes run the programs, too, so the programs are copied from root's own folder to
        # one that all users can read.
        self.folder.chmod(0o755)
        self.built = Built(Path(shutil.copytree(build().folder, self.folder / "standin")))
        self._open = contextlib.ExitStack()
        self._tables = 0

    def __enter__(self) -> Guest:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        shutil.rmtree(self.folder)

    def later(self, do: Callable[..., object], *arguments: object) -> None:
        """Register ``do``, which is called at the end of the step; the last registered one is called
        first."""
        self._open.callback(do, *arguments)

    def caller(
        self,
        before: Sequence[str] = (),
        *,
        name: str = "",
        latencies: Mapping[str, Latency] | None = None,
    ) -> Caller:
        """Start, by the command ``before``, a process that uses the stand-in libraries and waits for
        commands."""
        table = None
        if latencies:
            self._tables += 1
            table = write_table(latencies, self.folder / f"{self._tables}.latencies")
        caller = Caller(self.built, before=before, name=name, table=table, files=self.folder)
        self._open.enter_context(caller)
        caller.answer(PATIENCE_SECONDS)
        return caller

    def unit(self, name: str, *properties: str, caller_name: str = "", within: Sequence[str] = ()) -> Caller:
        """Start a process that uses the stand-in libraries as the systemd service ``name``.

        ``properties`` are those of the unit, such as ``CPUQuota=20%``; ``within`` is a command prefix with
        which the service starts the process.
        """
        command = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", f"--unit={name}"]
        for one in properties:
            command += ["-p", one]
        self.later(output, "systemctl", "reset-failed")
        self.later(ended, "systemctl", "stop", name)
        return self.caller([*command, *within], name=caller_name)


def tenant(window: Mapping[str, Any], name: str) -> Any:
    """Return the tenant ``name`` of a window. Raises StepError unless there is exactly one tenant of that
    name."""
    found = [one for one in window["tenants"] if one["name"] == name]
    need(len(found) == 1, f"{len(found)} tenants are called {name}: {[t['name'] for t in window['tenants']]}")
    return found[0]


def splits_add_up(window: Mapping[str, Any]) -> int:
    """Return the number of operations in a window.

    Raises StepError if the parts of an operation's time do not add up to its total time.
    """
    for one in window["operations"]:
        parts = one["split_ns"]
        need(parts is not None, f"no split of {one['operation']}: {window['unknown']}")
        need(
            sum(parts.values()) == one["total_ns"],
            f"{one['operation']} took {one['total_ns']} ns, its parts {sum(parts.values())} ns",
        )
    return len(window["operations"])


def chain(window: Mapping[str, Any], cause: str, of: str) -> Any:
    """Return the chain with the cause ``cause`` about the tenant named ``of``. Raises StepError if there is
    none."""
    names = {one["id"]: one["name"] for one in window["tenants"]}
    for one in window["chains"]:
        if one["cause"] == cause and names.get(one["tenant"], "") == of:
            return one
    seen = [
        f"{one['cause']} of {names.get(one['tenant'], '?')}: {one['summary']}" for one in window["chains"]
    ]
    raise StepError(f"no chain {cause} of {of}; chains: {seen or 'none'}; unknown: {window['unknown']}")
