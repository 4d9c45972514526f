"""Reads the stacks of captured calls, and tells the BPF programs where threads have their Python frames."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import numpy as np

from stalltop.probes.maps.access import MapAccess
from stalltop.probes.programs.bpf_calls import delete, put
from stalltop.probes.programs.loading import Programs
from stalltop.probes.stacks.code_objects import PythonFrame
from stalltop.probes.stacks.layout import PYTHON_THREAD, PythonEnd, Stacks
from stalltop.probes.stacks.layouts import PythonLayout
from stalltop.probes.stacks.threads import PythonThread


class TracedThread(NamedTuple):
    """A thread that makes traced calls, or that is followed."""

    key: int
    """Its TID in the initial PID namespace."""
    tid: int
    tgid: int


class RawStack(NamedTuple):
    """The stack of a captured call."""

    tgid: int
    tid: int
    start_ns: int
    """CLOCK_MONOTONIC, as that of the call (``RawCapturedCall``)."""
    end: PythonEnd
    python: tuple[PythonFrame, ...]
    """Innermost first."""
    native: tuple[int, ...]
    """Addresses of instructions, innermost first; each is the one to which a function returns."""


class KernelStacks:
    """The stacks that the BPF programs read. May be used from several threads."""

    def __init__(self, programs: Programs, access: MapAccess) -> None:
        self._programs = programs
        self._access = access
        self._fields: list[list[int]] = []
        self._threads: list[TracedThread] = []

    def choose(self, of: Stacks) -> None:
        """Sets of which captured calls the stack is read: of all of these, until `limit` is called."""
        self._programs.keeping["stacks"] = of
        self.limit(np.iinfo(np.int64).max)

    def limit(self, most: int) -> None:
        """Sets how many stacks are read a second at most."""
        self._programs.keeping["most_stacks"] = most

    def threads(self) -> list[TracedThread]:
        """Returns the threads that make traced calls, and those that are followed: the same list as before if
        they are the same."""
        records = self._programs.threads
        used = np.flatnonzero(records["tid"] != 0)
        fields = [records[name][used].tolist() for name in ("tid", "shown_tid", "tgid")]
        if fields != self._fields:
            self._fields, self._threads = fields, list(map(TracedThread._make, zip(*fields, strict=True)))
        return self._threads

    def tell(self, thread: TracedThread, python: PythonThread, layout: PythonLayout) -> None:
        """Tells where the frames of ``thread`` are. Raises OSError."""
        entry = np.zeros(1, PYTHON_THREAD)
        entry["state"], entry["thread_id"], entry["tgid"] = python.state, python.thread_id, thread.tgid
        entry["interpreters_at"], entry["interpreter"] = python.interpreters_at, python.interpreter
        entry["thread_id_at"] = layout.thread_id
        entry["current_at"], entry["through_at"] = layout.current, layout.through
        entry["previous_at"], entry["code_at"] = layout.previous, layout.code
        entry["instruction_at"], entry["owner_at"] = layout.instruction, layout.owner
        entry["lines_at"] = layout.lines
        with self._access as is_open:
            if is_open:
                put(self._programs.python_threads, np.uint32(thread.key).tobytes(), entry.tobytes())

    def forget(self, key: int) -> None:
        """Forgets where the frames of a thread are (``TracedThread.key``)."""
        with self._access as is_open, contextlib.suppress(OSError):
            if is_open:
                delete(self._programs.python_threads, np.uint32(key).tobytes())

    def read(self) -> list[RawStack]:
        """Returns the stacks that were read since the previous call."""
        with self._access as is_open:
            if not is_open:
                return []
            found = self._programs.stacks.take()
        if not len(found):
            return []
        names = ("tgid", "tid", "start_ns", "end", "frames", "native_bytes")
        python, native = found["python"], found["native"]
        # A record has room for many more frames than most stacks have.
        return [
            RawStack(
                tgid,
                tid,
                start_ns,
                PythonEnd(end),
                tuple(map(PythonFrame._make, python[at, :frames].tolist())) if frames else (),
                tuple(native[at, : native_bytes // 8].tolist()),
            )
            for at, (tgid, tid, start_ns, end, frames, native_bytes) in enumerate(
                zip(*(found[name].tolist() for name in names), strict=True)
            )
        ]
