"""Tests how stacks get their names, with a kernel side and processes that a test makes up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from stalltop.model.stacks.stack import StackFrame
from stalltop.probes.confined.link import BusyError, NoAnswerError
from stalltop.probes.maps.stacks import KernelStacks, RawStack, TracedThread
from stalltop.probes.stack_reading import stack_names, stack_reader
from stalltop.probes.stack_reading.stack_names import LINES_SECONDS, SILENT_SECONDS, StackNames
from stalltop.probes.stack_reading.stack_reader import FIRST_SECONDS, ReadStack, StackReader
from stalltop.probes.stacks.code_objects import UNREAD, PythonFrame, SourceLine
from stalltop.probes.stacks.interpreter import UnknownInterpreterError
from stalltop.probes.stacks.layout import PythonEnd
from stalltop.probes.stacks.layouts import TABLES
from stalltop.probes.stacks.native_frames import NativeFrame, NativeStack
from stalltop.probes.stacks.python_processes import PythonProcess
from stalltop.probes.stacks.threads import PythonThread

PID = 100
LAYOUT = TABLES[3, 11]
THREAD = TracedThread(1100, 100, PID)
FRAME = PythonFrame(0x1000, 0x1010, 0x2000)


@dataclass
class MadeUpHost:
    """A kernel side and the answers about processes."""

    traced: list[TracedThread] = field(default_factory=lambda: [THREAD])
    stacks: list[RawStack] = field(default_factory=list)
    process: PythonProcess | OSError | None = None
    told: list[int] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)
    asked: int = 0
    native_asked: int = 0

    def threads(self) -> list[TracedThread]:
        return self.traced

    def tell(self, thread: TracedThread, *_: object) -> None:
        self.told.append(thread.key)

    def forget(self, key: int) -> None:
        self.forgotten.append(key)

    def read(self) -> list[RawStack]:
        found, self.stacks = self.stacks, []
        return found

    def ask(self, question: Callable[..., Any], given: Iterable[Sequence[Any]]) -> list[Any]:
        answers: list[Any] = []
        for arguments in given:
            if question.__name__ == "python":
                self.asked += 1
                answers.append(self.process)
            elif question.__name__ == "lines":
                answers.append(
                    tuple(
                        SourceLine("step", "/a.py", 3) if frame == FRAME else UNREAD for frame in arguments[1]
                    )
                )
            else:
                self.native_asked += 1
                frames = NativeFrame(b"_Z3runi", "/lib/x.so", 16, 0, 20), NativeFrame(b"", "", 0, 31, 32)
                answers.append(NativeStack(frames[: len(arguments[1])], (0, 0)))
        return answers


class Demangling:
    def ask(self, names: Sequence[bytes]) -> dict[bytes, bytes]:
        return dict.fromkeys(names, b"run(int)")


class SettableClock:
    now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SettableClock:
    clock = SettableClock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    return clock


def reader(host: MadeUpHost) -> StackReader:
    return StackReader(cast(KernelStacks, host), cast(Any, host), Demangling())


def python(*tids: int) -> PythonProcess:
    return PythonProcess(LAYOUT, tuple(PythonThread(tid, 0x10, 0x20, 0x30, 0x40) for tid in tids))


def raw(*frames: PythonFrame, end: PythonEnd = PythonEnd.WHOLE, native: tuple[int, ...] = ()) -> RawStack:
    return RawStack(PID, 100, int(SettableClock.now * 1e9), end, frames, native)


def test_frames_get_their_names_and_native_ones_come_first(clock: SettableClock) -> None:
    host = MadeUpHost(process=python(100), stacks=[raw(FRAME, native=(16, 32))])
    reads = reader(host)
    reads.look()
    ((key, stack),) = reads.take().items()
    assert key == (100, int(clock.now * 1e9))
    assert stack.frames == (
        StackFrame("run(int)", "/lib/x.so", 0, "native"),
        StackFrame("", "", 0, "jit"),
        StackFrame("step", "/a.py", 3, "python"),
    )
    assert stack.cut == ""
    assert reads.take() == {}


@pytest.mark.parametrize("end", [PythonEnd.DEEPER, PythonEnd.UNREAD, PythonEnd.MOVED])
def test_stacks_that_end_early_say_so(clock: SettableClock, end: PythonEnd) -> None:
    reads = reader(MadeUpHost(process=python(100), stacks=[raw(FRAME, end=end)]))
    (stack,) = reads.take().values()
    assert stack.cut


def test_code_that_was_gone_is_said(clock: SettableClock) -> None:
    reads = reader(MadeUpHost(process=python(100), stacks=[raw(FRAME, PythonFrame(1, 2, 3))]))
    (stack,) = reads.take().values()
    assert [frame.function for frame in stack.frames] == ["step", ""]
    assert "gone" in stack.cut


def cut_of(reads: StackReader) -> str:
    (stack,) = reads.take().values()
    return stack.cut


def test_frames_that_were_not_known_yet_are_said(clock: SettableClock) -> None:
    host = MadeUpHost(process=python(100))
    early = raw(end=PythonEnd.NONE, native=(16,))
    reads = reader(host)
    host.stacks = [early]
    assert cut_of(reads) == stack_names.NOT_YET, "nobody has asked about the thread"
    reads.look()
    host.stacks = [early]
    assert cut_of(reads) == stack_names.NOT_YET, "it runs Python code, but was known after that call only"


@pytest.mark.parametrize(
    "process", [None, python(101)], ids=["without Python", "with Python in another thread"]
)
@pytest.mark.parametrize("end", [PythonEnd.NONE, PythonEnd.WHOLE])
def test_native_stacks_say_that_they_end_early(
    clock: SettableClock, process: PythonProcess | None, end: PythonEnd
) -> None:
    host = MadeUpHost(process=process)
    reads = reader(host)
    reads.look()
    host.stacks = [raw(end=end, native=(16,))]
    assert cut_of(reads) == stack_names.NO_FRAME_POINTER


def test_stacks_of_an_unknown_interpreter_say_so(clock: SettableClock) -> None:
    host = MadeUpHost(process=UnknownInterpreterError(3, 8))
    reads = reader(host)
    reads.look()
    host.stacks = [raw(end=PythonEnd.NONE, native=(16,))]
    assert cut_of(reads) == "CPython 3.8 is not known"


def native(*names: str) -> tuple[StackFrame, ...]:
    return tuple(StackFrame(name, "/lib/libc.so.6", 0, "native") for name in names)


@pytest.mark.parametrize("outermost", ["_start", "clone3", "libc.so.6+0x891f5", "libc.so.6"])
def test_stacks_that_begin_where_their_thread_does_are_whole(outermost: str) -> None:
    assert stack_names.why_cut(PythonEnd.NONE, native("run(int)", outermost)) == ""
    assert stack_names.why_cut(PythonEnd.NONE, ()) == ""


def test_python_frames_stand_where_the_interpreter_is_seen() -> None:
    line = StackFrame("step", "/a.py", 3, "python")
    interpreter = "_PyEval_EvalFrameDefault"
    whole = native("ffi_call", interpreter, "PyObject_Call", interpreter, "Py_BytesMain", "_start")
    assert stack_names.joined(whole, (line,)) == (
        *native("ffi_call"),
        line,
        *native("Py_BytesMain", "_start"),
    )
    assert stack_names.joined(whole[:-1], (line,)) == (*native("ffi_call"), line), "the list may end anywhere"
    assert stack_names.joined(whole, ()) == whole
    assert stack_names.joined(native("ffi_call", "_start"), (line,)) == (*native("ffi_call", "_start"), line)


def test_the_depth_of_each_stack_is_told(clock: SettableClock) -> None:
    told: list[int] = []
    host = MadeUpHost(process=python(100), stacks=[raw(FRAME, FRAME), raw(native=(16,))])
    StackReader(cast(KernelStacks, host), cast(Any, host), Demangling(), spent=told.extend).look()
    assert told == [2, 0]


def test_each_thread_is_told_once_and_forgotten_when_it_ends(clock: SettableClock) -> None:
    host = MadeUpHost(process=python(100))
    reads = reader(host)
    reads.look()
    reads.look()
    assert (host.told, host.asked) == ([THREAD.key], 1)
    host.traced = []
    reads.look()
    assert host.forgotten == [THREAD.key]


def test_a_new_thread_of_a_python_process_is_found_at_once(clock: SettableClock) -> None:
    host = MadeUpHost(process=python(100, 101))
    reads = reader(host)
    reads.look()
    host.traced = [THREAD, TracedThread(1101, 101, PID)]
    reads.look()
    assert host.told == [1100, 1101]


def test_a_process_without_python_is_asked_ever_more_rarely(clock: SettableClock) -> None:
    host = MadeUpHost(process=None)
    reads = reader(host)
    for _ in range(600):
        reads.look()
        clock.now += FIRST_SECONDS
    assert 5 <= host.asked <= 12


def test_an_unknown_interpreter_is_listed(clock: SettableClock) -> None:
    host = MadeUpHost(process=UnknownInterpreterError(3, 8))
    reads = reader(host)
    reads.look()
    (gap,) = reads.missing()
    assert (gap.pid, gap.reason) == (PID, "CPython 3.8 is not known")
    reads.forget(PID)
    host.traced = []
    reads.look()
    assert reads.missing() == ()


def test_a_thread_with_another_state_is_looked_up_again(clock: SettableClock) -> None:
    host = MadeUpHost(process=python(100))
    reads = reader(host)
    reads.look()
    host.stacks = [raw(end=PythonEnd.MOVED)]
    reads.look()
    reads.look()
    assert host.told == [THREAD.key, THREAD.key]


def test_stacks_wait_for_their_call_but_not_for_ever(clock: SettableClock) -> None:
    host = MadeUpHost(process=python(100), stacks=[raw(FRAME)])
    reads = reader(host)
    found = reads.take()
    reads.keep(found)
    assert reads.take() == found
    clock.now += stack_reader.KEPT_SECONDS + 1
    reads.keep(found)
    assert reads.take() == {}


class BusyAnswerer:
    """Gets to no question in time."""

    def ask(self, question: Callable[..., Any], given: Iterable[Sequence[Any]]) -> list[Any]:
        return [BusyError()]


def test_a_window_waits_for_no_question_that_hangs(clock: SettableClock) -> None:
    host = MadeUpHost(process=python(100), stacks=[raw(FRAME)])
    reads = StackReader(
        cast(KernelStacks, host), cast(Any, host), Demangling(), lambda seconds: BusyAnswerer()
    )
    assert reads.take() == {}
    assert reads.now(PID, 100) is None
    reads.look()  # It names what the window left.
    ((_, stack),) = reads.take().items()
    assert stack.frames == (StackFrame("step", "/a.py", 3, "python"),)
    hangs, goes_on = threading.Event(), threading.Event()

    def hang(question: Callable[..., Any], given: Iterable[Sequence[Any]]) -> list[Any]:
        hangs.set()
        goes_on.wait(60.0)
        return [OSError() for _ in given]

    host.ask = hang  # type: ignore[method-assign]
    host.stacks = [raw(FRAME._replace(instruction=0x1020))]
    looking = threading.Thread(target=reads.look)
    looking.start()
    hangs.wait(60.0)
    assert reads.take() == {}
    reads.keep({(1, 1): ReadStack((), "")})
    reads.forget(PID)
    goes_on.set()
    looking.join()


def test_native_stacks_are_named_once_until_the_process_maps_code(clock: SettableClock) -> None:
    host = MadeUpHost(process=python(100))
    reads = reader(host)

    def named() -> tuple[StackFrame, ...]:
        host.stacks = [raw(native=(16,))]
        (stack,) = reads.take().values()
        return stack.frames

    first = named()
    assert named() == first
    assert host.native_asked == 1
    for told, asked in ((set[int](), 1), ({PID + 1}, 1), ({PID}, 2), (None, 3)):
        reads.remapped(told)
        assert named() == first
        assert host.native_asked == asked


def test_names_are_kept_for_a_bounded_number_of_processes(
    clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_names, "MOST_PROCESSES", 3)
    host = MadeUpHost(process=python(100))
    reads = reader(host)
    for pid in range(1, 9):
        host.stacks = [RawStack(pid, pid, pid, PythonEnd.WHOLE, (), (16,))]
        assert all(stack.frames for stack in reads.take().values())
    assert [*reads.names._code] == [6, 7, 8]


def test_nothing_is_asked_for_a_while_about_a_process_whose_files_do_not_answer(clock: SettableClock) -> None:
    host = MadeUpHost()
    names = StackNames(cast(Any, host), Demangling())
    asked: list[str] = []

    def ask(question: Callable[..., Any], given: Iterable[Sequence[Any]]) -> list[Any]:
        asked.append(question.__name__)
        return [NoAnswerError("it hangs")]

    host.ask = ask  # type: ignore[method-assign]
    assert names.native(PID, {(16,)}) == {}
    assert not names.native(PID, {(16,)})
    assert names.lines(PID, [FRAME]) == {}
    assert asked == ["native_stack"]
    clock.now += SILENT_SECONDS
    assert names.lines(PID, [FRAME]) == {}
    assert asked == ["native_stack", "lines"]


def test_lines_are_remembered_for_a_while(clock: SettableClock) -> None:
    host, gone = MadeUpHost(), FRAME._replace(code=FRAME.code + 64)
    names = StackNames(cast(Any, host), Demangling())
    asked: list[tuple[PythonFrame, ...]] = []
    answer = host.ask

    def ask(question: Callable[..., Any], given: Iterable[Sequence[Any]]) -> list[Any]:
        given = list(given)
        asked.extend(frames for _, frames in given)
        return answer(question, given)

    host.ask = ask  # type: ignore[method-assign]
    first = names.lines(PID, [FRAME, gone])
    assert names.lines(PID, [FRAME, gone, FRAME]) == first
    assert asked == [(FRAME, gone), (gone,)], "what was not found may come"
    assert names.lines(PID + 1, [FRAME]) == {FRAME: first[FRAME]}
    asked.clear()
    names.remapped([PID])
    names.lines(PID, [FRAME])
    names.lines(PID + 1, [FRAME])
    clock.now += LINES_SECONDS + 1.0
    names.lines(PID + 1, [FRAME])
    assert asked == [(FRAME,), (FRAME,)]
