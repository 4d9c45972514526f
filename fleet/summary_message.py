"""The wire format of a host's summary: a byte, the version; then a JSON object, compressed by zlib.

Records in lists are lists of values in the order of their fields, as in ``model.fleet.host_summary``. Within
a version, fields are only added, at the end: readers ignore what they do not know, and take the default for
what is missing. Every value is checked, because anyone with the rights of a host can send anything.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from dataclasses import MISSING, fields
from operator import itemgetter
from typing import Any, Final, NamedTuple, get_args, get_type_hints

from stalltop.model.chain import Severity
from stalltop.model.fleet.host_summary import HostSummary

VERSION: Final = 1
MOST_BYTES: Final = 64 << 10
"""Longest message, and longest JSON text in one, in bytes."""
MOST_ITEMS: Final = 256
"""Maximum number of records in a list."""
MOST_TEXT: Final = 512
_MOST_INTEGER: Final = (1 << 63) - 1


class OtherVersionError(ValueError):
    """The message has a version that this program does not know."""

    def __init__(self, version: int) -> None:
        super().__init__(f"sends version {version} of the summary; this stalltop reads version {VERSION}")
        self.version = version


def encoded(summary: HostSummary) -> bytes:
    """Returns ``summary`` as a message. Raises ValueError if a figure is not finite."""
    values = {field.name: getattr(summary, field.name) for field in fields(summary)}
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return bytes((VERSION,)) + zlib.compress(text.encode("utf-8", "replace"), 6)


def decoded(content: bytes) -> HostSummary:
    """Returns the summary in a message. Raises OtherVersionError, and ValueError if it is no summary."""
    if not content or len(content) > MOST_BYTES:
        raise ValueError("the message is empty or too long")
    if content[0] != VERSION:
        raise OtherVersionError(content[0])
    unzip = zlib.decompressobj()
    try:
        text = unzip.decompress(content[1:], MOST_BYTES).decode()
    except zlib.error:
        raise ValueError("the message is not compressed by zlib") from None
    if unzip.unconsumed_tail or not unzip.eof:
        raise ValueError("the message is too long or truncated")
    try:
        found = json.loads(text, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON: {str(error)[:80]}") from None
    if not isinstance(found, dict):
        raise ValueError("the message is not an object")
    usual = text.isprintable() and "\\" not in text
    values = {}
    for name, read, required in _FIELDS:
        if name in found:
            values[name] = read(found[name], usual)
        elif required:
            raise ValueError(f"{name} is missing")
    if not values["seconds"] > 0:
        raise ValueError("seconds is not above 0")
    return HostSummary(**values)


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is not a number")


# Ten thousand summaries are decoded when a screen joins, so most records are checked by comparing the types
# of all their values at once, if the text of the whole message has only printable characters.


def _text(value: object) -> str:
    if type(value) is not str:
        raise ValueError("a text is missing")
    if len(value) <= MOST_TEXT and value.isprintable():
        return value
    return "".join(character for character in value[:MOST_TEXT] if character.isprintable())


def _integer(value: object) -> int:
    if type(value) is not int or abs(value) > _MOST_INTEGER:
        raise ValueError("a count is missing, or out of range")
    return value


def _number(value: object) -> float:
    if type(value) is not float and type(value) is not int:
        raise ValueError("a number is missing")
    try:
        found = float(value)
    except OverflowError:
        raise ValueError("a number is too large") from None
    if not math.isfinite(found):
        raise ValueError("a number is not finite")
    return found


def _flag(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError("true or false is missing")
    return value


def _severity(value: object) -> Severity:
    if value not in get_args(Severity):
        raise ValueError("a severity is missing")
    return value  # type: ignore[return-value]


_ValueReader = Callable[[object], Any]
_READERS: Final[dict[Any, _ValueReader]] = {
    str: _text,
    int: _integer,
    float: _number,
    bool: _flag,
    Severity: _severity,
}


class _FieldReader(NamedTuple):
    name: str
    read: Callable[[object, bool], Any]
    """Takes the value, and whether the text of the message is printable and has no escaped characters."""
    required: bool


def _bounded(values: tuple[float, ...]) -> bool:
    return min(values) >= -_MOST_INTEGER and max(values) <= _MOST_INTEGER


def _records(kind: Any) -> Callable[[object, bool], tuple[Any, ...]]:
    """Returns a reader of lists of the named tuple ``kind``."""
    hints = [get_type_hints(kind)[name] for name in kind._fields]
    readers = [_READERS[hint] for hint in hints]
    count, least = len(readers), len(readers) - len(kind._field_defaults)
    numbers = itemgetter(*(at for at, hint in enumerate(hints) if hint in (int, float)))

    def read(value: object, usual: bool) -> tuple[Any, ...]:
        if type(value) is not list or len(value) > MOST_ITEMS:
            raise ValueError(f"a list of {kind.__name__} is missing, or too long")
        found = []
        for one in value:
            if usual and type(one) is list and [*map(type, one)] == hints and _bounded(numbers(one)):
                found.append(kind._make(one))
            elif type(one) is list and len(one) >= least:
                found.append(kind(*[reader(part) for reader, part in zip(readers, one, strict=False)]))
            else:
                raise ValueError(f"a {kind.__name__} is not a list of {count} values")
        return tuple(found)

    return read


def _reader(hint: Any) -> Callable[[object, bool], Any]:
    if hint not in _READERS:
        return _records(get_args(hint)[0])
    read = _READERS[hint]
    return lambda value, usual: read(value)


_HINTS: Final = get_type_hints(HostSummary)
_FIELDS: Final = tuple(
    _FieldReader(field.name, _reader(_HINTS[field.name]), field.default is MISSING)
    for field in fields(HostSummary)
)
