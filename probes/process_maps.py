"""Finds, in ``/proc/PID/maps``, the files that a process has mapped as executable and that may hold traced
functions.

Any user can make this file as long as the Linux kernel permits: 65,530 mappings by default, each with a path
of 4 KB. So it is read piece by piece, within bounds of time and memory.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from stalltop.probes.operations import DRIVER, NCCL, RUNTIME

# Matches libcuda.so.1, libcudart.so.12.4.127, libcudart-d0da41ae.so.11.0 (renamed, as in wheels) and
# libtorch_cuda. Does not match libcudadebugger.so, libnccl-net.so or libnccl-tuner.so.
_LIBRARY: Final = rb"lib(cuda|cudart|nccl|torch_cuda\w*)(?:-[0-9a-f]{6,})?\.so(?:\.[0-9.]+)?"
_NAME: Final = re.compile(_LIBRARY)


def line_pattern(permissions: bytes, offset: bytes = rb"[0-9a-f]+") -> re.Pattern[bytes]:
    """Returns what matches, in ``/proc/PID/maps``, the mappings of files with these ``permissions`` and this
    ``offset`` (regular expressions). `mapping_of` converts a match."""
    return re.compile(
        # Address range, permissions, offset, device and inode of a mapping.
        rb"^([0-9a-f]+)-([0-9a-f]+) " + permissions + rb" (" + offset + rb") ([0-9a-f]+):([0-9a-f]+) (\d+) +"
        rb"(/(?:[^\n]*/)?([^/\n]+?))( \(deleted\))?$",  # Its path and the last component of the path.
        re.MULTILINE,
    )


_LINE: Final = line_pattern(rb"[r-][w-]x[ps]")
# NVIDIA's own libraries contain a runtime without symbols, for their own calls only.
_OF_NVIDIA: Final = re.compile(
    rb"lib(?:cublas|cublasLt|cudnn|cufft|cupti|curand|cusolver|cusparse|cutensor|cudadebugger|npp|nvinfer"
    rb"|nvJitLink|nvjpeg|nvidia|nvrtc|nvshmem|nvToolsExt)[-_a-zA-Z0-9]*\.so(?:\.[0-9.]+)?"
)
_LEAST_RUNTIME_BYTES: Final = 128 << 10
"""Smallest executable mapping in which a statically linked runtime is searched. The code of the runtime alone
is some 480 KB (CUDA 13)."""

READ_SECONDS: Final = 0.25
"""CPU time for which the mappings of one process are read, s; 65,000 mappings of files take some 0.1 s."""
_ADDRESSES_BYTES: Final = 38
"""Number of bytes in which a line has its addresses, of at most 16 digits each, and its permissions."""
_KEPT_BYTES: Final = 4 << 20
"""Maximum size of the lines that are searched for libraries, in bytes. PyTorch's processes have some
300 KB."""
_MOST_EXECUTABLES: Final = 1 << 14
_MOST_MAPPINGS: Final = 1024
"""Maximum number of mappings of each kind that are returned."""

LAYERS_OF_LIBRARY: Final[dict[str, tuple[str, ...]]] = {
    "cuda": (DRIVER,),
    "cudart": (RUNTIME,),
    "nccl": (NCCL,),
    "torch_cuda": (NCCL, RUNTIME),  # In some builds, NCCL and the runtime are linked into this library.
}
LINKED_LAYERS: Final = (RUNTIME, NCCL)
"""Layers that may be linked statically into a program or another library. The driver exists only as a library
of its own."""


class Kind(Enum):
    """Why a file may hold traced functions."""

    LIBRARY = "library"
    """It has the name of a library of CUDA or NCCL, so it should define traced functions."""
    PROGRAM = "program"
    """It is the process's own program."""
    OTHER = "other library"
    """It is another library, of a process that uses CUDA's driver."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """An executable part of a file in a process."""

    start: int
    end: int
    offset: int
    """Offset of its beginning in the file, bytes."""
    device: int
    inode: int
    """Device number and inode number of the file. In overlayfs and Btrfs, fstat shows another device."""
    path: str
    """Path in the process's own mount namespace. It may contain any bytes, so it is not safe to display."""
    deleted: bool
    layers: tuple[str, ...]
    """Layers that the file may hold."""
    thread: int
    """Thread under whose ``/proc`` folder the mapping is shown: the process's first thread or, if that has
    ended, another one."""
    kind: Kind

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


class MappedFiles(NamedTuple):
    """Executable mappings of a process, except those of its program."""

    libraries: list[Mapping]
    """Mappings of CUDA's and NCCL's libraries."""
    others: list[Mapping]
    """If the process has mapped CUDA's driver: its other libraries that are large enough to contain the
    runtime."""
    complete: bool
    """False if there are more mappings than are read."""


def executables_of(pid: int) -> list[Mapping]:
    """Returns the executable mappings of files of a process in the order of their addresses, up to a bound
    (``_MOST_EXECUTABLES``). Raises OSError."""
    found = []
    for piece in map_lines(f"/proc/{pid}"):
        found += [mapping_of(line, pid, Kind.OTHER) for line in _executable(piece)]
        if len(found) > _MOST_EXECUTABLES:
            break
    return found


def mapped_by(pid: int) -> MappedFiles:
    """Returns the libraries that a process has mapped. Raises OSError if the process is gone."""
    thread, pieces = _maps(pid)
    kept: list[bytes] = []
    size = 0
    complete = True
    try:
        for piece in pieces:
            if b".so" in piece:
                kept.append(piece)
                size += len(piece)
                if size > _KEPT_BYTES:
                    complete = False
                    break
    except _TooLongError:
        complete = False
    libraries: list[Mapping] = []
    others: list[Mapping] = []
    if any(name in piece for piece in kept for name in (b"libcuda", b"libnccl", b"libtorch_cuda")):
        for line in _executable(b"".join(kept)):
            if max(len(libraries), len(others)) > _MOST_MAPPINGS:
                break
            name = line[8]
            layers = library_layers(name)
            if layers:
                libraries.append(mapping_of(line, thread, Kind.LIBRARY, layers))
            elif b".so" in name and _may_hold_runtime(line):
                others.append(mapping_of(line, thread, Kind.OTHER))
    if not any(DRIVER in mapping.layers for mapping in libraries):
        others = []
    complete &= max(len(libraries), len(others)) <= _MOST_MAPPINGS
    return MappedFiles(libraries[:_MOST_MAPPINGS], others[:_MOST_MAPPINGS], complete)


def libraries_of(pid: int) -> list[Mapping]:
    """Returns the executable mappings of CUDA's and NCCL's libraries. Raises OSError if the process is
    gone."""
    return mapped_by(pid).libraries


def program_of(pid: int) -> Mapping | None:
    """Returns the first executable mapping of the process's own program; None if it is not found. Raises
    OSError if the process is gone."""
    thread, pieces = _maps(pid)
    program = os.fsencode(os.readlink(f"/proc/{thread}/exe")).removesuffix(b" (deleted)")
    # If a name contains a newline, the Linux kernel writes \012 in maps, but a real newline in the link.
    program = program.replace(b"\n", b"\\012")
    with contextlib.suppress(_TooLongError):
        for piece in pieces:
            if program in piece:
                for line in _executable(piece):
                    if line[7] == program:
                        return mapping_of(line, thread, Kind.PROGRAM)
    return None


def map_lines(folder: str) -> Iterator[bytes]:
    """Yields the mappings of the process whose folder in ``/proc`` is ``folder``, in pieces of whole lines.
    Ends before the end of the text if that is too long to be read (``READ_SECONDS``). Raises OSError."""
    with contextlib.suppress(_TooLongError):
        yield from _read(folder)


def mapping_of(
    line: re.Match[bytes], thread: int, kind: Kind, layers: tuple[str, ...] = LINKED_LAYERS
) -> Mapping:
    """Returns the mapping of a line that a `line_pattern` has matched."""
    return Mapping(
        start=int(line[1], 16),
        end=int(line[2], 16),
        offset=int(line[3], 16),
        device=os.makedev(int(line[4], 16), int(line[5], 16)),
        inode=int(line[6]),
        path=os.fsdecode(line[7]),
        deleted=line[9] is not None,
        layers=layers,
        thread=thread,
        kind=kind,
    )


def pids() -> set[int]:
    """Returns every process that is visible to stalltop."""
    return {int(name) for name in os.listdir("/proc") if name.isdecimal()}


class _TooLongError(Exception):
    """Reading the mappings of a process takes too long."""


def _executable(text: bytes) -> Iterator[re.Match[bytes]]:
    """Yields the lines of ``text`` that are executable mappings of files."""
    for line in text.split(b"\n"):
        # Most mappings are not executable. The letter x occurs in no address, so its absence saves matching.
        if b"x" in line[:_ADDRESSES_BYTES] and (found := _LINE.match(line)) is not None:
            yield found


def _may_hold_runtime(line: re.Match[bytes]) -> bool:
    return (
        int(line[2], 16) - int(line[1], 16) >= _LEAST_RUNTIME_BYTES and _OF_NVIDIA.fullmatch(line[8]) is None
    )


def _maps(pid: int) -> tuple[int, Iterator[bytes]]:
    """Returns the thread whose maps are read, and their text in pieces. Raises OSError."""
    pieces = _read(f"/proc/{pid}")
    first = next(pieces, b"")
    if first:
        return pid, itertools.chain((first,), pieces)
    # If the first thread of a process has ended, the process may still run, but its maps are shown only under
    # another thread. (Linux kernel threads and ended processes have a single thread, and no maps either.)
    for name in os.listdir(f"/proc/{pid}/task"):
        if int(name) != pid:
            with contextlib.suppress(OSError):
                pieces = _read(f"/proc/{name}")
                first = next(pieces, b"")
                if first:
                    return int(name), itertools.chain((first,), pieces)
    return pid, iter(())


def _read(folder: str) -> Iterator[bytes]:
    """Yields the text in pieces of whole lines. Raises OSError, and _TooLongError."""
    until = time.thread_time() + READ_SECONDS
    rest = b""
    with open(f"{folder}/maps", "rb", buffering=0) as file:
        while piece := file.read(1 << 16):  # The Linux kernel returns some 4 KB at once.
            lines, newline, rest = (rest + piece).rpartition(b"\n")
            if lines:
                yield lines + newline
            if time.thread_time() > until:
                raise _TooLongError
