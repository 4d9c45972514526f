"""Reads the stacks of threads that the BPF programs sample, and how long their waits took."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from stalltop.probes.layout import DEVICE_SHIFT, HOW_SHIFT, WALKED, How
from stalltop.probes.maps.access import MapAccess
from stalltop.probes.maps.slots import SlotKey
from stalltop.probes.programs.cpu_clocks import CpuClocks
from stalltop.probes.programs.loading import Programs
from stalltop.probes.stacks.code_objects import PythonFrame
from stalltop.probes.stacks.layout import PYTHON_FRAME, STACK, PythonEnd, StackOf

_FIELDS: Final[Mapping[str, Any]] = STACK.fields or {}
_PYTHON: Final = int(_FIELDS["python"][1])
_NATIVE: Final = int(_FIELDS["native"][1])
_NUMBERS: Final = tuple(name for name in STACK.names or () if name not in ("python", "native"))
_FRAME: Final = struct.Struct("<QQQ")
_ADDRESS: Final = struct.Struct("<Q")
_OPERATION: Final = (1 << DEVICE_SHIFT) - 1
_PARTS: Final = (1 << HOW_SHIFT) - 1


class RawSample(NamedTuple):
    """The stack of a thread at one moment."""

    of: StackOf
    key: SlotKey
    """The row to which the thread's time belonged: of its outermost call, or of its time between calls."""
    tid: int
    start_ns: int
    """When the stack was read (CLOCK_MONOTONIC): of a wait, when it began."""
    ns: int
    """Time that the stack stands for; of LEAVING, the number of waits."""
    part: int
    """Index in ``model.window.SPLITS``: of the thread's wait; of WAKING, of the wait that it ended."""
    how: How
    futex: int
    """Address of the futex of the wait; 0: none."""
    thread: int
    """Index of the thread's record."""
    walk: int
    """Of LEAVING: number of the wait."""
    end: PythonEnd
    python_bytes: bytes
    native_bytes: bytes

    @property
    def tgid(self) -> int:
        """Process of the thread."""
        return self.key.tgid

    @property
    def python(self) -> tuple[PythonFrame, ...]:
        """Frames of Python code, innermost first."""
        return tuple(PythonFrame(*frame) for frame in _FRAME.iter_unpack(self.python_bytes))

    @property
    def native(self) -> tuple[int, ...]:
        """Addresses of instructions, innermost first."""
        return tuple(address for (address,) in _ADDRESS.iter_unpack(self.native_bytes))


class WaitTime(NamedTuple):
    """How long a wait has taken."""

    blocked_ns: int
    queued_ns: int
    """Time in which the thread was ready and waited for a CPU."""
    over: bool


class KernelSamples:
    """The stacks of threads that the BPF programs sample. May be used from several threads."""

    def __init__(self, programs: Programs, access: MapAccess) -> None:
        self._programs = programs
        self._access = access
        self._clocks = CpuClocks(programs.clock)

    @property
    def failure(self) -> str:
        """Why threads that have a CPU are not sampled; '' if they are."""
        return self._clocks.failure

    def choose(self, sampled_ns: int) -> None:
        """Sets the time of a thread after which its stack is read again, ns: at least SAMPLE_NS; 0: never."""
        self._programs.keeping["sampled_ns"] = sampled_ns

    def run(self, needed: bool) -> None:
        """Samples the CPU time of threads that have a record, while that is needed. To be called again and
        again."""
        with self._access as is_open:
            if not needed:
                self._clocks.stop()
            elif is_open:
                self._clocks.run()

    def close(self) -> None:
        """Ends the sampling of CPU time. May be called twice."""
        self._clocks.stop()

    def read(self) -> list[RawSample]:
        """Returns the stacks that were read since the previous call."""
        with self._access as is_open:
            if not is_open:
                return []
            found = self._programs.samples.take()
        if not len(found):
            return []
        data = found.tobytes()
        columns = (found[name].tolist() for name in _NUMBERS)
        samples = []
        for at, numbers in enumerate(zip(*columns, strict=True)):
            number = dict(zip(_NUMBERS, numbers, strict=True))
            operation, part = number["operation"], number["part"]
            start = at * STACK.itemsize
            python, native = start + _PYTHON, start + _NATIVE
            samples.append(
                RawSample(
                    StackOf(number["of"]),
                    SlotKey(
                        number["cgroup_id"],
                        number["tgid"],
                        operation & _OPERATION,
                        False,
                        operation >> DEVICE_SHIFT,
                    ),
                    *(number["tid"], number["start_ns"], number["ns"]),
                    *(part & _PARTS, How(part >> HOW_SHIFT)),
                    *(number["futex"], number["thread"], number["walk"], PythonEnd(number["end"])),
                    data[python : python + PYTHON_FRAME.itemsize * number["frames"]],
                    data[native : native + number["native_bytes"]],
                )
            )
        return samples

    def waited(self, sample: RawSample, now_ns: int) -> WaitTime | None:
        """Returns how long the wait of a sample has taken at ``now_ns``; None if that is not known any
        more."""
        if self._programs.off_cpu is None:
            return None
        if self._programs.off_cpu.reach(sample.thread + 1) <= sample.thread:
            return None
        off = self._programs.off_cpu.array[sample.thread]
        walked = off["walked"][sample.walk % WALKED]
        still = int(off["walked_ns"]) == sample.start_ns
        if int(walked["since_ns"]) == sample.start_ns:
            return WaitTime(int(walked["blocked_ns"]), int(walked["queued_ns"]), over=True)
        return WaitTime(max(now_ns - sample.start_ns, 0), 0, over=False) if still else None
