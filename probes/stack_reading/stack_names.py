"""Names the frames of stacks: turns addresses in a process into functions, files and lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from stalltop.model.stacks.stack import StackFrame
from stalltop.model.text.clean import clean
from stalltop.probes.confined.examiner import Examiner
from stalltop.probes.confined.link import Answerer, BusyError, NoAnswerError
from stalltop.probes.stack_reading.known_code import KnownCode
from stalltop.probes.stacks.code_objects import PythonFrame
from stalltop.probes.stacks.layout import PythonEnd
from stalltop.probes.stacks.native_frames import NativeFrame
from stalltop.probes.symbols.cuda_kernel_names import for_display
from stalltop.probes.symbols.demangler import is_mangled

UNKNOWN: Final = StackFrame("", "", 0, "python")
"""A frame of Python code whose code object is gone, or cannot be read."""
MOST_PROCESSES: Final = 1024
"""Maximum number of processes whose native code is remembered."""
MOST_NAMES: Final = 32_768
"""Maximum number of functions, and of places that call, which are remembered of all processes together."""
MOST_LINES: Final = 16_384
"""Maximum number of frames of Python code whose lines are remembered of all processes together."""
LINES_SECONDS: Final = 10.0
"""Time for which they are remembered, s."""
SILENT_SECONDS: Final = 60.0
"""Time for which nothing is asked about a process whose files did not answer, s."""
_MOST_NAME: Final = 512
"""Maximum number of characters of a function's or file's name."""
_CUTS: Final = {
    PythonEnd.WHOLE: "",
    PythonEnd.NONE: "",
    PythonEnd.DEEPER: "more outer frames than are kept",
    PythonEnd.UNREAD: "a frame could not be read",
    PythonEnd.MOVED: "the thread's Python frames were not found",
    PythonEnd.SEVERAL: "the process has several Python interpreters: which one the thread runs is not known",
}
NOT_YET: Final = "whether the thread runs Python code was not known yet"
_ENTRIES: Final = frozenset(
    ("_start", "__libc_start_main", "__libc_start_call_main", "start_thread", "clone", "clone3")
)
"""Functions in which a program or a thread begins."""
_INTERPRETER: Final = frozenset(("_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault.cold"))
"""Functions in which CPython runs Python code: one call of them runs one Python frame or more."""
NO_FRAME_POINTER: Final = "native frames end where a function keeps no frame pointer"
_GONE: Final = "code objects were gone before their names were read"


class Demangles(Protocol):
    """Demangles names (``probes.symbols.demangler.Demangler``)."""

    def ask(self, names: Sequence[bytes]) -> dict[bytes, bytes]:
        """Returns the names that were demangled in time."""


_SHIM: Final = StackFrame("__init__", "__init__", 0, "python")
"""The frame by which CPython 3.12 and later call ``__init__`` of an object that they make
(``_Py_InitCleanup`` of Python/specialize.c). Python does not show it, either."""


def python_frames(
    frames: Iterable[PythonFrame], lines: Mapping[PythonFrame, StackFrame]
) -> tuple[StackFrame, ...]:
    """Returns the frames of a stack with their ``lines``, as Python itself would list them; one frame that is
    unknown if no line is known. Then which frames Python would not list is not known, either."""
    named = tuple(lines.get(frame, UNKNOWN) for frame in frames)
    if all(frame == UNKNOWN for frame in named):
        return named[:1]
    return tuple(frame for frame in named if frame != _SHIM)


def joined(native: Sequence[StackFrame], python: Sequence[StackFrame]) -> tuple[StackFrame, ...]:
    """Returns native frames and Python frames as one stack, innermost first.

    If native frames of the interpreter are seen, those inside of them come before the Python frames. If the
    program's or thread's entry is seen, too, those outside of the interpreter come behind the Python frames.
    Native frames between Python frames are left out: to which Python frame they belong is not known.
    """
    interpreter = [place for place, frame in enumerate(native) if frame.function in _INTERPRETER]
    if not python or not interpreter:
        return (*native, *python)
    outside = native[interpreter[-1] + 1 :] if _is_entry(native[-1]) else ()
    return (*native[: interpreter[0]], *python, *outside)


def why_cut(end: PythonEnd, frames: Sequence[StackFrame]) -> str:
    """Returns why outer frames of a stack are missing; '' if none are."""
    if all(frame.language != "python" for frame in frames) and end in (PythonEnd.NONE, PythonEnd.WHOLE):
        # A stack that ends because a function keeps no frame pointer looks like any other.
        return "" if not frames or _is_entry(frames[-1]) else NO_FRAME_POINTER
    return _CUTS[end] or (_GONE if UNKNOWN in frames else "")


def _is_entry(frame: StackFrame) -> bool:
    """Returns whether ``frame`` is the outermost one of a program or thread. The C library does not export
    the names of most functions that start these."""
    file = frame.file.rpartition("/")[2]
    return frame.function in _ENTRIES or (file.startswith("libc.") and frame.function.startswith(file))


class StackNames:
    """Names frames, by asking the confined process. May be used from several threads.

    The methods ask ``asks``, by default what the constructor was given. They raise BusyError if that does not
    wait until other questions are answered.
    """

    def __init__(self, asks: Answerer, demangler: Demangles) -> None:
        self._asks = asks
        self._demangler = demangler
        self._shown: dict[bytes, str] = {}
        self._code: dict[int, KnownCode] = {}
        """By process."""
        self._lines: dict[int, dict[PythonFrame, tuple[float, StackFrame]]] = {}
        """Lines of Python code by process, with the time when they were read (``time.monotonic()``)."""
        self._lock = threading.Lock()
        """Of ``_code`` and ``_lines``. It is not held during questions."""
        self._silent: dict[int, float] = {}
        """When processes may be asked about again whose files did not answer, monotonic seconds."""

    def lines(
        self, pid: int, frames: Sequence[PythonFrame], asks: Answerer | None = None
    ) -> dict[PythonFrame, StackFrame]:
        """Returns the lines of frames of a process, as far as they are known."""
        distinct = tuple(dict.fromkeys(frames))
        if not distinct or self._is_silent(pid):
            return {}
        now = time.monotonic()
        with self._lock:
            known = self._lines.get(pid, {})
            found = {
                frame: known[frame][1]
                for frame in distinct
                if frame in known and now - known[frame][0] <= LINES_SECONDS
            }
        wanted = tuple(frame for frame in distinct if frame not in found)
        if not wanted:
            return found
        (lines,) = (asks or self._asks).ask(Examiner.lines, [(pid, wanted)])
        self._heard(pid, lines)
        if isinstance(lines, OSError) or len(lines) != len(wanted):
            return found
        read = {
            frame: StackFrame(
                clean(line.function, _MOST_NAME), clean(line.file, _MOST_NAME), line.line, "python"
            )
            for frame, line in zip(wanted, lines, strict=True)
        }
        with self._lock:
            kept = self._lines.setdefault(pid, {})
            kept.update({frame: (now, line) for frame, line in read.items() if line.function})
            while sum(map(len, self._lines.values())) > MOST_LINES:
                del self._lines[next(iter(self._lines))]
        return found | read

    def native(
        self, pid: int, stacks: set[tuple[int, ...]], asks: Answerer | None = None
    ) -> Mapping[tuple[int, ...], tuple[StackFrame, ...]]:
        """Returns the frames of native stacks of a process, as far as they are known."""
        with self._lock:
            code = self._code.get(pid)
            if code is None:
                code = KnownCode(self._native_frame)
            known = {stack: code.stack(stack) for stack in stacks}
        named = {stack: frames for stack, frames in known.items() if frames is not None}
        wanted = [stack for stack in stacks if stack not in named]
        if not wanted or self._is_silent(pid):
            return named
        answers = (asks or self._asks).ask(Examiner.native_stack, [(pid, stack) for stack in wanted])
        for answer in answers:
            self._heard(pid, answer)
        found = {
            stack: answer
            for stack, answer in zip(wanted, answers, strict=False)
            if not isinstance(answer, OSError)
        }
        symbols = {frame.symbol for answer in found.values() for frame in answer.frames}
        mangled = {symbol for symbol in symbols if is_mangled(symbol)}
        asked = [symbol for symbol in mangled if symbol not in self._shown]
        if asked:
            self._shown |= {name: for_display(answer) for name, answer in self._demangler.ask(asked).items()}
        if mangled <= self._shown.keys():  # Otherwise better names may come.
            with self._lock:
                for stack, answer in found.items():
                    code.learn(stack, answer)
                # A stack may be named after its process was forgotten.
                self._code[pid] = code
                while len(self._code) > MOST_PROCESSES or sum(map(len, self._code.values())) > MOST_NAMES:
                    del self._code[next(iter(self._code))]
        return named | {
            stack: tuple(map(self._native_frame, answer.frames)) for stack, answer in found.items()
        }

    def remapped(self, pids: Collection[int] | None) -> None:
        """Forgets what the addresses of processes name, because the processes have mapped code, or ended;
        None: any process may have."""
        with self._lock:
            for pid in {*self._code, *self._lines} if pids is None else pids:
                self._code.pop(pid, None)
                self._lines.pop(pid, None)

    def _heard(self, pid: int, answer: object) -> None:
        """Raises BusyError if this is the answer. Notes that a process is not to be asked about because its
        files do not answer: each question would delay all others."""
        if isinstance(answer, BusyError):
            raise answer
        if isinstance(answer, NoAnswerError):
            self._silent[pid] = time.monotonic() + SILENT_SECONDS

    def _is_silent(self, pid: int) -> bool:
        until = self._silent.get(pid)
        if until is None or time.monotonic() < until:
            return until is not None
        del self._silent[pid]
        return False

    def _native_frame(self, frame: NativeFrame) -> StackFrame:
        name = self._shown.get(frame.symbol) or for_display(frame.symbol)
        if not frame.file:
            return StackFrame(name, "", 0, "jit")
        file = clean(frame.file, _MOST_NAME)
        return StackFrame(name or f"{file.rpartition('/')[2]}+{frame.offset:#x}", file, 0, "native")
