"""Builds small ELF files for tests, with full control over their symbols."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

FUNC, OBJECT, IFUNC = 2, 1, 10
CODE_AT = 0x1000
CODE_ADDRESS = 0x401000
HEADER = 64


class Symbol(NamedTuple):
    name: str
    address: int = CODE_ADDRESS
    size: int = 16
    kind: int = FUNC
    section: int = 1


def elf(
    symbols: Sequence[Symbol],
    code: bytes = b"\xc3" * 64,
    *,
    machine: int = 62,
    table: int = 11,
    sections: bool = True,
) -> bytes:
    """Returns an ELF file with ``code`` at file offset CODE_AT and address CODE_ADDRESS, and with one symbol
    table of section type ``table`` (11 is SHT_DYNSYM, 2 is SHT_SYMTAB)."""
    names, table_bytes = b"\0", struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
    for symbol in symbols:
        table_bytes += struct.pack(
            "<IBBHQQ", len(names), 0x10 | symbol.kind, 0, symbol.section, symbol.address, symbol.size
        )
        names += symbol.name.encode() + b"\0"
    names_at = CODE_AT + len(code)
    table_at = names_at + len(names)
    sections_at = table_at + len(table_bytes)
    header = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    header += struct.pack(
        "<HHIQQQIHHHHHH", 3, machine, 1, 0, HEADER, sections_at if sections else 0, 0, 64, 56, 1, 64,
        3 if sections else 0, 0,
    )  # fmt: skip
    program = struct.pack("<IIQQQQQQ", 1, 5, CODE_AT, CODE_ADDRESS, 0, len(code), len(code), 0x1000)
    section_headers = (
        bytes(64)
        + struct.pack("<IIQQQQIIQQ", 0, table, 2, 0, table_at, len(table_bytes), 2, 0, 8, 24)
        + struct.pack("<IIQQQQIIQQ", 0, 3, 2, 0, names_at, len(names), 0, 0, 1, 0)
    )
    return (header + program).ljust(CODE_AT, b"\0") + code + names + table_bytes + section_headers
