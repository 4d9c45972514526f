"""Names code that a program compiled while it ran, by the file that compilers write for perf:
``/tmp/perf-PID.map``, with the PID and the folder that the process has itself.

Each line has the address of the code and its size, in hexadecimal digits, and its name
(tools/perf/Documentation/jit-interface.txt of Linux).
"""

from __future__ import annotations

import bisect
import contextlib
import os
from collections import OrderedDict
from typing import Final, NamedTuple

from stalltop.probes.binaries.mapped_file import found_below
from stalltop.probes.regular_file import opened
from stalltop.probes.stacks.threads import namespaced

_MOST_BYTES: Final = 8 << 20
"""Largest file that is read."""
_LAST: Final = 1 << 63
"""An address behind all code: a process may write any size."""
_KEPT_PROCESSES: Final = 16


class _CodeMap(NamedTuple):
    size: int
    """Of the file when it was read, bytes. Compilers only add lines."""
    starts: list[int]
    names: dict[int, tuple[int, bytes]]
    """Size and name of the code by its address: of the last line, since memory of old code is used again."""


class PerfMaps:
    """Reads the maps of processes, and remembers those that it read last. Used from one thread."""

    def __init__(self) -> None:
        self._maps: OrderedDict[tuple[int, int, int], _CodeMap] = OrderedDict()
        """By process, and device and inode of the file."""

    def code(self, pid: int, address: int) -> tuple[bytes, int, int]:
        """Returns the name of the code at ``address``, where it begins and where it ends; b'' and the address
        alone if the process has no map, or none with it."""
        unknown = b"", address, address + 1
        try:
            known = self._map(pid)
        except (OSError, ValueError, IndexError):
            return unknown
        place = bisect.bisect_right(known.starts, address) - 1
        if place < 0:
            return unknown
        start = known.starts[place]
        size, name = known.names[start]
        return (name, start, min(start + size, _LAST)) if address < start + size else unknown

    def _map(self, pid: int) -> _CodeMap:
        """Raises OSError, ValueError or IndexError if there is no map that the process wrote."""
        path = f"/tmp/perf-{namespaced(pid, pid)[-1]}.map"
        with found_below(pid, path) as looked_at, opened(looked_at) as fd:
            status = os.fstat(fd)
            # Any user may write files in /tmp: only those of the process itself count.
            if status.st_uid != os.stat(f"/proc/{pid}").st_uid or status.st_size > _MOST_BYTES:
                raise ValueError("not a map of this process")
            key = pid, status.st_dev, status.st_ino
            known = self._maps.get(key)
            if known is None or known.size != status.st_size:
                known = _parsed(os.pread(fd, _MOST_BYTES, 0), status.st_size)
                self._maps[key] = known
            self._maps.move_to_end(key)
        while len(self._maps) > _KEPT_PROCESSES:
            self._maps.popitem(last=False)
        return known


def _parsed(content: bytes, size: int) -> _CodeMap:
    names = {}
    for line in content.splitlines():
        with contextlib.suppress(ValueError):  # not such a line, or not written to its end
            start, length, name = line.split(maxsplit=2)
            names[int(start, 16)] = int(length, 16), name
    return _CodeMap(size, sorted(names), names)
