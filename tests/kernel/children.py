"""Runs child processes that load libraries, call functions, fork and exec on command; compiles C
libraries."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

DEADLINE_SECONDS = 60.0
"""Longest wait for something that normally happens at once; only a hung test waits that long."""

_CHILD = """
import ctypes, json, mmap, os, sys, threading
loaded = {}
held = []

def load(path):
    loaded[path] = ctypes.CDLL(path)

def call(path, symbol, times, *arguments):
    function = getattr(loaded[path], symbol)
    values = [ctypes.c_void_p(argument) for argument in arguments]
    return [function(*values) for _ in range(times)].count(0)

def run(program):
    exec(program, {})

def unload(path):
    ctypes.CDLL(None).dlclose(ctypes.c_void_p(loaded.pop(path)._handle))

def map_file(path):
    with open(path, "rb") as file:
        held.append(mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC))

def map_writable(path):
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        held.append(mmap.mmap(file.fileno(), size, mmap.MAP_PRIVATE,
                              mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC))

def maps_unchanged(path):  # 1 if no probe changes the mapped code
    with open(path, "rb") as file:
        data = file.read()
        with mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC) as mapped:
            return int(mapped[:] == data)

def pid():
    return os.getpid()

def execute(*command):
    sys.stdout.write("null\\n")
    sys.stdout.flush()
    os.execv(command[0], command)

def serve():
    while line := sys.stdin.readline():
        name, *rest = json.loads(line)
        if name == "fork":  # the forked child reads the next commands; its parent waits until it ends
            child = os.fork()
            if child:
                os.waitpid(child, 0)
                continue
            result = os.getpid()
        elif name == "end":
            sys.stdout.write("null\\n")
            sys.stdout.flush()
            os._exit(0)
        elif name == "end_first_thread":  # a new thread reads the next commands
            threading.Thread(target=serve).start()
            ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
        else:
            result = globals()[name](*rest)
        sys.stdout.write(json.dumps(result) + "\\n")
        sys.stdout.flush()
    os._exit(0)

serve()
"""


class Child:
    """A child process, which is killed at the end of the ``with`` block.

    ``before`` is a command that starts the child, such as ``unshare``.
    """

    def __init__(self, before: Sequence[str] = ()) -> None:
        self._process = subprocess.Popen(
            [*before, sys.executable, "-I", "-S", "-u", "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.own_pid = self.do("pid")
        """The PID in the child's own PID namespace."""

    @property
    def pid(self) -> int:
        """The child's PID in the PID namespace of the test; the PID of ``before`` if ``before`` forks."""
        return self._process.pid

    def do(self, name: str, *arguments: object) -> int:
        """Run the function ``name`` in the child; return its result. Raises AssertionError if the child
        ends."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, *map(_plain, arguments)]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the child ended at {name} {arguments}"
        result = json.loads(line)
        return int(result) if result is not None else 0

    def load(self, path: Path | str) -> None:
        self.do("load", path)

    def call(self, path: Path | str, symbol: str, times: int, *arguments: int) -> int:
        return self.do("call", path, symbol, times, *arguments)

    def tell(self, name: str) -> None:
        """Send a command that has no answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([name]) + "\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()


def _plain(argument: object) -> object:
    return str(argument) if isinstance(argument, Path) else argument


def compile_library(source: str, path: Path, *options: str) -> Path:
    """Compile C to a shared library (or, with ``-no-shared``, a program) at ``path``."""
    kind = [] if "-no-shared" in options else ["-shared", "-fPIC"]
    options = tuple(option for option in options if option != "-no-shared")
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["cc", "-O1", "-fno-optimize-sibling-calls", *kind, *options, "-x", "c", "-", "-o", str(path)],
        input=source,
        text=True,
        check=True,
    )
    return path


def until(condition: Callable[[], bool], act: Callable[[], object] = lambda: None) -> bool:
    """Call ``act`` and then ``condition``, repeatedly; return whether the condition became true in time."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        act()
        if condition():
            return True
        time.sleep(0.02)
    return False
