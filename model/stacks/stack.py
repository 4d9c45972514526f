"""Stacks of calls: which line of source code made the calls that took long.

The stack of a captured call is read when the call returns, so it is exactly the stack that made it. Calls of
one row with the same stack and reason are counted together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

Language = Literal["python", "native", "jit"]
"""``jit``: code that is in no file, because the program compiled it while it ran."""
StackReason = Literal["slow", "sample", "open"]
"""Why a stack was read: the call was slow, was chosen at random, or had not returned for long."""


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


class StackCount(NamedTuple):
    """Calls of one row (``tenant`` to ``nested``, and ``device``) with one stack."""

    tenant: str
    pid: int
    process: str
    layer: str
    operation: str
    nested: bool
    reason: StackReason
    calls: int
    ns: int
    """Sum of their durations, ns; of open calls, of their ages."""
    frames: tuple[StackFrame, ...]
    """Innermost first."""
    cut: str = ""
    """Why outer frames are missing; '' if the stack is complete."""
    device: str = ""
    """Label of the device that the calls ran on; '' if unknown."""

    @property
    def row(self) -> tuple[str, int, str, str, str, bool, str]:
        """Key of the row that counts these calls: its ``RowKey`` without the host."""
        return (*self[:6], self.device)

    @property
    def python(self) -> tuple[StackFrame, ...]:
        """The frames of Python code, innermost first."""
        return tuple(frame for frame in self.frames if frame.language == "python")


def with_stack_tenants(stacks: Iterable[StackCount], renamed: Callable[[str], str]) -> tuple[StackCount, ...]:
    """Replaces each tenant id in ``stacks`` by ``renamed(id)``."""
    return tuple([stack._replace(tenant=renamed(stack.tenant)) for stack in stacks])
