"""Tests reading environment variables that a process changed after its start."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stalltop.probes.tenants.environment import Environments, started_with

NAMES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NOT_SET")
STARTED = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
%s
int main(void)
{
    setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);
    unsetenv("CUDA_DEVICE_ORDER");
    printf("ready %%d\\n", %s);
    fflush(stdout);
    getchar();
    return 0;
}
"""


def read_of(command: list[str]) -> tuple[dict[str, str], dict[str, str] | None]:
    """Starts the command and waits for a line of its output. Returns the variables that it had at its start,
    and those that it has now."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PATH": "/usr/bin:/bin", **STARTED}
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        try:
            return started_with(process.pid, NAMES), Environments().now(process.pid, NAMES)
        finally:
            process.kill()


def test_a_python_program_that_sets_its_devices() -> None:
    program = (
        "import os, sys; os.environ['CUDA_VISIBLE_DEVICES'] = '3,1'; del os.environ['CUDA_DEVICE_ORDER']; "
        "print('ready', flush=True); sys.stdin.read()"
    )
    assert read_of([sys.executable, "-c", program]) == (STARTED, {"CUDA_VISIBLE_DEVICES": "3,1"})


@pytest.mark.parametrize("flags", [("-no-pie",), ("-pie",)], ids=["fixed", "moved"])
@pytest.mark.parametrize("named", [False, True], ids=["in the library", "in the program"])
def test_the_variable_environ_is_found_in_the_library_or_the_program(
    tmp_path: Path, flags: tuple[str, ...], named: bool
) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is missing on this machine")
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(PROGRAM % (("extern char **environ;", "environ != NULL") if named else ("", "1")))
    kind = ("-fno-pic",) if "-no-pie" in flags else ("-fPIE",)
    subprocess.run(["gcc", *kind, *flags, "-o", program, source], check=True, timeout=60)
    assert read_of([str(program)]) == (STARTED, {"CUDA_VISIBLE_DEVICES": "3,1"})


def test_a_static_program_has_only_its_first_environment(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is missing on this machine")
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(PROGRAM % ("", "1"))
    made = subprocess.run(["gcc", "-static", "-o", program, source], timeout=60, capture_output=True)
    if made.returncode:
        pytest.skip("this machine has no static C library")
    assert read_of([str(program)]) == (STARTED, None)


def test_an_ended_process_has_no_environment() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert Environments().now(process.pid, NAMES) is None
    with pytest.raises(FileNotFoundError):
        started_with(process.pid, NAMES)
