"""Represents compiled programs: the part that is loaded into the Linux kernel, and the file that holds them.

Compiled programs do not depend on the host on which they were compiled. They refer by name to maps, and to
numbers that differ between Linux kernels, such as the offset of a member. Maps and numbers are filled in when
the programs are loaded.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import struct
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

from stalltop.probes.programs.bpf_calls import BpfError, create_map, load_program

_MAGIC: Final = b"stalltop-programs 1 "
"""Beginning of the first line of a file. The line ends with the SHA-256 digest, in hexadecimal, of the rest
of the file."""
_SIZE: Final = 8
"""Size of an instruction, bytes."""
_LOAD_64: Final = 0x18
_MAP_FD: Final = 0x10
"""BPF_PSEUDO_MAP_FD, in the byte that holds the registers of the instruction."""
_LRU_HASH: Final = 9
"""BPF_MAP_TYPE_LRU_HASH, of linux/bpf.h."""
_SET_ASIDE: Final = 128
"""Number of free elements of such a map that each possible CPU sets aside (LOCAL_FREE_TARGET of
kernel/bpf/bpf_lru_list.c). On a host with 256 CPUs these are 32,768."""
Places = Iterable[tuple[int, str]]
_MOST_LOADERS: Final = 4
"""Maximum number of programs that are loaded at the same time. The Linux kernel can verify them in
parallel."""


@dataclass(frozen=True, slots=True)
class CompiledMap:
    """A map that programs use."""

    name: str
    type: int
    """enum bpf_map_type, of linux/bpf.h."""
    key_bytes: int
    value_bytes: int
    entries: int | str
    """Number of elements; or, if that is given only when the map is created, the name of that number. An LRU
    map gets more, so that it holds as many as this before the oldest are evicted."""
    flags: int
    inner: str = ""
    """Name of the map, before this one, like which the elements of an array of maps are; '' for all other
    maps."""

    def create(self, values: Mapping[str, int], maps: Mapping[str, int]) -> int:
        """Creates the map; returns its descriptor. ``maps`` are those that exist already; ``values`` and the
        errors are those of ``Compiled.load``."""
        entries = values[self.entries] if isinstance(self.entries, str) else self.entries
        if self.type == _LRU_HASH:
            entries += _SET_ASIDE * possible_cpus()
        inner = maps[self.inner] if self.inner else 0
        return create_map(
            self.name, self.type, self.key_bytes, self.value_bytes, entries, self.flags, inner=inner
        )


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """The instructions of a program. Values have to be filled into some of them."""

    name: str
    type: int
    """enum bpf_prog_type, of linux/bpf.h."""
    code: bytes
    maps: tuple[tuple[int, str], ...]
    """Instructions that load a map: (number of the instruction, name of the map)."""
    values: tuple[tuple[int, str], ...]
    """Instructions that load a value that is known only at loading: (number of the instruction, name of the
    value)."""

    @classmethod
    def from_text(cls, name: str, kind: int, code: str, maps: Places, values: Places) -> CompiledProgram:
        """Returns a program whose instructions are given in base64. Raises ValueError if they are not
        valid."""
        text = base64.b64decode(code, validate=True)
        made = cls(
            name, kind, text, *(tuple((int(at), str(of)) for at, of in places) for places in (maps, values))
        )
        for number, _ in made.maps + made.values:
            if not 0 <= number < len(text) // _SIZE - 1 or text[number * _SIZE] != _LOAD_64:
                raise ValueError(f"instruction {number} of {name} loads nothing")
        return made

    def filled(self, maps: Mapping[str, int], values: Mapping[str, int]) -> bytes:
        """Returns the instructions with the descriptors of ``maps`` and with ``values`` filled in."""
        code = bytearray(self.code)
        for number, name in self.maps:
            code[number * _SIZE + 1] |= _MAP_FD
            struct.pack_into("=i", code, number * _SIZE + 4, maps[name])
        for number, name in self.values:
            struct.pack_into("=I", code, number * _SIZE + 4, values[name] & 0xFFFFFFFF)
            struct.pack_into("=I", code, (number + 1) * _SIZE + 4, values[name] >> 32)
        return bytes(code)


@dataclass(frozen=True, slots=True)
class Compiled:
    """Programs and the maps that they use."""

    maps: tuple[CompiledMap, ...]
    programs: tuple[CompiledProgram, ...]
    seconds: float = 0.0
    """Duration of the compilation, s."""

    def to_bytes(self, key: str) -> bytes:
        """Returns the programs as the content of a file. ``key`` identifies what the programs were compiled
        from."""
        body = json.dumps(
            {
                "key": key,
                "seconds": self.seconds,
                "maps": [astuple(made) for made in self.maps],
                "programs": [
                    [p.name, p.type, base64.b64encode(p.code).decode(), p.maps, p.values]
                    for p in self.programs
                ],
            },
            separators=(",", ":"),
        ).encode()
        return _MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body

    @classmethod
    def from_bytes(cls, data: bytes, key: str) -> Compiled:
        """Parses what ``to_bytes`` returned. Raises ValueError if ``data`` is damaged or has another
        ``key``."""
        head, _, body = data.partition(b"\n")
        if not head.startswith(_MAGIC):
            raise ValueError("it is not of this version")
        if head[len(_MAGIC) :] != hashlib.sha256(body).hexdigest().encode():
            raise ValueError("it is damaged")
        try:
            said = json.loads(body)
            if said["key"] != key:
                raise ValueError("it was compiled from something else")
            return cls(
                tuple(CompiledMap(*fields) for fields in said["maps"]),
                tuple(CompiledProgram.from_text(*fields) for fields in said["programs"]),
                float(said["seconds"]),
            )
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise ValueError(f"it is damaged: {error}") from error

    def divided(self, later: Collection[str], kept: Collection[str] = ()) -> tuple[Compiled, Compiled]:
        """Returns the programs that are not in ``later``, and those that are, with the maps that no other
        program uses, except the maps ``kept``, which stay with the first ones."""
        first = tuple(program for program in self.programs if program.name not in later)
        second = tuple(program for program in self.programs if program.name in later)
        used, only = ({name for program in part for _, name in program.maps} for part in (first, second))
        only -= used | set(kept)
        return (
            Compiled(tuple(made for made in self.maps if made.name not in only), first, self.seconds),
            Compiled(tuple(made for made in self.maps if made.name in only), second),
        )

    def bytes(self, values: Mapping[str, int]) -> int:
        """Returns the least memory that the elements of all maps use once they are loaded with ``values``."""
        return sum(
            (made.key_bytes + made.value_bytes)
            * (values[made.entries] if isinstance(made.entries, str) else made.entries)
            for made in self.maps
        )

    def load(
        self, values: Mapping[str, int], *, attach_type: int = 0, given: Mapping[str, int] | None = None
    ) -> dict[str, int]:
        """Loads the maps and programs; returns their descriptors by name.

        ``values`` are the numbers to be filled in. ``attach_type`` is for programs at probes (enum
        bpf_attach_type). ``given`` are maps of other programs that these programs use, too. Raises BpfError;
        raises KeyError if a number is missing. After an error, nothing stays loaded.
        """
        loaded: dict[str, int] = {}
        try:
            for made in self.maps:
                loaded[made.name] = made.create(values, loaded)
            maps = {**(given or {}), **loaded}

            def load(program: CompiledProgram) -> None:
                loaded[program.name] = load_program(
                    program.name,
                    program.type,
                    program.filled(maps, values),
                    attach_type=attach_type if program.type == KPROBE else 0,
                )

            _for_each(load, self.programs)
        except BaseException:
            for fd in loaded.values():
                os.close(fd)
            raise
        return loaded


def possible_cpus() -> int:
    """Returns the highest number that a CPU can have on this host, plus one."""
    # The file contains, for instance, "0-3,8-11". Without the file, the number is 8192, the largest for which
    # distributions build x86-64 kernels.
    try:
        return int(re.split("[-,]", Path("/sys/devices/system/cpu/possible").read_text())[-1]) + 1
    except (OSError, ValueError):
        return 8192


def _loaders() -> int:
    """Returns the number of threads that load programs. One CPU is left free, because the screen is drawn at
    the same time."""
    return min(_MOST_LOADERS, max(len(os.sched_getaffinity(0)) - 1, 1))


def _for_each(load: Callable[[CompiledProgram], None], programs: Iterable[CompiledProgram]) -> None:
    """Calls ``load`` for each program, for several at a time. Raises the first error, after all threads have
    ended.

    The threads are daemons, so stalltop can exit without waiting for the Linux kernel.
    """
    left = list(programs)[::-1]
    failed: list[BaseException] = []

    def work() -> None:
        while left and not failed:
            try:
                program = left.pop()
            except IndexError:
                return
            try:
                load(program)
            except BaseException as error:
                failed.append(error)

    threads = [threading.Thread(target=work, name="loading", daemon=True) for _ in range(_loaders())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


KPROBE: Final = 2
"""BPF_PROG_TYPE_KPROBE, the type of programs at uprobes."""
RAW_TRACEPOINT: Final = 17
"""BPF_PROG_TYPE_RAW_TRACEPOINT."""
PERF_EVENT: Final = 7
"""BPF_PROG_TYPE_PERF_EVENT."""


__all__ = [
    "KPROBE",
    "PERF_EVENT",
    "RAW_TRACEPOINT",
    "BpfError",
    "Compiled",
    "CompiledMap",
    "CompiledProgram",
]
