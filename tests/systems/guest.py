"""What a step works with: the program, and processes that call, which end with the step."""

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
"""How long anything may take: an emulated CPU is about thirty times slower."""


class Failed(Exception):
    """A step saw something that is not as it has to be; says what."""


def need(is_so: object, otherwise: str) -> None:
    """Raise Failed unless it ``is_so``."""
    if not is_so:
        raise Failed(otherwise)


def wait_until(look: Callable[[], T], what: str, seconds: float = PATIENCE_SECONDS) -> T:
    """Call ``look`` until it gives something true, and return that. Raises Failed after ``seconds``."""
    end = time.monotonic() + seconds
    while not (found := look()):
        need(time.monotonic() < end, f"waited {seconds:g} s for {what}; last seen: {found!r}")
        time.sleep(0.5)
    return found


def output(*command: str, code: int = 0) -> str:
    """What a command says on stdout. Raises Failed where it ends with another code."""
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
    """Run a command that ends something, which may have ended by itself."""
    subprocess.run(command, capture_output=True, check=False)


def stalltop(*arguments: str) -> str:
    """What the program says on stdout. Raises Failed where it does not end with 0."""
    return output(str(PROGRAM), *arguments)


def told(*arguments: str) -> Any:
    """The JSON that the program prints."""
    return json.loads(stalltop(*arguments))


class Guest:
    """One step's workplace."""

    def __init__(self) -> None:
        # On the disk: some systems have /tmp in memory.
        self.folder = Path(tempfile.mkdtemp(prefix="system-test-", dir="/var/tmp"))
        # Where users may run it, too: what is built is in a folder of root's.
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
        """Call this at the end of the step, the last one first."""
        self._open.callback(do, *arguments)

    def caller(
        self,
        before: Sequence[str] = (),
        *,
        name: str = "",
        latencies: Mapping[str, Latency] | None = None,
    ) -> Caller:
        """A process on stand-in libraries, started by the command ``before``, ready for commands."""
        table = None
        if latencies:
            self._tables += 1
            table = write_table(latencies, self.folder / f"{self._tables}.latencies")
        caller = Caller(self.built, before=before, name=name, table=table, files=self.folder)
        self._open.enter_context(caller)
        caller.answer(PATIENCE_SECONDS)
        return caller

    def unit(self, name: str, *properties: str, caller_name: str = "", within: Sequence[str] = ()) -> Caller:
        """The same as a systemd service of this name with ``properties`` (``CPUQuota=20%``), started by the
        command ``within``."""
        command = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", f"--unit={name}"]
        for one in properties:
            command += ["-p", one]
        self.later(output, "systemctl", "reset-failed")
        self.later(ended, "systemctl", "stop", name)
        return self.caller([*command, *within], name=caller_name)


def tenant(window: Mapping[str, Any], name: str) -> Any:
    """The tenant of this name in a window. Raises Failed where it is not there."""
    found = [one for one in window["tenants"] if one["name"] == name]
    need(len(found) == 1, f"{len(found)} tenants are called {name}: {[t['name'] for t in window['tenants']]}")
    return found[0]


def splits_add_up(window: Mapping[str, Any]) -> int:
    """How many operations there are; raises Failed where the parts of one are not its whole time."""
    for one in window["operations"]:
        parts = one["split_ns"]
        need(parts is not None, f"no split of {one['operation']}: {window['unknown']}")
        need(
            sum(parts.values()) == one["total_ns"],
            f"{one['operation']} took {one['total_ns']} ns, its parts {sum(parts.values())} ns",
        )
    return len(window["operations"])


def chain(window: Mapping[str, Any], cause: str, of: str) -> Any:
    """The chain of this cause of this tenant (by name). Raises Failed where it is not there."""
    names = {one["id"]: one["name"] for one in window["tenants"]}
    for one in window["chains"]:
        if one["cause"] == cause and names.get(one["tenant"], "") == of:
            return one
    seen = [
        f"{one['cause']} of {names.get(one['tenant'], '?')}: {one['summary']}" for one in window["chains"]
    ]
    raise Failed(f"no {cause} of {of}; told: {seen or 'nothing'}; unknown: {window['unknown']}")
