"""Where the running kernel keeps what is read of its tasks: told by its own type information (BTF)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

BTF: Final = Path("/sys/kernel/btf/vmlinux")

_MAGIC: Final = 0xEB9F
_HEADER: Final = struct.Struct("=HBBIIIII")
"""struct btf_header: magic, version, flags, hdr_len, type_off, type_len, str_off, str_len."""
_KIND_STRUCT: Final = 4
_TYPE_WORDS: Final = 3
"""struct btf_type: name_off, info, size; each member after it has as many: name_off, type, offset."""
_WITH_BIT_FIELDS: Final = 1 << 31
"""In ``info``: the offsets of members have the size of a bit field in their upper 8 bits."""


class NoTypes(Exception):
    """The kernel does not tell: the message says why."""


@dataclass(frozen=True, slots=True)
class TaskOffsets:
    """Offsets in the kernel's ``struct task_struct``, bytes."""

    pid: int
    """The thread's id in the host's PID namespace, 32 bits."""
    state: int
    """What it sleeps as, 32 bits."""


def task_offsets(path: Path = BTF) -> TaskOffsets:
    """The offsets of the running kernel. Takes some milliseconds. Raises NoTypes."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NoTypes(f"{path}: {error.strerror}") from error
    try:
        found = member_offsets(data, "task_struct", ("pid", "__state"))
    except (struct.error, IndexError, ValueError) as error:
        raise NoTypes(f"{path} cannot be read: {error}") from error
    return TaskOffsets(found["pid"], found["__state"])


def member_offsets(data: bytes, name: str, members: tuple[str, ...]) -> dict[str, int]:
    """Offsets (bytes) of ``members`` in the struct called ``name``.

    Types have no index and are some 100,000. So the struct is not reached by walking them: its name's number
    is searched among all words, and what follows one has to make sense as that struct with these members.
    Raises NoTypes, and ValueError or struct.error where ``data`` is no BTF.
    """
    magic, _, _, header, type_at, type_size, string_at, string_size = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise ValueError("no BTF of this machine's byte order")
    strings = data[header + string_at : header + string_at + string_size]
    words = np.frombuffer(data, np.uint32, type_size // 4, header + type_at)
    wanted = {_place(strings, member): member for member in members}
    for at in np.flatnonzero(words[:-2] == _place(strings, name)).tolist():
        info = int(words[at + 1])
        first, count = at + _TYPE_WORDS, info & 0xFFFF
        if info >> 24 & 0x1F != _KIND_STRUCT or first + _TYPE_WORDS * count > len(words):
            continue
        fields = words[first : first + _TYPE_WORDS * count].reshape(-1, _TYPE_WORDS)
        found = _offsets(fields, wanted, bit_fields=bool(info & _WITH_BIT_FIELDS))
        if len(found) == len(members) and all(offset < int(words[at + 2]) for offset in found.values()):
            return found
    raise NoTypes(f"the kernel's struct {name} has no {' or no '.join(members)}")


def _place(strings: bytes, name: str) -> int:
    at = strings.find(b"\0" + name.encode() + b"\0")
    if at < 0:
        raise NoTypes(f"the kernel's types know no {name}")
    return at + 1


def _offsets(fields: NDArray[np.uint32], wanted: dict[int, str], *, bit_fields: bool) -> dict[str, int]:
    found = {}
    for name, _, bits in fields[np.isin(fields[:, 0], list(wanted))].tolist():
        found[wanted[name]] = (bits & 0xFFFFFF if bit_fields else bits) // 8
    return found
