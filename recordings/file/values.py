"""Converts Python values to SQLite values and back. Checks every value that is read: files may come from
strangers."""

from __future__ import annotations

import functools
import itertools
import json
import math
import types
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, Union, get_args, get_origin

from stalltop.files import plain
from stalltop.model.evidence import Signed
from stalltop.model.histograms.hdr import COUNTERS
from stalltop.model.stacks.stack import Durations

Sql = int | float | str | bytes | None
"""Types that SQLite stores."""

_SIGN: Final = 1 << 63
_ALL: Final = 1 << 64


def stored_integer(value: int) -> int:
    """Return an unsigned 64-bit count as SQLite's signed integer, as described in ``recordings.file.schema``.
    A negative value is stored as 0, and a value of 2^64 or more as 2^64 - 1."""
    value = min(max(value, 0), _ALL - 1)
    return value if value < _SIGN else value - _ALL


def read_integer(value: object, where: str) -> int:
    """Return the count that ``stored_integer`` stored. Raises ValueError if ``value`` is not an integer of 64
    bits."""
    if type(value) is not int or not -_SIGN <= value < _SIGN:
        raise ValueError(f"{where} is not an integer")
    return value if value >= 0 else value + _ALL


def stored_text(value: str) -> str:
    """Return ``value`` as it is stored: without unprintable characters, and cut after ``plain.MOST_TEXT``
    characters."""
    return plain.text(value, "")


def stored_json(value: object) -> str:
    """Return lists and records as JSON. Fields that are None are left out, because there are many of them."""
    made = plain.to_plain(value, sparse=True)
    text = json.dumps(made, separators=(",", ":"))
    # JSON escapes unprintable characters, so a text without a backslash contains none.
    return json.dumps(_printable(made), separators=(",", ":")) if "\\" in text else text


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return stored_text(value)
    if isinstance(value, list):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {name: _printable(item) for name, item in value.items()}
    return value


def read_json(value: object, where: str) -> Any:
    """Return the value of a JSON text. The value itself is not checked. Raises ValueError if the text is not
    JSON."""
    if not isinstance(value, str):
        raise ValueError(f"{where} is not text")
    try:
        return json.loads(value, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError(f"{where} is nested too deeply") from None


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _bare(hint: Any) -> tuple[Any, bool]:
    """Return the type ``hint`` without None, and whether ``hint`` allows None."""
    if hint != Signed and get_origin(hint) in (Union, types.UnionType):
        parts = [part for part in get_args(hint) if part is not type(None)]
        return parts[0], len(parts) < len(get_args(hint))
    return hint, False


def storing(hint: Any) -> Callable[[Any], Sql]:
    """Return a function that converts a field of type ``hint`` to a value that SQLite stores."""
    bare, optional = _bare(hint)
    store = _storing(bare)
    return (lambda value: None if value is None else store(value)) if optional else store


def _storing(hint: Any) -> Callable[[Any], Sql]:
    if hint == Signed or hint is bool:
        return int
    if hint is int:
        return stored_integer
    if hint is float:
        return lambda value: float(value) if math.isfinite(value) else None
    if hint is str:
        return stored_text
    if get_origin(hint) is Literal:
        return str
    if get_origin(hint) is tuple and get_args(hint)[0] is float:
        return lambda value: stored_json([item if math.isfinite(item) else 0.0 for item in value])
    return stored_json


def reading(hint: Any, where: str) -> Callable[[Any], Any]:
    """Return a function that reads a field of type ``hint`` from a value of SQLite. If the value is wrong,
    that function raises ValueError with ``where`` in the message."""
    bare, optional = _bare(hint)
    read = _reading(bare, where)
    return (lambda value: None if value is None else read(value)) if optional else read


def _reading(hint: Any, where: str) -> Callable[[Any], Any]:
    if hint == Signed:
        return lambda value: plain.integer(value, where, signed=True)
    if hint is bool:
        return lambda value: read_flag(value, where)
    if hint is int:
        return lambda value: read_integer(value, where)
    if hint is float:
        # NULL stands for NaN and infinity.
        return lambda value: 0.0 if value is None else plain.number(value, where)
    if hint is str:
        return lambda value: plain.text(value, where)
    if get_origin(hint) is Literal:
        return lambda value: plain.value(hint, value, where)
    if hint == tuple[int, ...]:
        return lambda value: _read_counts(read_json(value, where), where)
    if hint == Durations:
        return lambda value: _read_durations(read_json(value, where), where)
    if hint == tuple[tuple[int, int], ...]:
        return lambda value: _read_pairs(read_json(value, where), where)
    # Values of these types seldom change from window to window, so the latest results are cached. Results are
    # immutable, so windows can share them.
    return functools.lru_cache(32)(lambda value: plain.value(hint, read_json(value, where), where))


def _read_counts(value: object, where: str) -> tuple[int, ...]:
    """Return a list of counts as a tuple. Raises ValueError if an element is not a count. Because lists are
    long, a list is checked as a whole, not element by element."""
    if not isinstance(value, list) or set(map(type, value)) - {int}:
        raise ValueError(f"{where} is not a list of counts")
    if value and not 0 <= min(value) <= max(value) < _ALL:
        raise ValueError(f"{where} has a number that is not a count")
    return tuple(value)


def _read_pairs(value: object, where: str) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list) or set(map(type, value)) - {list} or set(map(len, value)) - {2}:
        raise ValueError(f"{where} is not a list of pairs")
    numbers = _read_counts(list(itertools.chain.from_iterable(value)), where)
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _read_durations(value: object, where: str) -> Durations:
    pairs = _read_pairs(value, where)
    if any(index >= COUNTERS for index, _ in pairs):
        raise ValueError(f"{where} has a counter that no histogram has")
    return pairs


def read_flag(value: object, where: str) -> bool:
    """Return 1 or 0 as bool. Raises ValueError for another value."""
    if type(value) is not int or value not in (0, 1):
        raise ValueError(f"{where} is neither 0 nor 1")
    return value == 1


def checksum(rows: Iterable[Sequence[Sql]], before: int = 0) -> int:
    """Return the CRC-32 of ``rows`` as JSON. ``before`` is the checksum of the rows before them. Raises
    ValueError if a row has bytes."""
    try:
        text = json.dumps(list(rows), separators=(",", ":"))
    except TypeError:
        raise ValueError("a row has bytes in a column that must not have bytes") from None
    return zlib.crc32(text.encode("ascii"), before)
