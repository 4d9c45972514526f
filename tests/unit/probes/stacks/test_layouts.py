"""Tests the tables of offsets against the offsets that an interpreter's own headers have."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from stalltop.probes.stacks.debug_offsets import READ_BYTES, stated_layout
from stalltop.probes.stacks.layouts import NONE, TABLES
from tests.unit.probes.stacks.interpreters import interpreters

_PROGRAM = r"""
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stddef.h>
#include <frameobject.h>
#include <internal/pycore_runtime.h>
#include <internal/pycore_interp.h>
#define SAY(name, type, member) printf(#name " %zu\n", offsetof(type, member))
int main(void)
{
	SAY(interpreters, _PyRuntimeState, interpreters.head);
	SAY(next_interpreter, PyInterpreterState, next);
	SAY(next_thread, PyThreadState, next);
	SAY(thread_id, PyThreadState, thread_id);
	SAY(filename, PyCodeObject, co_filename);
	SAY(first_line, PyCodeObject, co_firstlineno);
#if PY_VERSION_HEX < 0x030b0000
	SAY(threads, PyInterpreterState, tstate_head);
	SAY(current, PyThreadState, frame);
	SAY(previous, PyFrameObject, f_back);
	SAY(code, PyFrameObject, f_code);
	SAY(instruction, PyFrameObject, f_lasti);
	SAY(name, PyCodeObject, co_name);
#else
	SAY(threads, PyInterpreterState, threads.head);
	SAY(current, PyThreadState, cframe);
	SAY(through, _PyCFrame, current_frame);
	SAY(native_id, PyThreadState, native_thread_id);
	SAY(name, PyCodeObject, co_qualname);
	SAY(lines, PyCodeObject, co_linetable);
	SAY(bytecode, PyCodeObject, co_code_adaptive);
#endif
	return 0;
}
"""


def _headers(interpreter: Path) -> Path | None:
    folder = interpreter.parent.parent / "include" / interpreter.name
    return folder if (folder / "internal").is_dir() else None


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_tables_have_the_offsets_of_the_headers(interpreter: Path, tmp_path: Path) -> None:
    named = re.search(r"python3\.(\d+)", interpreter.name)
    assert named is not None
    version = 3, int(named[1])
    if version not in TABLES:
        return  # This version states its offsets: see test_outside.py.
    headers = _headers(interpreter)
    assert headers is not None, "install the headers of this interpreter"
    source = tmp_path / "offsets.c"
    source.write_text(_PROGRAM)
    program = tmp_path / "offsets"
    subprocess.run(["gcc", "-w", f"-I{headers}", f"-I{headers}/internal", "-o", program, source], check=True)
    told = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    found = {name: int(at) for name, at in (line.split() for line in told.splitlines())}
    layout = TABLES[version]._asdict()
    assert {name: layout[name] for name in found} == found


def test_offsets_that_contradict_each_other_are_refused() -> None:
    words = [0] * (READ_BYTES // 8)
    words[0] = int.from_bytes(b"xdebugpy", "little")
    words[1] = 0x030D00F0
    head = b"".join(word.to_bytes(8, "little") for word in words)
    assert stated_layout(head) is None
    assert stated_layout(b"\0" * READ_BYTES) is None


def test_versions_without_native_ids_are_those_before_3_11() -> None:
    assert [version for version, layout in TABLES.items() if layout.native_id == NONE] == [(3, 9), (3, 10)]
