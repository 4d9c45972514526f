"""Tests stacks of a training loop of PyTorch, line by line, against those that it records itself.

Needs the environment that ``scripts/fetch-real-programs`` makes.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench.faults.real import environment
from stalltop.model.errors import StalltopError
from tests.kernel.stacks.comparing import compared
from tests.kernel.stacks.tracing import collected, compile_library
from tests.kernel.traced_program import NATIVE

LOOP = Path(__file__).with_name("torch_loop.py")
STEPS = 800
LEAST_SHARE = 0.995
LEAST_CALLS = 10_000


@pytest.fixture(scope="module")
def python() -> Path:
    """Return an interpreter with PyTorch."""
    try:
        return environment.python()
    except StalltopError as error:
        pytest.skip(f"{error.reason}; {error.remedy}")


def compile_extension(python: Path, library: Path) -> Path:
    """Compile native/calls.cpp for an interpreter, so that it calls ``library``."""
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('include'))"]
    include = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(include, "Python.h").exists():
        pytest.skip(f"{include}/Python.h is missing: apt install python3-dev")
    extension = library.with_name("calls.so")
    options = ["-O2", "-shared", "-fPIC", f"-I{include}", f"-Wl,-rpath,{library.parent}"]
    command = ["g++", *options, "-o", str(extension), str(NATIVE / "calls.cpp"), str(library)]
    subprocess.run(command, check=True, timeout=60)
    return extension


def test_stacks_of_a_training_loop_are_those_that_its_calls_recorded(python: Path, tmp_path: Path) -> None:
    library = compile_library(tmp_path)
    extension = compile_extension(python, library)
    records = tmp_path / "records"
    records.mkdir()
    collecting = collected([python, "-I", LOOP, library, records, str(STEPS), extension], library)
    tally = compared(records.iterdir(), collecting)
    print(tally)
    assert tally.right >= LEAST_CALLS, tally
    assert tally.share >= LEAST_SHARE, tally
    assert tally.without == 0, tally
    assert tally.right + tally.wrong + tally.incomplete + tally.without > 0.9 * tally.recorded, tally
