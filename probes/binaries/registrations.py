"""Finds names of CUDA kernels in the code of a file that registers them, for programs that registered them
before they were traced.

Compilers put a constructor into every file with CUDA kernels. For each CUDA kernel the constructor calls

    __cudaRegisterFunction(handle, function, name, name, -1, 0, 0, 0, 0, 0)

with the addresses of the function and of the name as constants: two ``lea`` and a ``call``. Such code is used
only if there is no doubt: the function lies in code, and the name is mangled. Works on x86-64 only.
"""

from __future__ import annotations

import functools
import os
import platform
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stalltop.probes.binaries.elf import ElfError, Segment, mapped_parts, symbol_name

_CHUNK_BYTES: Final = 1 << 22
_AROUND_BYTES: Final = 128
"""Number of bytes before and after the instruction that loads the function's address. The call, and the
instruction that loads the name's address, are searched for in these bytes."""
_LEA_RSI: Final = (0x48, 0x8D, 0x35)
_NAME_IN: Final = re.compile(r"r(?:dx|cx), \[rip ([+-]) (0x[0-9a-f]+|\d+)\]")
_NAME: Final = re.compile(rb"_Z[A-Za-z0-9_$.]+")


def registrations(fd: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns two arrays with one element for each function that the file at ``fd`` registers: the offset of
    the function in the file, ascending, and the offset of its CUDA kernel's name in the file.

    Takes a second for some hundred MB of code. Raises ``ElfError``, and OSError if reading fails.
    """
    nothing = np.zeros(0, np.int64)
    if platform.machine() != "x86_64":
        return nothing, nothing
    parts = mapped_parts(fd)
    code = [part for part, executable in parts if executable]
    everything = [part for part, _ in parts]
    found: dict[int, int] = {}
    for segment in code:
        for function, name in _registered(fd, segment, code):
            function_at, name_at = _offset(code, function), _offset(everything, name)
            if function_at is None or name_at is None or not _NAME.fullmatch(symbol_name(fd, name_at)):
                continue
            found.setdefault(function_at, name_at)
    places = np.array(sorted(found), np.int64)
    return places, np.array([found[int(place)] for place in places], np.int64)


def _registered(fd: int, segment: Segment, code: Sequence[Segment]) -> Iterator[tuple[int, int]]:
    """Yields (address of a function, address of a name) for each call that has both as arguments."""
    for first in range(0, segment.size_bytes, _CHUNK_BYTES):
        start = max(first - _AROUND_BYTES, 0)
        end = min(first + _CHUNK_BYTES + _AROUND_BYTES, segment.size_bytes)
        data = os.pread(fd, end - start, segment.offset + start)
        if len(data) < end - start:
            raise ElfError("cut off while it was read")
        base = segment.address + start
        places, targets = _loads(data, base)
        mine = (places >= first - start) & (places < first - start + _CHUNK_BYTES)
        for part in code:
            inside = mine & (targets >= part.address) & (targets < part.address + part.size_bytes)
            for place, target in zip(places[inside].tolist(), targets[inside].tolist(), strict=True):
                name = _name_given_with(data, place, base)
                if name is not None:
                    yield target, name


def _loads(data: bytes, base: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the places in ``data`` where an address is loaded as the second argument of a call, and these
    addresses."""
    letters = np.frombuffer(data, np.uint8)
    n = max(len(letters) - 7, 0)
    same = letters[:n] == _LEA_RSI[0]
    same &= letters[1 : n + 1] == _LEA_RSI[1]
    same &= letters[2 : n + 2] == _LEA_RSI[2]
    places = np.flatnonzero(same).astype(np.int64)
    distance = letters[places[:, None] + np.arange(3, 7)].copy().view("<i4").reshape(-1).astype(np.int64)
    return places, base + places + 7 + distance


def _name_given_with(data: bytes, place: int, base: int) -> int | None:
    """Returns the address that is loaded as the third and fourth argument of a call. ``place`` is the
    instruction that loads the second argument of that call. Returns None if no call follows, or if there is
    not exactly one such address."""
    names: set[int] = set()
    called = False
    for _, name, leaves in _instructions(data, place, place + _AROUND_BYTES, base):
        if leaves is not None:
            called = leaves == "call"
            break
        names |= {name} - {None}  # type: ignore[arg-type]
    if not called:
        return None
    before = data.rfind(b"\xe8", max(place - _AROUND_BYTES, 0), place - 4)
    while before >= 0:
        # Searches the previous call. It has been found if decoding from the end of that call arrives exactly
        # at ``place``.
        between = list(_instructions(data, before + 5, place, base))
        if between and between[-1][0] == place and all(leaves is None for _, _, leaves in between):
            names |= {name for _, name, _ in between if name is not None}
            break
        before = data.rfind(b"\xe8", max(place - _AROUND_BYTES, 0), before)
    return names.pop() if len(names) == 1 else None


def _instructions(
    data: bytes, first: int, end: int, base: int
) -> Iterator[tuple[int, int | None, str | None]]:
    """Yields, for each instruction: the offset of the next instruction; the address that it loads for a name,
    or None; and its mnemonic if it is a jump, call or return, or else None."""
    for address, size, mnemonic, operands in _decoder().disasm_lite(data[first:end], base + first):
        behind = address + size
        name = _NAME_IN.fullmatch(operands) if mnemonic == "lea" else None
        loaded = behind + int(name[1] + name[2], 0) if name is not None else None
        leaves = mnemonic if mnemonic in ("call", "ret") or mnemonic.startswith("j") else None
        yield behind - base, loaded, leaves


def _offset(segments: Sequence[Segment], address: int) -> int | None:
    for segment in segments:
        if 0 <= address - segment.address < segment.size_bytes:
            return segment.offset + address - segment.address
    return None


@functools.cache
def _decoder() -> Any:
    import capstone  # Imported here, only when it is needed, because it takes 30 ms.

    return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
