"""Stacks of calls: which line of source code made the calls that took long.

The stack of a captured call is read when the call returns, so it is exactly the stack that made it. Calls of
one row with the same stack and reason are counted together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, NamedTuple

from stalltop.model.histograms.hdr import HIGHEST_OF_INDEX

Language = Literal["python", "native", "jit"]
"""``jit``: code that is in no file, because the program compiled it while it ran."""
StackReason = Literal[
    "slow",
    "sample",
    "open",
    "on_cpu",
    "runqueue",
    "disk",
    "memory",
    "lock",
    "gil",
    "gpu",
    "network",
    "process",
    "sleep",
    "other",
    "holds_lock",
    "holds_gil",
    "hands_over",
]
"""Why a stack was read: see REASONS."""
REASONS: Final[Mapping[StackReason, str]] = MappingProxyType(
    {
        "slow": "a call was slow",
        "sample": "a call was captured at random",
        "open": "a call had not returned for long",
        "on_cpu": "ran",
        "runqueue": "waited for a CPU",
        "disk": "waited for a disk",
        "memory": "waited for memory",
        "lock": "waited for a lock, or for another thread",
        "gil": "waited for Python's interpreter lock (GIL)",
        "gpu": "waited for the GPU",
        "network": "waited for the network",
        "process": "waited for another process",
        "sleep": "slept",
        "other": "waited for something else",
        "holds_lock": "held a lock for which another thread waited",
        "holds_gil": "held Python's interpreter lock (GIL), for which another thread waited",
        "hands_over": "ended the wait of another thread",
    }
)
"""What each reason says of the calls or the thread. The first three are of calls. The others are samples of
threads that make calls, and of those that they wait for."""
OF_CALLS: Final[frozenset[StackReason]] = frozenset(("slow", "sample", "open"))
OFF_CPU: Final[frozenset[StackReason]] = frozenset(
    ("runqueue", "disk", "memory", "lock", "gil", "gpu", "network", "process", "sleep", "other")
)
SAMPLED: Final[frozenset[StackReason]] = OFF_CPU | {"on_cpu"}
"""Their times together are the times of the threads: on a CPU, and off it."""
HOLDS: Final[frozenset[StackReason]] = frozenset(("holds_lock", "holds_gil", "hands_over"))


class StackFrame(NamedTuple):
    """One frame of a stack."""

    function: str
    """Qualified name of a Python function, or demangled name of a native one; '' if unknown."""
    file: str
    """As the process knows it: in a container, the path there. '' if unknown."""
    line: int
    """0 if unknown, as always for native code."""
    language: Language

    @property
    def place(self) -> str:
        """File name and line, or the function where there is no line: ``train.py:88``."""
        name = self.file.rpartition("/")[2]
        if self.line:
            return f"{name}:{self.line}"
        return self.function or name or "unknown code"


Durations = Annotated[tuple[tuple[int, int], ...], "by HDR counter"]
"""Numbers of calls by the index of their HDR counter (``model.histograms.hdr``), sorted by this index."""


class StackCount(NamedTuple):
    """Calls of one row (``tenant`` to ``nested``, and ``device``) with one stack; or samples of threads, in
    these calls or between calls."""

    tenant: str
    pid: int
    process: str
    layer: str
    operation: str
    nested: bool
    reason: StackReason
    calls: int
    """Of samples: for how many waits, or for how many periods of CPU time, they stand."""
    ns: int
    """Sum of their durations, ns; of open calls, of their ages; of samples, the time that they stand for. Of
    HOLDS, the time for which another thread waited."""
    frames: tuple[StackFrame, ...]
    """Innermost first."""
    cut: str = ""
    """Why outer frames are missing; '' if the stack is complete."""
    device: str = ""
    """Label of the device that the calls ran on; '' if unknown."""
    durations: Durations = ()
    """Of calls that have returned: how long they took. Of others, and of samples: ()."""

    @property
    def row(self) -> tuple[str, int, str, str, str, bool, str]:
        """Key of the row that counts these calls: its ``RowKey`` without the host."""
        return (*self[:6], self.device)

    @property
    def p99_ns(self) -> int | None:
        """99th percentile of the durations of the calls; None if they are not known."""
        return p99_ns([self])

    @property
    def part(self) -> str:
        """Of a sample: the part of the thread's time, as ``model.window.SPLITS`` has it."""
        return {"on_cpu": "running", "gil": "lock"}.get(self.reason, self.reason)

    @property
    def python(self) -> tuple[StackFrame, ...]:
        """The frames of Python code, innermost first."""
        return tuple(frame for frame in self.frames if frame.language == "python")


def p99_ns(stacks: Iterable[StackCount]) -> int | None:
    """Returns the 99th percentile of the durations of calls; of those that have not returned, of their ages.
    None if no durations are known. As in HdrHistogram, the result is the longest duration that has the same
    counter, but no more than the calls took together."""
    took: list[tuple[int, int]] = []
    for stack in stacks:
        if stack.reason == "open":
            took.append((stack.ns // max(stack.calls, 1), stack.calls))
        took += ((min(int(HIGHEST_OF_INDEX[index]), stack.ns), calls) for index, calls in stack.durations)
    took.sort()
    rank = max(int(0.99 * sum(calls for _, calls in took) + 0.5), 1)
    for ns, calls in took:
        rank -= calls
        if rank <= 0:
            return ns
    return None


def with_stack_tenants(stacks: Iterable[StackCount], renamed: Callable[[str], str]) -> tuple[StackCount, ...]:
    """Replaces each tenant id in ``stacks`` by ``renamed(id)``."""
    return tuple([stack._replace(tenant=renamed(stack.tenant)) for stack in stacks])
