"""Tests tables of lines: against the interpreter's own reading, and by tables made by hand."""

from __future__ import annotations

import inspect
import json
import subprocess
from pathlib import Path
from types import CodeType

import pytest

from stalltop.probes.stacks import line_tables
from stalltop.probes.stacks.layouts import LineFormat
from stalltop.probes.stacks.line_tables import line_at
from tests.unit.probes.stacks.interpreters import interpreters

_TELLING = """
import argparse, inspect, json, subprocess, sys, types
def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)
def lines(code):
    if sys.version_info >= (3, 10):
        return [(start, line or 0) for start, end, line in code.co_lines() for start in range(start, end, 2)]
    starts = dict(__import__("dis").findlinestarts(code))
    line, found = 0, []
    for at in range(0, len(code.co_code), 2):
        line = starts.get(at, line)
        found.append((at, line))
    return found
form = 0 if sys.version_info < (3, 10) else 1 if sys.version_info < (3, 11) else 2
for module in (argparse, inspect, subprocess):
    for code in codes(compile(open(module.__file__).read(), module.__file__, "exec")):
        table = code.co_linetable if form else code.co_lnotab
        print(json.dumps([table.hex(), code.co_firstlineno, form, lines(code)]))
"""


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_every_instruction_has_the_line_that_its_interpreter_gives_it(interpreter: Path) -> None:
    told = subprocess.run([interpreter, "-I", "-c", _TELLING], capture_output=True, text=True, check=True)
    compared = 0
    for text in told.stdout.splitlines():
        table, first_line, form, lines = json.loads(text)
        for offset, line in lines[:: max(len(lines) // 50, 1)]:
            assert line_at(bytes.fromhex(table), first_line, offset, LineFormat(form)) == line
            compared += 1
    assert compared > 1000


def test_a_table_that_ends_early_gives_no_line() -> None:
    assert line_at(b"\x80", 10, 4, LineFormat.LOCATIONS) == 0
    assert line_at(b"", 10, 0, LineFormat.RANGES) == 0


def test_instructions_without_a_line_have_none() -> None:
    assert line_at(bytes([4, 1, 2, 0x80, 2, 2]), 10, 4, LineFormat.RANGES) == 0
    assert line_at(bytes([4, 1, 2, 0x80, 2, 2]), 10, 6, LineFormat.RANGES) == 13


def test_any_bytes_are_read_without_error() -> None:
    code = test_any_bytes_are_read_without_error.__code__
    assert isinstance(code, CodeType)
    noise = inspect.getsource(line_tables).encode()
    for form in LineFormat:
        for start in range(200):
            assert isinstance(line_at(noise[start:], 1, 1 << 20, form), int)
