"""Finds, in ``/proc/PID/maps``, the files that a process has mapped as executable and that may hold traced
functions."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from typing import Final

from stalltop.probes.operations import DRIVER, NCCL, RUNTIME

# Matches libcuda.so.1, libcudart.so.12.4.127, libcudart-d0da41ae.so.11.0 (renamed, as in wheels) and
# libtorch_cuda. Does not match libcudadebugger.so, libnccl-net.so or libnccl-tuner.so.
_LIBRARY: Final = rb"lib(cuda|cudart|nccl|torch_cuda\w*)(?:-[0-9a-f]{6,})?\.so(?:\.[0-9.]+)?"
_NAME: Final = re.compile(_LIBRARY)
_LINE: Final = re.compile(
    # Address range, permissions, offset and inode of a mapping.
    rb"^([0-9a-f]+)-([0-9a-f]+) [r-][w-]x[ps] ([0-9a-f]+) [0-9a-f:]+ \d+ +"
    rb"(/(?:[^\n]*/)?([^/\n]+?))( \(deleted\))?$",  # Its path and the last component of the path.
    re.MULTILINE,
)

LAYERS_OF_LIBRARY: Final[dict[str, tuple[str, ...]]] = {
    "cuda": (DRIVER,),
    "cudart": (RUNTIME,),
    "nccl": (NCCL,),
    "torch_cuda": (NCCL, RUNTIME),  # In some builds, NCCL and the runtime are linked into this library.
}
LAYERS_OF_EXECUTABLE: Final = (RUNTIME, NCCL)
"""Layers that may be linked statically into a program. The driver exists only as a library."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """An executable part of a file in a process."""

    start: int
    end: int
    offset: int
    """Offset of its beginning in the file, bytes."""
    path: str
    """Path in the process's own mount namespace. It may contain any bytes, so it is not safe to display."""
    deleted: bool
    layers: tuple[str, ...]
    """Layers that the file may hold."""
    thread: int
    """Thread under whose ``/proc`` folder the mapping is shown: the process's first thread or, if that has
    ended, another one."""

    @property
    def library(self) -> bool:
        """Returns whether the file is mapped as a library. If not, it is the process's own program."""
        return self.layers is not LAYERS_OF_EXECUTABLE

    def address(self, offset: int) -> int | None:
        """Returns the address, in the process, of byte ``offset`` of the file; None if that byte is in
        another mapping."""
        into = offset - self.offset
        return self.start + into if 0 <= into < self.end - self.start else None


def library_layers(name: bytes) -> tuple[str, ...]:
    """Returns the layers that a library of this base name may hold; empty if it is not a library of CUDA or
    NCCL."""
    found = _NAME.fullmatch(name)
    if found is None:
        return ()
    stem = found.group(1).decode()
    return LAYERS_OF_LIBRARY["torch_cuda" if stem.startswith("torch") else stem]


def libraries_of(pid: int) -> list[Mapping]:
    """Returns the executable mappings of CUDA's and NCCL's libraries. Raises OSError if the process is
    gone."""
    thread, maps = _maps(pid)
    if not (b"libcuda" in maps or b"libnccl" in maps or b"libtorch_cuda" in maps):
        return []
    found = []
    for line in _LINE.finditer(maps):
        layers = library_layers(line.group(5))
        if layers:
            found.append(_mapping(line, layers, thread))
    return found


def program_of(pid: int) -> list[Mapping]:
    """Returns the executable mappings of the process's own program. Raises OSError if the process is gone."""
    thread, maps = _maps(pid)
    program = os.fsencode(os.readlink(f"/proc/{thread}/exe")).removesuffix(b" (deleted)")
    # If a name contains a newline, the Linux kernel writes \012 in maps, but a real newline in the link.
    program = program.replace(b"\n", b"\\012")
    return [
        _mapping(line, LAYERS_OF_EXECUTABLE, thread)
        for line in _LINE.finditer(maps)
        if line.group(4) == program
    ]


def pids() -> set[int]:
    """Returns every process that is visible to stalltop."""
    return {int(name) for name in os.listdir("/proc") if name.isdecimal()}


def _mapping(line: re.Match[bytes], layers: tuple[str, ...], thread: int) -> Mapping:
    start, end, offset, path = line.group(1, 2, 3, 4)
    return Mapping(
        int(start, 16),
        int(end, 16),
        int(offset, 16),
        os.fsdecode(path),
        line.group(6) is not None,
        layers,
        thread,
    )


def _maps(pid: int) -> tuple[int, bytes]:
    """Returns the thread whose maps were read, and their text."""
    text = _read(pid)
    if text:
        return pid, text
    # If the first thread of a process has ended, the process may still run, but its maps are shown only under
    # another thread. (Linux kernel threads and ended processes have a single thread, and no maps either.)
    for name in os.listdir(f"/proc/{pid}/task"):
        if int(name) != pid:
            with contextlib.suppress(OSError):
                text = _read(int(name))
            if text:
                return int(name), text
    return pid, b""


def _read(thread: int) -> bytes:
    with open(f"/proc/{thread}/maps", "rb", buffering=0) as file:
        pieces = []
        while piece := file.read(1 << 20):
            pieces.append(piece)
    return b"".join(pieces)
