"""Tests stacks of processes that fork or execute another program, of greenlets, of processes with several
interpreters, of an interpreter that is a part of a program in C, and of one in a tree of a newer Debian,
against those that the calls record themselves."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bench.faults.real import environment
from stalltop.demo.build import compiler
from stalltop.model.errors import StalltopError
from tests.kernel.stacks.comparing import Tally, compared
from tests.kernel.stacks.tracing import collected, compile_library
from tests.kernel.traced_program import NATIVE
from tests.unit.probes.stacks.interpreters import FETCHED, interpreters

FOLDER = Path(__file__).parent
ROUNDS = 400
LEAST_SHARE = 0.995


def stacks(command: Sequence[str | Path], folder: Path, *arguments: str, root: str = "/") -> Tally:
    """Run a script with a traced library, and compare the stacks of its calls. ``root`` is the root of the
    file system that the command uses; ``folder`` is in it."""
    library = compile_library(folder)
    records = folder / "records"
    records.mkdir()
    record = records if arguments else records / "all.json"
    given = ["/" / path.relative_to(root) for path in (library, record)]
    collecting = collected([*command, *given, str(ROUNDS), *arguments], library)
    return compared(records.iterdir(), collecting)


@pytest.mark.parametrize("how", ["fork", "exec"])
def test_stacks_of_processes_that_fork_or_execute(how: str, tmp_path: Path) -> None:
    tally = stacks([sys.executable, "-I", FOLDER / "other_caller.py"], tmp_path, how)
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


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_stacks_of_several_interpreters_are_said_to_be_unknown(interpreter: Path, tmp_path: Path) -> None:
    tally = stacks([interpreter, "-I", FOLDER / "other_caller.py"], tmp_path, "interpreters")
    assert tally.wrong == 0, tally
    # While there is one interpreter only, before and after the others, the lines are known.
    assert tally.right > 1.5 * ROUNDS, tally
    assert tally.incomplete > 3 * ROUNDS, tally


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


@pytest.fixture
def tree_folder() -> Iterator[Path]:
    """Yield a folder in the tree of a newer Debian, with the scripts."""
    tree = FETCHED / "tree"
    if not tree.exists():
        pytest.skip(f"{tree} is missing: scripts/fetch-interpreters tree")
    with tempfile.TemporaryDirectory(dir=tree / "tmp") as folder:
        for script in FOLDER.glob("*_caller.py"):
            shutil.copy(script, folder)
        yield Path(folder)


@pytest.mark.parametrize("arguments", [(), ("fork",), ("interpreters",)], ids=str)
def test_stacks_of_an_interpreter_in_a_tree_of_a_newer_debian(
    tree_folder: Path, arguments: tuple[str, ...]
) -> None:
    tree = FETCHED / "tree"
    script = tree_folder / ("other_caller.py" if arguments else "python_caller.py")
    command: list[str | Path] = ["chroot", tree, "/usr/bin/python3.14", "-I", "/" / script.relative_to(tree)]
    tally = stacks(command, tree_folder, *arguments, root=str(tree))
    assert tally.share >= LEAST_SHARE, tally
    assert tally.right > tally.recorded / 4, tally
