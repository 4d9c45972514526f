"""Names native frames: the functions that code addresses of a process lie in.

The Linux kernel follows frame pointers, which most libraries do not keep. Only the first address is certain:
that to which the traced function returned. So further frames count only as long as each address lies in
code, behind an instruction that calls; the first one that does not ends the stack.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import time
from collections import OrderedDict
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.probes.binaries.elf import ElfError, functions_with_sizes, symbol_name
from stalltop.probes.binaries.mapped_file import found
from stalltop.probes.process_maps import Mapping, executables_of, map_lines
from stalltop.probes.regular_file import opened
from stalltop.probes.stacks.memory import ProcessMemory
from stalltop.probes.stacks.perf_map import PerfMaps

_KEPT_FILES: Final = 16
_KEPT_PROCESSES: Final = 64
_KEPT_SECONDS: Final = 10.0
"""Time for which the mappings of a process are remembered, s; an address that is in none of them is looked
up in fresh ones."""
_MEMORY: Final = ("/memfd:", "/dev/zero")
"""How paths of mappings begin that are memory and no files."""
_LAST: Final = 1 << 63
"""An offset or address behind all code."""
_INSIDE: Final = (0, 0)
_VDSO: Final = "[vdso]"
"""The functions of the Linux kernel that run in programs, such as clock_gettime."""
_COMPILED: Final = "compiled"
_LONGEST_CALL: Final = 7
"""Size of the longest instruction of x86-64 that calls and is in use, bytes."""


class NativeFrame(NamedTuple):
    """A frame of native code."""

    symbol: bytes
    """Name of the function, mangled; empty if neither the file nor a map for perf has it."""
    file: str
    """Path of the file in the process's own mount namespace; '' for code in no file, such as compiled at run
    time."""
    offset: int
    """Offset of the address in the file."""
    start: int
    end: int
    """Where the function begins and ends in the process; without a symbol, the code between two functions.
    A frame belongs to the function in which the byte before its address lies."""


class NativeStack(NamedTuple):
    """A stack of native code."""

    frames: tuple[NativeFrame, ...]
    """Innermost first, as far as they are certain."""
    nothing: tuple[int, int]
    """If the address that ends the stack is not in code: where the memory, or the hole, begins and ends in
    which it lies; (0, 0) otherwise."""


class _SizedFunctions(NamedTuple):
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    names_at: NDArray[np.int64]

    def around(self, offset: int) -> tuple[int | None, int, int]:
        """Returns the index of the function at ``offset`` in the file, and the offsets where it begins and
        ends; None and where the code between two functions begins and ends if it is in none."""
        after = int(np.searchsorted(self.offsets, offset, "right"))
        start, end = 0, int(self.offsets[after]) if after < len(self.offsets) else _LAST
        if after:
            start = int(self.offsets[after - 1])
            behind = start + int(self.sizes[after - 1])
            if offset < behind:
                return after - 1, start, min(behind, end)
            start = behind
        return None, start, end


_NOTHING: Final = _SizedFunctions(*(np.zeros(0, np.int64),) * 3)


class NativeFrames:
    """Names addresses, and remembers the files that it read last. Used from one thread."""

    def __init__(self) -> None:
        self._files: OrderedDict[tuple[int, int, int, int], _SizedFunctions] = OrderedDict()
        self._mappings: OrderedDict[int, tuple[float, list[Mapping]]] = OrderedDict()
        self._perf_maps = PerfMaps()

    def stack(self, pid: int, addresses: tuple[int, ...]) -> NativeStack:
        """Returns the stack ``addresses``, innermost first."""
        frames = []
        nothing = _INSIDE
        with contextlib.suppress(OSError), ProcessMemory(pid) as memory:
            for place, address in enumerate(addresses):
                frame = self._frame(pid, address)
                if not isinstance(frame, NativeFrame):
                    nothing = frame
                    break
                if place and not _follows_call(memory, address):
                    break
                frames.append(frame)
        return NativeStack(tuple(frames), nothing)

    def _frame(self, pid: int, address: int) -> NativeFrame | tuple[int, int]:
        """Returns the frame of an address; if it is not in code, `NativeStack.nothing`."""
        # The address is behind the call: with a function that never returns, it may be that of the next
        # function.
        at = address - 1
        mapping = self._mapping(pid, at)
        if mapping is None:
            start, end, name = _around(pid, at)
            if name == _VDSO:
                return NativeFrame(b"", _VDSO, at - start + 1, start, end)
            return self._compiled(pid, at) if name == _COMPILED else (start, end)
        if mapping.path.startswith(_MEMORY):
            return self._compiled(pid, at)
        base = mapping.start - mapping.offset
        offset = at - base
        symbol, start, end = b"", offset, offset + 1
        with contextlib.suppress(OSError, ElfError), found(mapping) as looked_at, opened(looked_at) as fd:
            functions = self._functions(fd)
            place, start, end = functions.around(offset)
            if place is not None:
                symbol = symbol_name(fd, int(functions.names_at[place]))
        start, end = max(base + start, mapping.start), min(base + end, mapping.end)
        return NativeFrame(symbol, mapping.path, offset + 1, start, end)

    def _compiled(self, pid: int, address: int) -> NativeFrame:
        name, start, end = self._perf_maps.code(pid, address)
        return NativeFrame(name, "", 0, start, end)

    def _mapping(self, pid: int, address: int) -> Mapping | None:
        now = time.monotonic()
        for _ in range(2):
            since, mappings = self._mappings.get(pid, (0.0, []))
            at = bisect.bisect_right(mappings, address, key=lambda part: part.start) - 1
            if at >= 0 and address < mappings[at].end and now - since < _KEPT_SECONDS:
                return mappings[at]
            if since == now:
                break
            self._mappings[pid] = now, executables_of(pid)
            self._mappings.move_to_end(pid)
            while len(self._mappings) > _KEPT_PROCESSES:
                self._mappings.popitem(last=False)
        return None

    def _functions(self, fd: int) -> _SizedFunctions:
        status = os.fstat(fd)
        version = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        if version not in self._files:
            try:
                self._files[version] = _SizedFunctions(*functions_with_sizes(fd))
            except (OSError, ElfError, ValueError):
                self._files[version] = _NOTHING
            while len(self._files) > _KEPT_FILES:
                self._files.popitem(last=False)
        return self._files[version]


def _follows_call(memory: ProcessMemory, address: int) -> bool:
    """Returns whether the instruction before ``address`` calls. On aarch64, whether it may: BL or BLR."""
    try:
        before = memory.read(address - _LONGEST_CALL, _LONGEST_CALL)
    except OSError:
        return False
    if os.uname().machine == "aarch64":
        word = int.from_bytes(before[-4:], "little")
        return word & 0xFC000000 == 0x94000000 or word & 0xFFFFFC1F == 0xD63F0000
    if before[-5] == 0xE8:
        return True
    # FF /2 with a register (2 or 3 bytes), or with memory and a displacement of 0, 1 or 4 bytes.
    return any(before[-size] == 0xFF and before[1 - size] >> 3 & 7 == 2 for size in (2, 3, 4, 6, 7))


def _around(pid: int, address: int) -> tuple[int, int, str]:
    """Returns where the memory, or the hole, begins and ends in which ``address`` lies, and what code is
    there: ``_COMPILED`` by the program itself, ``_VDSO``, or '' for none. The page to which the Linux kernel
    lets traced functions return, ``[uprobes]``, is no code of the program."""
    before = 0
    for piece in map_lines(f"/proc/{pid}"):
        for line in piece.splitlines():
            bounds, permissions, _, _, _, *name = line.split(maxsplit=5)
            start, end = (int(bound, 16) for bound in bounds.split(b"-"))
            if address < start:
                return before, start, ""
            if address < end:
                if name and name[0] == _VDSO.encode():
                    return start, end, _VDSO
                is_code = permissions[2:3] == b"x" and (not name or name[0].startswith(b"[anon:"))
                return start, end, _COMPILED if is_code else ""
            before = end
    return before, _LAST, ""
