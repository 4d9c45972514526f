"""Finds the interpreter's state of each thread of a process.

An interpreter lists its threads; nothing is read from thread-local storage. Up to CPython 3.10, a thread
state has no TID: there, the TID is read from the C library's descriptor of the thread, at the address that
pthread_self() returns.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final, NamedTuple

from stalltop.probes.stacks.interpreter import Interpreter
from stalltop.probes.stacks.layouts import NONE
from stalltop.probes.stacks.memory import ProcessMemory

MOST_THREADS: Final = 4096
"""Maximum number of thread states of a process that are read."""
_MOST_INTERPRETERS: Final = 64
_TIDS_AT: Final = (0x2D0, 0xD0, 0x30)
"""Offsets of the TID in the descriptor of a thread: glibc on x86-64 and on aarch64 (``struct pthread`` of
nptl/descr.h), musl (src/internal/pthread_impl.h)."""


class PythonThread(NamedTuple):
    """A thread of a process that runs, or has run, Python code."""

    tid: int
    """In the PID namespace of stalltop."""
    state: int
    """Address of its ``PyThreadState``."""
    thread_id: int
    """What the state has as ``thread_id``: as long as it is there, the state is still that of the thread."""
    interpreters_at: int
    """Where the process has the address of its newest interpreter."""
    interpreter: int
    """Address of the first interpreter. If it is not the newest one, the thread may have a state in another
    interpreter, too, and which of them is current is not known."""


def threads_of(pid: int, interpreter: Interpreter) -> tuple[PythonThread, ...]:
    """Returns the threads of the process. Raises OSError if their list cannot be read."""
    tids = _tids(pid)
    found: dict[int, PythonThread] = {}
    layout = interpreter.layout
    interpreters_at = interpreter.runtime + layout.interpreters
    with ProcessMemory(pid) as memory:
        # Newer interpreters are listed first.
        interpreters: list[int] = []
        one = memory.pointer(interpreters_at)
        while one and len(interpreters) < _MOST_INTERPRETERS:
            interpreters.append(one)
            one = memory.pointer(one + layout.next_interpreter)
        for one in interpreters:
            state = memory.pointer(one + layout.threads)
            for _ in range(MOST_THREADS):
                if not state:
                    break
                thread_id = memory.pointer(state + layout.thread_id)
                with contextlib.suppress(OSError):
                    tid = tids.get(_own_tid(memory, interpreter, state, thread_id, tids))
                    if tid is not None:
                        found[tid] = PythonThread(tid, state, thread_id, interpreters_at, interpreters[-1])
                state = memory.pointer(state + layout.next_thread)
    return tuple(found.values())


def _own_tid(
    memory: ProcessMemory, interpreter: Interpreter, state: int, thread_id: int, tids: dict[int, int]
) -> int:
    """Returns the TID of a thread in the PID namespace of its process; 0 if it is not found."""
    if interpreter.layout.native_id != NONE:
        return memory.number(state + interpreter.layout.native_id)
    for at in _TIDS_AT:
        with contextlib.suppress(OSError):
            tid = memory.number(thread_id + at)
            if tid in tids:
                return tid
    return 0


def _tids(pid: int) -> dict[int, int]:
    """Returns the TIDs of a process in the PID namespace of stalltop, by those in the namespace of the
    process. Raises OSError."""
    shown = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    if len(namespaced(pid, pid)) <= 1:
        return {tid: tid for tid in shown}
    found = {}
    for tid in shown[:MOST_THREADS]:
        with contextlib.suppress(OSError, IndexError):
            found[namespaced(pid, tid)[-1]] = tid
    return found


def namespaced(pid: int, tid: int) -> list[int]:
    """Returns the ids of a thread in the PID namespace of stalltop and in those inside it."""
    with open(f"/proc/{pid}/task/{tid}/status", "rb") as status:
        for line in status:
            if line.startswith(b"NSpid:"):
                return [int(number) for number in line.split()[1:]]
    return []
