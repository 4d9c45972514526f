"""Reads the Python frames of a thread from outside, while it runs: for calls that do not return.

The thread may change its frames meanwhile. So the innermost frame is read again afterwards; a thread that
hangs has not changed it.
"""

from __future__ import annotations

from typing import Final

from stalltop.probes.stacks.code_objects import TAGS, PythonFrame, mark_of
from stalltop.probes.stacks.layout import MARK_BYTES
from stalltop.probes.stacks.layouts import C_OWNED, NONE, PythonLayout
from stalltop.probes.stacks.memory import ProcessMemory
from stalltop.probes.stacks.threads import PythonThread

MOST_FRAMES: Final = 64
"""As many frames as the BPF program keeps (PYTHON_FRAMES of bpf/stacks/layout.h)."""
_MOST_READ: Final = 96


def frames_of(pid: int, layout: PythonLayout, thread: PythonThread) -> tuple[PythonFrame, ...]:
    """Returns the frames of a thread, innermost first; none if they changed meanwhile, or if the thread may
    run code of another interpreter. Raises OSError."""
    found: list[PythonFrame] = []
    with ProcessMemory(pid) as memory:
        first = frame = _current(memory, layout, thread.state)
        for _ in range(_MOST_READ):
            if not frame or len(found) == MOST_FRAMES:
                break
            owner = 0 if layout.owner == NONE else memory.read(frame + layout.owner, 1)[0]
            if owner < C_OWNED:
                code = memory.pointer(frame + layout.code)
                instruction = memory.pointer(frame + layout.instruction)
                mark = mark_of(memory.read((code & ~TAGS) + layout.mark, MARK_BYTES))
                found.append(PythonFrame(code, instruction, mark))
            frame = memory.pointer(frame + layout.previous)
        same = first == _current(memory, layout, thread.state)
        same &= memory.pointer(thread.state + layout.thread_id) == thread.thread_id
        same &= memory.pointer(thread.interpreters_at) == thread.interpreter
    return tuple(found) if same else ()


def _current(memory: ProcessMemory, layout: PythonLayout, state: int) -> int:
    current = memory.pointer(state + layout.current)
    return current if layout.through == NONE else memory.pointer(current + layout.through)
