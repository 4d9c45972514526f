"""Finds the line of an instruction in the tables of CPython's code objects.

A table comes from another process: any bytes are allowed, and lead to some line or to none.
"""

from __future__ import annotations

from collections.abc import Iterator

from stalltop.probes.stacks.layouts import LineFormat

_NO_LINE = -128
"""A difference of 3.10's tables that says that the instructions have no line."""


def line_at(table: bytes, first_line: int, offset: int, form: LineFormat) -> int:
    """Returns the line of the instruction at byte ``offset`` of the bytecode; 0 if it has none.

    ``first_line`` is ``co_firstlineno``.
    """
    if form == LineFormat.DELTAS:
        return _by_deltas(table, first_line, offset)
    ranges = (
        _ranges_of_3_10(table, first_line) if form == LineFormat.RANGES else _locations(table, first_line)
    )
    for end, line in ranges:
        if offset < end:
            return line
    return 0


def _by_deltas(table: bytes, line: int, offset: int) -> int:
    """See Objects/lnotab_notes.txt of CPython 3.9."""
    at = 0
    for step, difference in zip(table[::2], table[1::2], strict=False):
        at += step
        if at > offset:
            break
        line += _signed(difference)
    return line


def _ranges_of_3_10(table: bytes, line: int) -> Iterator[tuple[int, int]]:
    """Yields the end of each range of instructions, in bytes, and its line. See Objects/lnotab_notes.txt of
    CPython 3.10."""
    end = 0
    for step, difference in zip(table[::2], table[1::2], strict=False):
        end += step
        if _signed(difference) == _NO_LINE:
            yield end, 0
        else:
            line += _signed(difference)
            yield end, line


def _locations(table: bytes, line: int) -> Iterator[tuple[int, int]]:
    """Yields the same for the tables of 3.11 and later. See Objects/locations.md of CPython 3.11."""
    end = at = 0
    while at < len(table):
        first = table[at]
        kind = first >> 3 & 15
        end += 2 * ((first & 7) + 1)
        if kind == 15:  # no location
            yield end, 0
        else:
            if kind >= 13:  # a difference of any size
                line += _variable(table, at + 1)
            elif kind >= 10:
                line += kind - 10
            yield end, line
        at += 1
        # The first byte of each entry has the highest bit set, and no other byte has.
        while at < len(table) and not table[at] & 0x80:
            at += 1


def _variable(table: bytes, at: int) -> int:
    """Returns the signed number that begins at ``at``: six bits in each byte, the lowest ones first."""
    value = shift = 0
    for byte in table[at : at + 6]:
        value |= (byte & 63) << shift
        shift += 6
        if not byte & 64:
            break
    return -(value >> 1) if value & 1 else value >> 1


def _signed(byte: int) -> int:
    return byte - 256 if byte > 127 else byte
