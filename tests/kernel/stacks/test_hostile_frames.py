"""Tests stacks of a process that has its frames in circles, at unmapped pages, and at addresses of the Linux
kernel."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.probes.maps.stacks import RawStack, TracedThread
from stalltop.probes.stacks.layout import PythonEnd
from stalltop.probes.stacks.layouts import TABLES
from stalltop.probes.stacks.threads import PythonThread
from stalltop.probes.tracer.kernel_side import KernelSide
from tests.kernel.stacks.tracing import compile_library, tracing

LAYOUT = TABLES[3, 9]._replace(thread_id=0, current=8, previous=0, code=8, instruction=16, lines=0)
THREAD_ID = 0x5EED
INTERPRETER = 0xFEED

FLIPPED = 10
"""Number of frames that change while they are walked."""
PROGRAM = """
import ctypes, itertools, os, struct, sys, threading
worked = ctypes.CDLL(sys.argv[1]).worked
state, frames = ctypes.create_string_buffer(24), ctypes.create_string_buffer(4096)
at = ctypes.addressof(frames)
print(os.getpid(), ctypes.addressof(state), at, flush=True)
flips, ended = threading.Event(), threading.Event()
def flip(number):
    callers = [at + 24 * one for one in range(number)] + [0x1000, 1 << 62, 0]
    for one, caller in zip(itertools.cycle(range(number)), itertools.cycle(callers)):
        if not flips.is_set():
            return ended.set()
        struct.pack_into("Q", frames, 24 * one, caller)
for line in sys.stdin:
    thread_id, current, newest, *previous = (int(word, 0) for word in line.split())
    struct.pack_into("QQQ", state, 0, thread_id, current, newest)
    for number, one in enumerate(previous):
        struct.pack_into("QQQ", frames, 24 * number, one, at, number)
    if newest == 0xFEED and len(previous) == int(sys.argv[2]):
        flips.set()
        threading.Thread(target=flip, args=(len(previous),)).start()
    worked(1000000)
    if flips.is_set():
        flips.clear()
        ended.wait()
        ended.clear()
    print("called", flush=True)
"""


class Hostile:
    """The process whose frames a test chooses."""

    def __init__(self, kernel: KernelSide, library: Path) -> None:
        self._kernel = kernel
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, library, str(FLIPPED)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.pid, self.state, self.frames = map(int, self._process.stdout.readline().split())

    def frame(self, number: int) -> int:
        """Return the address of a frame."""
        return self.frames + 24 * number

    def stack(self, thread_id: int, current: int, *previous: int, newest: int = INTERPRETER) -> RawStack:
        """Make a call whose frames have the given callers, and return its stack. ``newest`` is the address of
        the newest interpreter."""
        self._kernel.read()
        self._kernel.stacks.read()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, (thread_id, current, newest, *previous))) + "\n")
        self._process.stdin.flush()
        self._process.stdout.readline()
        while True:
            found = self._kernel.stacks.read()
            if found:
                return found[-1]
            time.sleep(0.01)

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    library = compile_library(tmp_path_factory.mktemp("hostile"))
    with tracing(library) as kernel:
        process = Hostile(kernel, library)
        assert process.stack(0, 0).end == PythonEnd.NONE
        (thread,) = kernel.stacks.threads()
        assert thread == TracedThread(thread.key, process.pid, process.pid)
        told = PythonThread(process.pid, process.state, THREAD_ID, process.state + 16, INTERPRETER)
        kernel.stacks.tell(thread, told, LAYOUT)
        yield process
        process.close()


def test_frames_in_a_circle_end(hostile: Hostile) -> None:
    first, second = hostile.frame(0), hostile.frame(1)
    stack = hostile.stack(THREAD_ID, first, second, first)
    assert (stack.end, len(stack.python)) == (PythonEnd.DEEPER, 64)
    assert [frame.instruction for frame in stack.python[:4]] == [0, 1, 0, 1]


@pytest.mark.parametrize("address", [0x1000, 0xFFFF_8000_0000_0000, 0xFFFF_FFFF_FFFF_FFF8, 1 << 62])
def test_a_frame_at_an_unmapped_address_ends_the_stack(hostile: Hostile, address: int) -> None:
    stack = hostile.stack(THREAD_ID, hostile.frame(0), address)
    assert (stack.end, len(stack.python)) == (PythonEnd.UNREAD, 1)
    stack = hostile.stack(THREAD_ID, address)
    assert (stack.end, len(stack.python)) == (PythonEnd.UNREAD, 0)


def test_frames_that_change_while_they_are_walked_are_bounded(hostile: Hostile) -> None:
    callers = [hostile.frame(number) for number in range(1, FLIPPED)]
    ends = set()
    for _ in range(200):
        stack = hostile.stack(THREAD_ID, hostile.frame(0), *callers, 0)
        ends.add(stack.end)
        assert len(stack.python) <= 64
        assert {frame.instruction for frame in stack.python} <= set(range(FLIPPED))
    assert ends <= {PythonEnd.WHOLE, PythonEnd.UNREAD, PythonEnd.DEEPER}
    assert len(ends) > 1, "nothing changed"


def test_the_state_of_another_thread_is_not_walked(hostile: Hostile) -> None:
    stack = hostile.stack(THREAD_ID + 1, hostile.frame(0), 0)
    assert (stack.end, len(stack.python)) == (PythonEnd.MOVED, 0)


def test_frames_are_not_known_while_there_is_another_interpreter(hostile: Hostile) -> None:
    stack = hostile.stack(THREAD_ID, hostile.frame(0), 0, newest=INTERPRETER + 1)
    assert (stack.end, len(stack.python)) == (PythonEnd.SEVERAL, 0)


def test_a_thread_without_frames_has_a_whole_stack_of_none(hostile: Hostile) -> None:
    stack = hostile.stack(THREAD_ID, 0)
    assert (stack.end, len(stack.python)) == (PythonEnd.WHOLE, 0)


def test_frames_of_the_limit_are_whole(hostile: Hostile) -> None:
    previous = [hostile.frame(number) for number in range(1, 64)]
    stack = hostile.stack(THREAD_ID, hostile.frame(0), *previous, 0)
    assert (stack.end, [frame.instruction for frame in stack.python]) == (PythonEnd.WHOLE, [*range(64)])
    stack = hostile.stack(THREAD_ID, hostile.frame(0), *previous, hostile.frame(64), 0)
    assert (stack.end, len(stack.python)) == (PythonEnd.DEEPER, 64)
