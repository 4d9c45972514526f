"""Tests what is read of other interpreters' memory, by programs that record their own stacks."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from stalltop.probes.binaries.elf import section_place, symbol_place
from stalltop.probes.process_maps import Kind, Mapping
from stalltop.probes.stacks.code_objects import UNREAD, CodeObjects, PythonFrame, SourceLine, mark_of
from stalltop.probes.stacks.frames_outside import MOST_FRAMES, frames_of
from stalltop.probes.stacks.interpreter import UnknownInterpreterError, _layout, interpreter_of
from stalltop.probes.stacks.layout import MARK_BYTES
from stalltop.probes.stacks.memory import ProcessMemory
from stalltop.probes.stacks.threads import threads_of
from tests.unit.probes.stacks.interpreters import RunningPython, interpreters, running

PROGRAM = """
def deep(depth):
    return hang() if not depth else deep(
        depth - 1
    )

def generate():
    yield deep(2)

class Loader:
    def load(self):
        def inner():
            return [found for found in generate()]
        return inner()

threading.Thread(target=Loader().load, daemon=True).start()
threading.Thread(target=lambda: deep(200), daemon=True).start()
exec(compile("def größe():\\n\\n    hang()\\ngröße()", "süß.py", "exec"))
"""


def read(program: RunningPython) -> dict[int, list[SourceLine]]:
    """Read the stacks of all threads from outside."""
    interpreter = interpreter_of(program.pid)
    assert interpreter is not None
    codes = CodeObjects()
    return {
        thread.tid: list(
            codes.lines(program.pid, interpreter.layout, frames_of(program.pid, interpreter.layout, thread))
        )
        for thread in threads_of(program.pid, interpreter)
    }


def settled(program: RunningPython) -> dict[int, list[SourceLine]]:
    """Read the stacks once every thread has gone from the line where it has recorded its stack into
    ``Event.wait``."""
    while True:
        found = read(program)
        if all(
            ("hang" in [line.function for line in stack] and stack[0].function == "Condition.wait")
            or stack[0].function == "wait"
            for stack in found.values()
        ):
            return found
        time.sleep(0.01)


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_each_thread_has_the_stack_that_it_recorded(interpreter: Path) -> None:
    with running(interpreter, PROGRAM, 3) as program:
        found = settled(program)
        assert found.keys() == program.stacks.keys()
        for tid, recorded in program.stacks.items():
            inside = [line.function for line in found[tid]].index("hang")
            stack = found[tid][inside:]
            assert stack == recorded[: len(stack)]
            assert inside + len(recorded) == len(found[tid]) or len(found[tid]) == MOST_FRAMES


def test_a_renamed_copy_without_symbols_is_recognized(tmp_path: Path) -> None:
    copy = tmp_path / "worker"
    shutil.copy(interpreters()[0], copy)
    subprocess.run(["strip", "--strip-all", copy], check=True)
    with running(copy, PROGRAM, 3) as program:
        assert settled(program).keys() == program.stacks.keys()


def test_the_section_of_the_runtime_is_at_its_symbol() -> None:
    compared = 0
    for interpreter in interpreters():
        with interpreter.open("rb") as file:
            section = section_place(file.fileno(), b".PyRuntime")
            if section is not None:
                assert section == symbol_place(file.fileno(), b"_PyRuntime")
                compared += 1
    assert compared


def test_a_process_without_python_has_no_interpreter() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            assert interpreter_of(process.pid) is None
        finally:
            process.kill()


def test_other_objects_are_not_read_as_code() -> None:
    with running(interpreters()[0], PROGRAM, 3) as program:
        interpreter = interpreter_of(program.pid)
        assert interpreter is not None
        wrong = (PythonFrame(interpreter.runtime, 0, 0), PythonFrame(0, 0, 0), PythonFrame(1 << 60, 7, 0))
        assert CodeObjects().lines(program.pid, interpreter.layout, wrong) == (UNREAD, UNREAD, UNREAD)


def test_code_at_a_reused_address_is_read_again() -> None:
    program_text = """
import ctypes
code = compile("pass", "first.py", "exec")
print(json.dumps([id(code), []]), flush=True)
sys.stdin.readline()
code2 = compile("1; pass; x", "second.py", "exec")
ctypes.memmove(id(code) + 16, id(code2) + 16, code2.__sizeof__() - 16)
print(json.dumps([id(code), []]), flush=True)
sys.stdin.readline()
"""
    from_here, to_child = os.pipe()
    stdin = os.dup(0)
    os.dup2(from_here, 0)
    try:
        with running(interpreters()[0], program_text, 1) as program:
            interpreter = interpreter_of(program.pid)
            assert interpreter is not None
            codes = CodeObjects()
            code = next(iter(program.stacks))

            def read_now() -> tuple[SourceLine, PythonFrame]:
                with ProcessMemory(program.pid) as memory:
                    tail = memory.read(code + interpreter.layout.mark, MARK_BYTES)
                    frame = PythonFrame(code, 0, mark_of(tail))
                return codes.lines(program.pid, interpreter.layout, (frame,))[0], frame

            before, first = read_now()
            os.write(to_child, b"\n")
            assert program.process.stdout is not None
            program.process.stdout.readline()
            after, _ = read_now()
            # A stack that was read while the first code object was there gets no line of the second one.
            assert codes.lines(program.pid, interpreter.layout, (first,)) == (UNREAD,)
        assert (before.file, after.file) == ("first.py", "second.py")
    finally:
        os.dup2(stdin, 0)
        for fd in (from_here, to_child, stdin):
            os.close(fd)


def test_threads_of_another_pid_namespace_have_their_ids_here() -> None:
    with running(
        interpreters()[0], PROGRAM, 3, within=("unshare", "--pid", "--fork", "--kill-child")
    ) as outer:
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        program = RunningPython(outer.process, outer.stacks, int(children[0]))
        assert 1 in program.stacks  # as the thread knows itself
        shown = {int(name) for name in os.listdir(f"/proc/{program.pid}/task")}
        assert settled(program).keys() == shown


def test_an_interpreter_that_is_not_known_is_named(tmp_path: Path) -> None:
    link = tmp_path / "python3.8"  # the version of an old interpreter is in its path only
    mapping = Mapping(0, 0, 0, 0, 0, str(link), False, (), 0, Kind.PROGRAM)
    with running(interpreters()[0], PROGRAM, 3) as program, ProcessMemory(program.pid) as memory:
        found = interpreter_of(program.pid)
        assert found is not None
        with pytest.raises(UnknownInterpreterError, match=r"CPython 3\.8 is not known"):
            _layout(memory, found.layout.object_head + found.runtime, 0, [mapping])
