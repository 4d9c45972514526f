"""Which files that may hold traced functions a process has mapped executable: ``/proc/PID/maps``."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from typing import Final

from stalltop.probes.operations import DRIVER, NCCL, RUNTIME

# libcuda.so.1, libcudart.so.12.4.127, libcudart-d0da41ae.so.11.0 (as renamed in wheels), libtorch_cuda.so;
# not libcudadebugger.so, libnccl-net.so, libnccl-tuner.so.
_LIBRARY: Final = rb"lib(cuda|cudart|nccl|torch_cuda\w*)(?:-[0-9a-f]{6,})?\.so(?:\.[0-9.]+)?"
_NAME: Final = re.compile(_LIBRARY)
_LINE: Final = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) [r-][w-]x[ps] ([0-9a-f]+) [0-9a-f:]+ \d+ +"  # range, rights, offset, inode
    rb"(/(?:[^\n]*/)?([^/\n]+?))( \(deleted\))?$",  # path and its last part
    re.MULTILINE,
)

LAYERS_OF_LIBRARY: Final[dict[str, tuple[str, ...]]] = {
    "cuda": (DRIVER,),
    "cudart": (RUNTIME,),
    "nccl": (NCCL,),
    "torch_cuda": (NCCL, RUNTIME),  # some builds link NCCL, and the runtime, into it
}
LAYERS_OF_EXECUTABLE: Final = (RUNTIME, NCCL)
"""What a program linked statically may hold; the driver exists as a library only."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """An executable part of a file in a process."""

    start: int
    end: int
    offset: int
    """Where it begins in the file, bytes."""
    path: str
    """As the process sees it, in its own mount namespace; raw, not fit to show."""
    deleted: bool
    layers: tuple[str, ...]
    """Layers that the file may hold."""
    thread: int
    """Whose ``/proc`` folder shows it: the process, or a thread of it where the first one has ended."""

    @property
    def library(self) -> bool:
        """Whether it is mapped as a library, not as the process's own program."""
        return self.layers is not LAYERS_OF_EXECUTABLE

    def address(self, offset: int) -> int | None:
        """Where byte ``offset`` of the file lies in the process; None where it is in another part."""
        into = offset - self.offset
        return self.start + into if 0 <= into < self.end - self.start else None


def library_layers(name: bytes) -> tuple[str, ...]:
    """Layers that a library of this base name may hold; empty where it is none of CUDA's or NCCL's."""
    found = _NAME.fullmatch(name)
    if found is None:
        return ()
    stem = found.group(1).decode()
    return LAYERS_OF_LIBRARY["torch_cuda" if stem.startswith("torch") else stem]


def libraries_of(pid: int) -> list[Mapping]:
    """The executable mappings of CUDA's and NCCL's libraries. Raises OSError where the process is gone."""
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
    """The executable mappings of the process's own program. Raises OSError where the process is gone."""
    thread, maps = _maps(pid)
    program = os.fsencode(os.readlink(f"/proc/{thread}/exe")).removesuffix(b" (deleted)")
    # The kernel writes a newline in a name as \012 in maps, but as it is in the link.
    program = program.replace(b"\n", b"\\012")
    return [
        _mapping(line, LAYERS_OF_EXECUTABLE, thread)
        for line in _LINE.finditer(maps)
        if line.group(4) == program
    ]


def pids() -> set[int]:
    """Every process that this one can see."""
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
    """Text of the process's maps, and the thread that showed it."""
    text = _read(pid)
    if text:
        return pid, text
    # A process whose first thread has ended lives on, but shows nothing under its own number. (The kernel's
    # threads and ended processes have a single thread, and no maps either.)
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
