"""Finds the CPython interpreters on this machine, and runs programs in them that record their own stacks."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stalltop.probes.stacks.code_objects import SourceLine

_MINORS = range(9, 15)
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
FETCHED = Path(os.environ.get("STALLTOP_INTERPRETERS") or _CACHE / "stalltop/interpreters")
"""Where ``scripts/fetch-interpreters`` makes interpreters."""


def interpreters() -> list[Path]:
    """Return the interpreters that tests run: this one's file, the system's, those of pyenv, and the
    free-threaded one that was fetched; one path per file, at least one."""
    candidates = [Path(sys.executable), Path("/usr/bin/python3")]
    candidates += [
        found
        for folder in (Path.home() / ".pyenv/versions", Path("/opt/pyenv/versions"), FETCHED)
        for found in sorted(folder.glob("[3f]*/bin/python3"))
    ]
    files = dict.fromkeys(path.resolve() for path in candidates if path.exists())
    return [path for path in files if _minor(path) in _MINORS]


def _minor(path: Path) -> int:
    named = re.search(r"python3\.(\d+)", path.name)
    return int(named[1]) if named else 0


@dataclass(frozen=True)
class RunningPython:
    """A program that runs in an interpreter, and the stack that each of its threads recorded by
    ``sys._getframe``, innermost frame first."""

    process: subprocess.Popen[str]
    stacks: dict[int, list[SourceLine]]
    """By TID, as each thread knows it."""
    pid: int


_RECORDING = """
import json, os, sys, threading
_done = threading.Event()

def _told(frame):
    found = []
    while frame is not None:
        code = frame.f_code
        found.append((getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found

def hang():
    print(json.dumps([threading.get_native_id(), _told(sys._getframe())]), flush=True); _done.wait()
"""


@contextlib.contextmanager
def running(
    interpreter: Path, program: str, threads: int, within: Sequence[str] = ()
) -> Iterator[RunningPython]:
    """Run ``program``, by the command ``within`` if there is one, until ``threads`` of its threads have
    called ``hang()``."""
    process = subprocess.Popen(
        [*within, str(interpreter), "-I", "-c", _RECORDING + program],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    try:
        assert process.stdout is not None
        stacks = {}
        for _ in range(threads):
            tid, stack = json.loads(process.stdout.readline())
            stacks[tid] = [SourceLine(*frame) for frame in stack]
        yield RunningPython(process, stacks, process.pid)
    finally:
        process.kill()
        process.communicate()
