"""Tests stacks of interpreters that are laid out as tools lay them out: in virtual environments, copied to
another folder without symbols as uv and conda do, and in a PID namespace of their own, as in a container."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.kernel.stacks.comparing import compared
from tests.kernel.stacks.tracing import collected, compile_library
from tests.unit.probes.stacks.interpreters import interpreters

CALLER = Path(__file__).with_name("python_caller.py")
ROUNDS = 300
LEAST_SHARE = 0.995
Command = Sequence[str | Path]


def linked(folder: Path) -> Command:
    """A virtual environment, as by ``python -m venv``."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", folder], check=True)
    return [folder / "bin/python3", "-I"]


def copied(folder: Path) -> Command:
    """A virtual environment with a copy of the interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--copies", folder], check=True)
    return [folder / "bin/python3", "-I"]


def static(folder: Path) -> Command:
    """A static interpreter without symbols, with the standard library beside it."""
    program = Path("/usr/bin/python3").resolve()
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    subprocess.run(["strip", "--strip-all", "-o", folder / "bin" / program.name, program], check=True)
    (folder / "lib" / program.name).symlink_to(f"/usr/lib/{program.name}")
    return [folder / "bin" / program.name, "-I"]


def shared(folder: Path) -> Command:
    """A program with libpython without symbols beside it."""
    program = next((one for one in interpreters() if _libraries(one)), None)
    if program is None:
        pytest.skip("no interpreter of this machine has a libpython: pyenv installs one with --enable-shared")
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    for file in (program, *_libraries(program)):
        stripped = folder / file.parent.name / file.name
        subprocess.run(["strip", "--strip-all", "-o", stripped, file], check=True)
    (folder / "lib" / program.name).symlink_to(program.parent.parent / "lib" / program.name)
    return ["env", f"LD_LIBRARY_PATH={folder / 'lib'}", folder / "bin" / program.name, "-I"]


def _libraries(program: Path) -> list[Path]:
    return [*(program.parent.parent / "lib").glob(f"lib{program.name}*.so.1.0")]


def contained(folder: Path) -> Command:
    """The interpreter in a PID namespace of its own."""
    return ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-I"]


@pytest.mark.parametrize("layout", [linked, copied, static, shared, contained], ids=lambda one: one.__name__)
def test_stacks_of_each_layout(layout: Callable[[Path], Command], tmp_path: Path) -> None:
    for program in ("strip", "unshare"):
        assert shutil.which(program), f"{program} is missing: apt install binutils util-linux"
    command = layout(tmp_path / "python")
    library = compile_library(tmp_path)
    record = tmp_path / "stacks.json"
    tally = compared([record], collected([*command, CALLER, library, record, str(ROUNDS)], library))
    assert tally.share >= LEAST_SHARE, tally
    assert tally.right > tally.recorded / 2, tally
