"""Tests stacks of forked processes, of greenlets, and of an interpreter that is a part of a program in C,
against those that the calls record themselves."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.faults.real import environment
from stalltop.demo.build import compiler
from stalltop.model.errors import StalltopError
from tests.kernel.stacks.comparing import Tally, compared
from tests.kernel.stacks.tracing import collected, compile_library
from tests.kernel.traced_program import NATIVE

FOLDER = Path(__file__).parent
ROUNDS = 400
LEAST_SHARE = 0.995


def stacks(command: Sequence[str | Path], folder: Path, *arguments: str) -> Tally:
    """Run a script with a traced library, and compare the stacks of its calls."""
    library = compile_library(folder)
    records = folder / "records"
    records.mkdir()
    record = records if arguments else records / "all.json"
    collecting = collected([*command, library, record, str(ROUNDS), *arguments], library)
    return compared(records.iterdir(), collecting)


def test_stacks_of_forked_processes(tmp_path: Path) -> None:
    tally = stacks([sys.executable, "-I", FOLDER / "other_caller.py"], tmp_path, "fork")
    assert tally.wrong == 0, tally
    assert tally.right > tally.recorded / 2, tally


def test_stacks_of_greenlets(tmp_path: Path) -> None:
    try:
        python = environment.python()
    except StalltopError as error:
        pytest.skip(f"{error.reason}; {error.remedy}")
    tally = stacks([python, "-I", FOLDER / "other_caller.py"], tmp_path, "greenlets")
    assert tally.wrong == 0, tally
    assert tally.right > 0.9 * tally.recorded, tally


def test_stacks_of_an_interpreter_in_a_program_in_c(tmp_path: Path) -> None:
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists():
        pytest.skip(f"{header} is missing: apt install python3-dev")
    program = tmp_path / "embeds-python"
    name = f"python{sysconfig.get_config_var('VERSION')}"
    subprocess.run(
        [*compiler(), f"-I{header.parent}", "-o", program, NATIVE / "embeds_python.c", f"-l{name}"],
        check=True,
        timeout=60,
    )
    tally = stacks([program, "-I", FOLDER / "python_caller.py"], tmp_path)
    assert tally.share >= LEAST_SHARE, tally
    assert tally.right > tally.recorded / 2, tally
