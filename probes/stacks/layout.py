"""Structs, enums and constants of ``bpf/stacks/layout.h``, for numpy.

``scripts/write_layout.py`` writes this file: change the header, not this.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

MARK_BYTES: Final = 52
"""Of a code object: from its version to the address of its table of lines."""
SAMPLE_NS: Final = 20408163
"""Least value of `sampled_ns` of struct keeping, and the period of clock_ticks: 49 Hz."""

PYTHON_THREAD: Final = np.dtype(
    [
        ("state", "u8"),
        ("thread_id", "u8"),
        ("interpreters_at", "u8"),
        ("interpreter", "u8"),
        ("tgid", "u4"),
        ("thread_id_at", "u2"),
        ("current_at", "u2"),
        ("through_at", "u2"),
        ("previous_at", "u2"),
        ("code_at", "u2"),
        ("instruction_at", "u2"),
        ("owner_at", "u2"),
        ("lines_at", "u2"),
        ("reserved", "u2", (2,)),
    ]
)
"""``struct python_thread``: The interpreter's state of one thread, and where its members are.
Offsets in bytes."""

PYTHON_FRAME: Final = np.dtype(
    [
        ("code", "u8"),
        ("instruction", "u8"),
        ("mark", "u8"),
    ]
)
"""``struct python_frame``: A frame of the interpreter, as it is in the memory of the process."""

STACK: Final = np.dtype(
    [
        ("start_ns", "u8"),
        ("tgid", "u4"),
        ("tid", "u4"),
        ("end", "u4"),
        ("frames", "u4"),
        ("native_bytes", "u4"),
        ("of", "u4"),
        ("cgroup_id", "u8"),
        ("ns", "u8"),
        ("futex", "u8"),
        ("operation", "u4"),
        ("part", "u4"),
        ("thread", "u4"),
        ("walk", "u4"),
        ("python", PYTHON_FRAME, (64,)),
        ("native", "u8", (32,)),
    ]
)
"""``struct stack``: The stack of a captured call, read when the call returned; or of a thread at
another moment."""


class Stacks(IntEnum):
    """``enum stacks``: Of which captured calls the stack is read."""

    OFF = 0
    SLOW = 1
    """Of slow calls."""
    ALL = 2
    """Of slow calls and of random ones."""


class PythonEnd(IntEnum):
    """``enum python_end``: How the Python frames of a stack ended."""

    NONE = 0
    """The monitor knows no Python code of this thread."""
    WHOLE = 1
    """The outermost frame was reached."""
    DEEPER = 2
    """There were more frames than are kept."""
    UNREAD = 3
    """A frame could not be read, so those outside it are missing."""
    MOVED = 4
    """The state that the monitor knows belongs to another thread by now."""
    SEVERAL = 5
    """The thread may run code of another interpreter of the process."""


class StackOf(IntEnum):
    """``enum stack_of``: Why a stack was read."""

    CALL = 0
    """A call was captured."""
    RUNNING = 1
    """The thread had a CPU when a period of its CPU time was over."""
    LEAVING = 2
    """The thread left its CPU."""
    WAKING = 3
    """The thread ended the wait of another one."""
