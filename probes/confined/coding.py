"""Converts typed values to JSON and back, for the messages between stalltop and its confined process.

The confined process parses what strangers wrote, so its answers are not trusted: `decoded` returns a value
of exactly the type that it is asked for, or raises ValueError.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, NewType

Descriptor = NewType("Descriptor", int)
"""An open file, which is passed from one process to the other. It belongs to the receiver."""

_MOST_DIGITS: Final = 1 << 64


def encoded(kind: Any, value: Any, descriptors: list[int]) -> Any:
    """Returns ``value``, of type ``kind``, as JSON. Appends its descriptors to ``descriptors``."""
    if kind is Descriptor:
        descriptors.append(value)
        return None
    if kind is bytes:
        return value.decode("latin-1")
    if isinstance(kind, type) and issubclass(kind, Enum):
        return value.value
    parts = _fields(kind)
    if parts is not None:
        return [encoded(part, getattr(value, name), descriptors) for name, part in parts]
    arguments = typing.get_args(kind)
    if isinstance(kind, types.UnionType):
        return None if value is None else [encoded(arguments[0], value, descriptors)]
    if arguments:
        kinds = _parts(kind, len(value))
        return [encoded(part, one, descriptors) for part, one in zip(kinds, value, strict=True)]
    return value


def decoded(kind: Any, value: Any, descriptors: list[int]) -> Any:
    """Returns the value of type ``kind`` that `encoded` made into ``value``. Removes its descriptors from the
    beginning of ``descriptors``. Raises ValueError."""
    if kind is Descriptor:
        if value is not None or not descriptors:
            raise ValueError("no descriptor was received")
        return descriptors.pop(0)
    if kind is bytes:
        return _plain(str, value).encode("latin-1")
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    parts = _fields(kind)
    if parts is not None:
        given = _listed(value, len(parts))
        return kind(*(decoded(part, one, descriptors) for (_, part), one in zip(parts, given, strict=True)))
    arguments = typing.get_args(kind)
    if isinstance(kind, types.UnionType):
        return None if value is None else decoded(arguments[0], _listed(value, 1)[0], descriptors)
    if arguments:
        given = _listed(value)
        pairs = zip(_parts(kind, len(given)), given, strict=True)
        return typing.get_origin(kind)(decoded(part, one, descriptors) for part, one in pairs)
    return _plain(kind, value)


@functools.cache
def _fields(kind: Any) -> tuple[tuple[str, Any], ...] | None:
    """Returns the fields of a NamedTuple or a dataclass; None for other types."""
    if not isinstance(kind, type):
        return None
    if dataclasses.is_dataclass(kind):
        names: Sequence[str] = [field.name for field in dataclasses.fields(kind)]
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        names = kind._fields
    else:
        return None
    hints = typing.get_type_hints(kind)
    return tuple((name, hints[name]) for name in names)


def _parts(kind: Any, length: int) -> Sequence[Any]:
    """Returns the types of the elements of a list or tuple of this ``length``."""
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) is list or arguments[1:] == (Ellipsis,):
        return [arguments[0]] * length
    if len(arguments) != length:
        raise ValueError("a tuple has another length")
    return arguments


def _listed(value: Any, length: int | None = None) -> list[Any]:
    if not isinstance(value, list) or length not in (None, len(value)):
        raise ValueError("a list was expected, or one of another length")
    return value


def _plain(kind: Any, value: Any) -> Any:
    if type(value) is not kind or (kind is int and abs(value) >= _MOST_DIGITS):
        raise ValueError(f"a value of type {kind.__name__} was expected")
    return value
