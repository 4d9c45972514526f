"""Builds the stand-in driver library of demo/native/libraries/nvml.h, and runs programs that load it in place
of the real one."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[4]
SOURCES = [ROOT / "demo/native/libraries" / name for name in ("nvml.c", "nvml_parts.c", "nvml_scenario.c")]
# Each program that starts with this text runs in a process of its own: the NVML bindings load
# libnvidia-ml.so.1 only once in a process, from the search path of the loader.
BEGIN = """
import dataclasses, json, os, pathlib, sys, time

def show(text):
    path = os.environ["NVML_STANDIN_SCENARIO"]
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)
"""
READ = (
    BEGIN
    + """
from stalltop.probes.nvml.reader import DeviceReader
reader = DeviceReader(patience_seconds=60)
for line in sys.stdin:  # each line is a scenario
    show(json.loads(line))
    print(json.dumps(dataclasses.asdict(reader.read())))
reader.close()
"""
)
LOOK = (
    BEGIN
    + """
from stalltop.probes.nvml.driver import Nvml

class Clock:
    now = 1000.0
    def __call__(self):
        return self.now

clock, wall = Clock(), Clock()
wall.now = time.time()
"""
)
"""Start of a program that reads NVML in its own process, with a clock that the program sets."""


@cache
def library(*, old: bool = False) -> Path:
    """Builds the library once per process; returns its folder. ``old`` builds that of a driver before 510."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "a C compiler is needed to build the stand-in driver library"
    folder = Path(tempfile.mkdtemp(prefix="nvml-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command = [compiler, "-std=gnu11", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    command += ["-DOLD_DRIVER"] if old else []
    subprocess.run([*command, *SOURCES, "-o", folder / "libnvidia-ml.so.1"], check=True, timeout=100)
    return folder


def run(program: str, folder: Path, scenario: str = "", given: str = "") -> str:
    """Runs ``program`` in a process that loads the library in ``folder``; returns what it prints."""
    with tempfile.TemporaryDirectory() as work:
        path = Path(work) / "scenario"
        path.write_text(scenario)
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "LD_LIBRARY_PATH": str(folder), "NVML_STANDIN_SCENARIO": str(path)},
            input=given,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_each(*scenarios: str, folder: Path | None = None) -> list[dict[str, Any]]:
    """Reads devices once per scenario with one DeviceReader; returns the readings."""
    given = "".join(f"{json.dumps(text)}\n" for text in scenarios)
    told = run(READ, folder or library(), scenarios[0], given)
    return [json.loads(line) for line in told.splitlines()]


def read(scenario: str, folder: Path | None = None) -> dict[str, Any]:
    """Returns the first reading of a new DeviceReader."""
    [found] = read_each(scenario, folder=folder)
    return found


def run_with_clock(program: str, scenario: str = "") -> Any:
    """Runs the code ``LOOK``, then ``program``; returns the JSON that is printed."""
    return json.loads(run(LOOK + program, library(), scenario))
