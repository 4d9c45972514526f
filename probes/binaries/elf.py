"""Reads which traced functions an ELF file defines, and where they lie in the file.

Files come from other people's containers: every offset and count is checked against the file's size and a
bound, and anything inconsistent raises ``ElfError`` with a reason. A file that would take too much time or
memory raises ``RefusedError``. The file is read, never mapped: a file that shrinks under a mapping would end
the monitor by SIGBUS.

Layouts: System V ABI, "Object Files" (ELF-64).
"""

from __future__ import annotations

import os
import platform
import re
import struct
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.probes.operations import Function, match

_MACHINES: Final = {62: "x86_64", 183: "aarch64"}
_OTHERS: Final = {3: "i386", 21: "ppc64", 22: "s390", 40: "arm", 243: "riscv"}

_SHT_PROGBITS: Final = 1
_SHT_SYMTAB: Final = 2
_SHT_DYNSYM: Final = 11
_PT_LOAD: Final = 1
_PF_X: Final = 1
_STT_OBJECT: Final = 1
_STT_FUNC: Final = 2
_ET_DYN: Final = 3

FILE_SECONDS: Final = 1.0
"""CPU time for which one file is read, s; libLLVM-15.so with 46,000 symbols takes 0.02 s."""
_MAX_SYMBOLS: Final = 4_000_000
"""Maximum number of symbols of a table, above any library of CUDA programs (libtorch_cuda.so has some hundred
thousand)."""
_MAX_FUNCTIONS: Final = 2048
"""Maximum number of traced functions in a file; libcudart.so.13 has 129."""
_MAX_PARTS: Final = 256
"""Maximum number of program headers; linkers write some ten."""
_MAX_SECTION_NAMES_BYTES: Final = 1 << 20
_MAX_EXPORTED_BYTES: Final = 4 << 20
"""Largest table of exported symbols that is searched for one variable, in bytes. The tables of a C library or
a program are far smaller."""
_MAX_NAME_BYTES: Final = 128
"""Longest name of a traced function, bytes."""
_MAX_SYMBOL_BYTES: Final = 4096
"""Maximum number of bytes that are read of a function's name."""
_MAX_NAME_OFFSET: Final = 0xFFFF_FFFF
_SYMBOL_CHUNK: Final = 1 << 17
_NAME_CHUNK_BYTES: Final = 1 << 22
"""Number of symbols that are read at once, and number of bytes of names. Tables are read in pieces, so that
the monitor's memory does not grow with the largest library on the host."""

_SYMBOL: Final = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_SECTION: Final = np.dtype(
    [
        ("name", "<u4"), ("kind", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"),
        ("size", "<u8"), ("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entry", "<u8"),
    ]
)  # fmt: skip
_NAME: Final = re.compile(rb"[A-Za-z0-9_]+(?=[\0@])")


class ElfError(Exception):
    """The file cannot be read as an ELF file of this machine; the text says why."""


class RefusedError(ElfError):
    """Reading the file would take more time or memory than one file may take; the text says why."""


class Deadline:
    """The end of the CPU time that the calling thread may spend on one file (``FILE_SECONDS``)."""

    def __init__(self) -> None:
        self._until = time.thread_time() + FILE_SECONDS

    def check(self) -> None:
        """Raises RefusedError if the time is over."""
        if time.thread_time() > self._until:
            raise RefusedError(f"reading them takes more than {FILE_SECONDS:g} s of CPU time")


class Segment(NamedTuple):
    """A part of the file that is mapped into memory."""

    address: int
    offset: int
    size_bytes: int


class FoundFunction(NamedTuple):
    """A traced function that the file defines."""

    symbol: str
    """Symbol as it is in the file, with its variant, such as ``_v2``."""
    function: Function
    offset: int
    """Offset of its first byte in the file."""
    size_bytes: int
    """Size according to the symbol. A function that extends beyond its segment is cut at the end of the
    segment."""


@dataclass(frozen=True, slots=True)
class Image:
    """The traced functions that one file defines."""

    machine: str
    functions: tuple[FoundFunction, ...]
    """Functions in the order of their offsets. Each offset occurs once."""


class _Section(NamedTuple):
    kind: int
    offset: int
    size: int
    link: int


def read_image(fd: int, layers: Sequence[str], machine: str | None = None) -> Image:
    """Returns the functions of ``layers`` that the file at ``fd`` defines, from ``.dynsym`` and ``.symtab``.

    ``machine`` is the architecture for which the file must be built; by default it is this host's. Raises
    ``ElfError``, also for files of another architecture, ``RefusedError``, and OSError if reading fails.
    """
    wanted = machine or platform.machine()
    deadline = Deadline()
    segments, tables = _parts(fd, wanted)
    found: dict[int, FoundFunction] = {}
    for symbols, names in tables:
        for name, address, length in _named(fd, symbols, names, _starts(layers), deadline):
            _add(found, name, address, length, layers, segments)
            if len(found) > _MAX_FUNCTIONS:
                raise RefusedError(f"more than {_MAX_FUNCTIONS} traced functions")
    return Image(wanted, tuple(found[offset] for offset in sorted(found)))


def function_symbols(fd: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns two arrays with one element for each function that the file at ``fd`` defines: the offset of
    the function in the file, ascending, and the offset of its name in the file.

    If a function has several names, one of them is returned. Raises ``ElfError``, and OSError if reading
    fails.
    """
    offsets, _, names_at = functions_with_sizes(fd)
    return offsets, names_at


def functions_with_sizes(fd: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Returns the same as `function_symbols`, and between the two arrays one with the size of each function
    in bytes."""
    deadline = Deadline()
    segments, tables = _parts(fd, platform.machine())
    parts = [np.zeros((3, 0), np.int64)]
    for symbols, names in tables:
        defined = _defined_functions(fd, symbols, deadline)
        defined = defined[defined["name"] < names.size]
        for segment in segments:
            inside = (defined["value"] >= segment.address) & (
                defined["value"] - np.uint64(segment.address) < segment.size_bytes
            )
            into = (defined["value"][inside] - np.uint64(segment.address)).astype(np.int64)
            sizes = np.minimum(defined["size"][inside], np.uint64(segment.size_bytes)).astype(np.int64)
            named = defined["name"][inside].astype(np.int64) + names.offset
            parts.append(np.stack([into + segment.offset, sizes, named]))
    offsets, sizes, names_at = np.concatenate(parts, axis=1)
    places, first = np.unique(offsets, return_index=True)
    return places, sizes[first], names_at[first]


def mapped_parts(fd: int) -> list[tuple[Segment, bool]]:
    """Returns the loaded segments of the file at ``fd``, each with True if it is executable. Raises the same
    errors as `function_symbols`."""
    header = os.pread(fd, 64, 0)
    if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
        raise ElfError("not a 64-bit little-endian ELF file")
    size = os.fstat(fd).st_size
    phoff, phentsize, phnum = *struct.unpack_from("<Q", header, 32), *struct.unpack_from("<HH", header, 54)
    return list(_mapped(fd, size, phoff, phentsize, phnum))


def constant_parts(fd: int) -> list[tuple[int, int]]:
    """Returns the offset and the size, in bytes, of the parts of the file at ``fd`` that hold constants
    (``.rodata``); the whole file if it has no sections. Raises ``ElfError``, and OSError if reading fails."""
    size = os.fstat(fd).st_size
    named = _named_sections(fd)
    if named is None:
        return [(0, size)]
    sections, text = named
    return [
        (offset, length)
        for name, offset, length in sections[sections["kind"] == _SHT_PROGBITS][
            ["name", "offset", "size"]
        ].tolist()
        if text.startswith((b".rodata", b".lrodata"), name) and offset + length <= size
    ]


def _named_sections(fd: int) -> tuple[NDArray[np.void], bytes] | None:
    """Returns the sections of a file and the text with their names; None if the file has no sections."""
    size = os.fstat(fd).st_size
    header = os.pread(fd, 64, 0)
    if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
        raise ElfError("not a 64-bit little-endian ELF file")
    (shoff,) = struct.unpack_from("<Q", header, 40)
    shentsize, shnum, shstrndx = struct.unpack_from("<HHH", header, 58)
    if shoff == 0 or shnum == 0:
        return None
    sections = _sections(fd, size, shoff, shentsize, shnum)
    if shstrndx >= len(sections):
        raise ElfError("no names of sections")
    names = sections[shstrndx]
    if int(names["size"]) > _MAX_SECTION_NAMES_BYTES or int(names["offset"]) + int(names["size"]) > size:
        raise ElfError("cut off inside its names of sections")
    return sections, _read(fd, int(names["offset"]), int(names["size"]))


def data_symbol(fd: int, names: Collection[bytes]) -> tuple[int, bool] | None:
    """Returns the address of a variable that the file at ``fd`` exports under one of ``names``, and whether
    this address is relative to the place where a process has loaded the file.

    Returns None if the file exports no such variable. Raises the same errors as `function_symbols`.
    """
    deadline = Deadline()
    _, tables = _parts(fd, platform.machine())
    for symbols, texts in tables:
        if symbols.kind != _SHT_DYNSYM:
            continue
        if symbols.size > _MAX_EXPORTED_BYTES:
            raise ElfError("too many exported symbols")
        table = np.frombuffer(
            _read(fd, symbols.offset, symbols.size - symbols.size % _SYMBOL.itemsize), _SYMBOL
        )
        kept = (table["info"] & 15 == _STT_OBJECT) & (table["section"] != 0) & (table["name"] < texts.size)
        for symbol in table[kept]:
            deadline.check()
            if symbol_name(fd, texts.offset + int(symbol["name"])) in names:
                (kind,) = struct.unpack("<H", os.pread(fd, 2, 16))
                return int(symbol["value"]), kind == _ET_DYN
    return None


class SymbolPlace(NamedTuple):
    """Addresses in the memory of a program, as they are in its file."""

    address: int
    size: int


def symbol_place(fd: int, name: bytes) -> SymbolPlace | None:
    """Returns the place of the function or variable ``name`` that the file at ``fd`` defines; None if it
    defines none. Raises the same errors as `function_symbols`."""
    deadline = Deadline()
    _, tables = _parts(fd, platform.machine())
    for symbols, texts in tables:
        at = _places_of_name(fd, texts, name, deadline)
        count = symbols.size // _SYMBOL.itemsize
        for first in range(0, count if len(at) else 0, _SYMBOL_CHUNK):
            deadline.check()
            length = min(_SYMBOL_CHUNK, count - first) * _SYMBOL.itemsize
            table = np.frombuffer(_read(fd, symbols.offset + first * _SYMBOL.itemsize, length), _SYMBOL)
            kept = table[(table["section"] != 0) & np.isin(table["name"], at)]
            if len(kept):
                return SymbolPlace(int(kept["value"][0]), int(kept["size"][0]))
    return None


def _places_of_name(fd: int, texts: _Section, name: bytes, deadline: Deadline) -> NDArray[np.uint32]:
    """Returns where a table of names has ``name``, which may also be the end of a longer name."""
    found = []
    wanted = name + b"\0"
    for chunk in range(0, texts.size, _NAME_CHUNK_BYTES):
        deadline.check()
        text = _read(fd, texts.offset + chunk, min(_NAME_CHUNK_BYTES + len(name), texts.size - chunk))
        found += [chunk + match.start() for match in re.finditer(re.escape(wanted), text)]
    return np.array(found, np.uint32)


def section_place(fd: int, name: bytes) -> SymbolPlace | None:
    """Returns the place of the section ``name`` of the file at ``fd``; None if there is no such section.
    Raises ``ElfError``, and OSError if reading fails."""
    named = _named_sections(fd)
    if named is None:
        return None
    sections, text = named
    for at, address, size in sections[["name", "address", "size"]].tolist():
        if text.startswith(name + b"\0", at):
            return SymbolPlace(int(address), int(size))
    return None


def symbol_name(fd: int, at: int) -> bytes:
    """Returns the name that begins at byte ``at`` of the file; cut if it is implausibly long."""
    return os.pread(fd, _MAX_SYMBOL_BYTES, at).partition(b"\0")[0].partition(b"@")[0]


def _parts(fd: int, wanted: str) -> tuple[list[Segment], list[tuple[_Section, _Section]]]:
    """Returns the executable segments of a file, and its symbol tables with their string tables. Raises
    ElfError if the file is not for machine ``wanted``."""
    size = os.fstat(fd).st_size
    header = os.pread(fd, 64, 0)
    if len(header) < 64 or header[:4] != b"\x7fELF":
        raise ElfError("not an ELF file" if header[:4] != b"\x7fELF" else "cut off inside its header")
    if header[4] != 2 or header[5] != 1:
        raise ElfError("not a 64-bit little-endian file")
    built_for, _, _, phoff, shoff, _, _, phentsize, phnum, shentsize, shnum, _ = struct.unpack_from(
        "<HIQQQIHHHHHH", header, 18
    )
    if _MACHINES.get(built_for) != wanted:
        name = _MACHINES.get(built_for) or _OTHERS.get(built_for) or f"machine type {built_for}"
        raise ElfError(f"built for {name}, this host is {wanted}")
    segments = list(_segments(fd, size, phoff, phentsize, phnum))
    if not segments:
        raise ElfError("no executable part")
    return segments, _symbol_tables(fd, size, shoff, shentsize, shnum)


def _segments(fd: int, size: int, phoff: int, phentsize: int, phnum: int) -> Iterator[Segment]:
    for segment, executable in _mapped(fd, size, phoff, phentsize, phnum):
        if executable:
            yield segment


def _mapped(fd: int, size: int, phoff: int, phentsize: int, phnum: int) -> Iterator[tuple[Segment, bool]]:
    if phnum > _MAX_PARTS:
        raise RefusedError(f"more than {_MAX_PARTS} parts")
    if phentsize != 56 or phoff + phnum * phentsize > size:
        raise ElfError("cut off before its program headers")
    for kind, flags, offset, address, _, filesz, _, _ in struct.iter_unpack(
        "<IIQQQQQQ", _read(fd, phoff, phnum * phentsize)
    ):
        if kind == _PT_LOAD and offset < size:
            yield Segment(address, offset, min(filesz, size - offset)), flags & _PF_X != 0


def _symbol_tables(
    fd: int, size: int, shoff: int, shentsize: int, shnum: int
) -> list[tuple[_Section, _Section]]:
    """Returns the symbol tables, each with its string table; [] if there are none. Raises ElfError if the
    file has no section headers."""
    if shoff == 0 or shnum == 0:
        raise ElfError("no section headers: its symbols cannot be found")
    sections = _sections(fd, size, shoff, shentsize, shnum)
    tables = []
    for kind in (_SHT_DYNSYM, _SHT_SYMTAB):
        of_kind = sections[sections["kind"] == kind]
        # The System V ABI allows one of each.
        if len(of_kind) > 1:
            raise RefusedError(f"{len(of_kind)} symbol tables of one kind")
        for symbols in map(_section, of_kind):
            if symbols.link >= len(sections):
                raise ElfError("a symbol table without names")
            names = _section(sections[symbols.link])
            if max(symbols.offset + symbols.size, names.offset + names.size) > size:
                raise ElfError("cut off inside its symbol table")
            if symbols.size // _SYMBOL.itemsize > _MAX_SYMBOLS:
                raise RefusedError(f"more than {_MAX_SYMBOLS:,} symbols")
            tables.append((symbols, names))
    return tables


def _sections(fd: int, size: int, shoff: int, shentsize: int, shnum: int) -> NDArray[np.void]:
    if shentsize != _SECTION.itemsize or shoff + shnum * shentsize > size:
        raise ElfError("cut off before its section headers")
    return np.frombuffer(_read(fd, shoff, shnum * shentsize), _SECTION)


def _section(header: np.void) -> _Section:
    return _Section(int(header["kind"]), int(header["offset"]), int(header["size"]), int(header["link"]))


def _starts(layers: Sequence[str]) -> tuple[bytes, ...]:
    starts = {"driver": (b"cu",), "runtime": (b"cuda", b"__cuda"), "nccl": (b"nccl",)}
    return tuple(start for layer in layers for start in starts[layer])


def _named(
    fd: int, symbols: _Section, names: _Section, starts: Sequence[bytes], deadline: Deadline
) -> Iterator[tuple[str, int, int]]:
    """Yields (name, address, size) of the functions whose name begins with one of ``starts``.

    The first letters of all names are compared as arrays. Most symbols of a large library begin with other
    letters, and never become Python objects.
    """
    at, row = _names_of_functions(fd, symbols, deadline)
    end = min(names.size, _MAX_NAME_OFFSET)
    for chunk in range(0, end, _NAME_CHUNK_BYTES):
        deadline.check()
        bounds = np.array((chunk, min(chunk + _NAME_CHUNK_BYTES, end)), np.uint32)
        first, last = np.searchsorted(at, bounds)
        if first == last:
            continue
        wanted = min(_NAME_CHUNK_BYTES + _MAX_NAME_BYTES, names.size - chunk)
        text = _read(fd, names.offset + chunk, wanted)
        letters = np.frombuffer(text + b"\0" * _MAX_NAME_BYTES, np.uint8)
        place = at[first:last] - np.uint32(chunk)
        keep = np.zeros(len(place), bool)
        for start in starts:
            keep |= _begins(letters, place, start)
        for number in np.flatnonzero(keep):
            deadline.check()
            begin = int(place[number])
            name = _NAME.match(text, begin, begin + _MAX_NAME_BYTES)
            if name is not None:
                symbol_at = symbols.offset + int(row[first + number]) * _SYMBOL.itemsize
                *_, value, size = struct.unpack("<IBBHQQ", _read(fd, symbol_at, _SYMBOL.itemsize))
                yield name.group().decode("ascii"), value, size


def _names_of_functions(
    fd: int, symbols: _Section, deadline: Deadline
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Returns the offsets of the names of all functions in the string table, ascending, and the number of
    each function's symbol."""
    at, row = [np.zeros(0, np.uint32)], [np.zeros(0, np.uint32)]
    for first, table, functions in _function_chunks(fd, symbols, deadline):
        at.append(table["name"][functions])
        row.append((np.flatnonzero(functions) + first).astype(np.uint32))
    names = np.concatenate(at)
    order = np.argsort(names, kind="stable")
    return names[order], np.concatenate(row)[order]


def _begins(letters: NDArray[np.uint8], place: NDArray[np.uint32], start: bytes) -> NDArray[np.bool_]:
    same = np.ones(len(place), bool)
    for number, letter in enumerate(start):
        same &= letters[place + number] == letter
    return same


def _defined_functions(fd: int, symbols: _Section, deadline: Deadline) -> NDArray[np.void]:
    kept = [table[functions] for _, table, functions in _function_chunks(fd, symbols, deadline)]
    return np.concatenate(kept) if kept else np.zeros(0, _SYMBOL)


def _function_chunks(
    fd: int, symbols: _Section, deadline: Deadline
) -> Iterator[tuple[int, NDArray[np.void], NDArray[np.bool_]]]:
    """Yields a symbol table in pieces: the number of the first symbol, the symbols, and which of them are
    functions that the file defines."""
    count = symbols.size // _SYMBOL.itemsize
    for first in range(0, count, _SYMBOL_CHUNK):
        deadline.check()
        length = min(_SYMBOL_CHUNK, count - first) * _SYMBOL.itemsize
        table = np.frombuffer(_read(fd, symbols.offset + first * _SYMBOL.itemsize, length), _SYMBOL)
        functions = (table["info"] & 15 == _STT_FUNC) & (table["section"] != 0) & (table["value"] != 0)
        yield first, table, functions


def _add(
    found: dict[int, FoundFunction],
    name: str,
    address: int,
    length: int,
    layers: Sequence[str],
    segments: Sequence[Segment],
) -> None:
    function = next(filter(None, (match(name, layer) for layer in layers)), None)
    if function is None:
        return
    for segment in segments:
        into = address - segment.address
        if 0 <= into < segment.size_bytes:
            offset = segment.offset + into
            here = FoundFunction(name, function, offset, min(length, segment.size_bytes - into))
            # If an address has two names, they name the same function: the shorter name is kept, whatever the
            # order of the tables.
            other = found.get(offset)
            if other is None or (len(name), name) < (len(other.symbol), other.symbol):
                found[offset] = here
            return


def _read(fd: int, offset: int, length: int) -> bytes:
    """Returns exactly ``length`` bytes; raises ElfError if the file has shrunk."""
    data = os.pread(fd, length, offset)
    while len(data) < length:
        more = os.pread(fd, length - len(data), offset + len(data))
        if not more:
            raise ElfError("cut off while it was read")
        data += more
    return data
