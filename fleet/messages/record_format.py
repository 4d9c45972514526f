"""The wire format of values: a byte, the version; then JSON, compressed by zlib.

A dataclass is an object, a named tuple a list of its values in the order of its fields. Within a version,
fields are only added, at the end: readers ignore what they do not know, and take the default for what is
missing. Every value is checked, because anyone with the rights of a sender can send anything.
"""

from __future__ import annotations

import json
import math
import types
import zlib
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from operator import itemgetter
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")

MOST_TEXT: Final = 512
"""Longest text in a message, in characters; the rest is cut off."""
_MOST_INTEGER: Final = (1 << 63) - 1


class OtherVersionError(ValueError):
    """The message has a version that this program does not know."""

    def __init__(self, found: int, what: str = "summary", known: int = 1) -> None:
        super().__init__(f"sends version {found} of the {what}; this stalltop reads version {known}")
        self.version = found


def unpacked(message: bytes, what: str, version: int, most_bytes: int) -> bytes:
    """Returns the content of a message, which is compressed after a byte with its version. ``what``: its name
    in errors. Raises OtherVersionError, and ValueError if the message is malformed or its content is longer
    than ``most_bytes``."""
    if not message:
        raise ValueError("the message is empty")
    if message[0] != version:
        raise OtherVersionError(message[0], what, version)
    unzip = zlib.decompressobj()
    try:
        content = unzip.decompress(message[1:], most_bytes)
    except zlib.error:
        raise ValueError("the message is not compressed by zlib") from None
    if unzip.unconsumed_tail or not unzip.eof:
        raise ValueError("the message is too long or truncated")
    return content


class RecordFormat(Generic[T]):
    """Messages with one value of the dataclass ``kind``."""

    def __init__(self, kind: type[T], what: str, version: int, most_bytes: int, most_items: int) -> None:
        """``what``: name of the value in errors. ``most_bytes``: longest message, and longest JSON in one.
        ``most_items``: maximum number of values in a list."""
        self.version = version
        self._what = what
        self._most_bytes = most_bytes
        self._read = Readers(most_items).of(kind)

    def encoded(self, value: T, level: int = 6) -> bytes:
        """Returns ``value`` as a message, compressed at zlib's ``level``. Raises ValueError if a figure is
        not finite."""
        text = json.dumps(
            value, default=_as_object, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        return bytes((self.version,)) + zlib.compress(text.encode("utf-8", "replace"), level)

    def decoded(self, content: bytes) -> T:
        """Returns the value in a message. Raises OtherVersionError, and ValueError if it is no such value."""
        if not content or len(content) > self._most_bytes:
            raise ValueError("the message is empty or too long")
        text = unpacked(content, self._what, self.version, self._most_bytes).decode()
        try:
            found = json.loads(text, parse_constant=_refused)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"no JSON: {str(error)[:80]}") from None
        value: T = self._read(found, text.isprintable() and "\\" not in text)
        return value


def _as_object(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is not a number")


# Ten thousand values are decoded when a screen joins, so most lists of records are checked by comparing the
# types of each column at once, if the text of the whole message has only printable characters.

_Reader = Callable[[Any, bool], Any]
"""Takes the value, and whether the text of the message is printable and has no escaped characters."""


def _text(value: object, usual: bool) -> str:
    if type(value) is not str:
        raise ValueError("a text is missing")
    if len(value) <= MOST_TEXT and (usual or value.isprintable()):
        return value
    return "".join(character for character in value[:MOST_TEXT] if character.isprintable())


def _integer(value: object, usual: bool) -> int:
    if type(value) is not int or abs(value) > _MOST_INTEGER:
        raise ValueError("a count is missing, or out of range")
    return value


def _number(value: object, usual: bool) -> float:
    if type(value) is not float and type(value) is not int:
        raise ValueError("a number is missing")
    try:
        found = float(value)
    except OverflowError:
        raise ValueError("a number is too large") from None
    if not math.isfinite(found):
        raise ValueError("a number is not finite")
    return found


def _flag(value: object, usual: bool) -> bool:
    if type(value) is not bool:
        raise ValueError("true or false is missing")
    return value


_SCALARS: Final[dict[Any, _Reader]] = {str: _text, int: _integer, float: _number, bool: _flag}


class _FieldReader(NamedTuple):
    name: str
    read: _Reader
    required: bool


class Readers:
    """Makes readers of types."""

    def __init__(self, most_items: int) -> None:
        self._most = most_items

    def of(self, hint: Any) -> _Reader:
        """Returns the reader of values of the type ``hint``."""
        if hint in _SCALARS:
            return _SCALARS[hint]
        if get_origin(hint) is Literal:
            return self._one_of(get_args(hint))
        if get_origin(hint) is tuple:
            item = get_args(hint)[0]
            return self._records(item) if _is_record(item) else self._list(item)
        if isinstance(hint, types.UnionType):
            read = self.of(get_args(hint)[0])
            return lambda value, usual: None if value is None else read(value, usual)
        if _is_record(hint):
            read_all = self._records(hint)
            return lambda value, usual: read_all([value], usual)[0]
        assert is_dataclass(hint), hint
        return self._object(hint)

    def _one_of(self, allowed: tuple[Any, ...]) -> _Reader:
        def read(value: object, usual: bool) -> Any:
            if value not in allowed:
                raise ValueError(f"none of {', '.join(map(str, allowed))}")
            return value

        return read

    def _listed(self, value: object, what: str) -> list[Any]:
        if type(value) is not list or len(value) > self._most:
            raise ValueError(f"a list of {what} is missing, or too long")
        return value

    def _list(self, item: Any) -> _Reader:
        read_one, name = self.of(item), getattr(item, "__name__", str(item))
        return lambda value, usual: tuple(read_one(one, usual) for one in self._listed(value, name))

    def _object(self, kind: Any) -> _Reader:
        hints = get_type_hints(kind)
        known = [
            _FieldReader(field.name, self.of(hints[field.name]), field.default is MISSING)
            for field in fields(kind)
        ]

        def read(value: object, usual: bool) -> Any:
            if not isinstance(value, dict):
                raise ValueError("the message is not an object")
            values = {}
            for name, read_one, required in known:
                if name in value:
                    values[name] = read_one(value[name], usual)
                elif required:
                    raise ValueError(f"{name} is missing")
            return kind(**values)

        return read

    def _records(self, kind: Any) -> _Reader:
        hints = [get_type_hints(kind)[name] for name in kind._fields]
        readers = [self.of(hint) for hint in hints]
        count, least = len(readers), len(readers) - len(kind._field_defaults)
        plain = all(hint in _SCALARS for hint in hints)
        numbers = [at for at, hint in enumerate(hints) if hint in (int, float)]
        figures = itemgetter(*numbers) if len(numbers) > 1 else None
        allowed = [{float, int} if hint is float else {hint} for hint in hints]

        def whole(rows: list[Any]) -> bool:
            """Returns whether all rows have all values, of the right types and within bounds."""
            if {*map(type, rows)} != {list} or {*map(len, rows)} != {count}:
                return False
            columns = list(zip(*rows, strict=True))
            if any(not {*map(type, column)} <= one for column, one in zip(columns, allowed, strict=True)):
                return False
            bounds = [] if figures is None else figures(columns)
            return all(min(one) >= -_MOST_INTEGER and max(one) <= _MOST_INTEGER for one in bounds)

        def read(value: object, usual: bool) -> tuple[Any, ...]:
            rows = self._listed(value, kind.__name__)
            if usual and plain and figures is not None and rows and whole(rows):
                return tuple(map(kind._make, rows))
            found = []
            for one in rows:
                if type(one) is not list or len(one) < least:
                    raise ValueError(f"a {kind.__name__} is not a list of {count} values")
                found.append(kind(*[reader(part, usual) for reader, part in zip(readers, one, strict=False)]))
            return tuple(found)

        return read


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields")
