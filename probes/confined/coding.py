"""Converts typed values to JSON and back, for the messages between stalltop and its confined process.

The confined process parses what strangers wrote, so its answers are not trusted: `decoded` returns a value
of exactly the type that it is asked for, or raises ValueError. For each type, the functions that convert it
are made once. Types of dictionaries are ``dict[str, str]``.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, NewType

Descriptor = NewType("Descriptor", int)
"""An open file, which is passed from one process to the other. It belongs to the receiver."""

Convert = Callable[[Any, list[int]], Any]
"""Converts a value. The list has the descriptors of the message."""

_MOST_INTEGER: Final = 1 << 64
_UNIONS: Final = (types.UnionType, typing.Union)
"""What ``X | None`` is: the latter, if ``X`` is a NewType."""


def encoded(kind: Any, value: Any, descriptors: list[int]) -> Any:
    """Returns ``value``, of type ``kind``, as JSON. Appends its descriptors to ``descriptors``."""
    return _encoder(kind)(value, descriptors)


def decoded(kind: Any, value: Any, descriptors: list[int]) -> Any:
    """Returns the value of type ``kind`` that `encoded` made into ``value``. Removes its descriptors from the
    beginning of ``descriptors``. Raises ValueError."""
    return _decoder(kind)(value, descriptors)


@functools.cache
def _encoder(kind: Any) -> Convert:
    if kind is Descriptor:
        return lambda value, descriptors: descriptors.append(value)
    if kind is bytes:
        return lambda value, _: value.decode("latin-1")
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda value, _: value.value
    fields = _fields(kind)
    if fields is not None:
        parts = [(name, _encoder(part)) for name, part in fields]
        return lambda value, descriptors: [part(getattr(value, name), descriptors) for name, part in parts]
    arguments = typing.get_args(kind)
    if typing.get_origin(kind) in _UNIONS:
        one = _encoder(arguments[0])
        return lambda value, descriptors: None if value is None else [one(value, descriptors)]
    if typing.get_origin(kind) is dict:
        return lambda value, _: value
    if _is_sequence(kind):
        every = _encoder(arguments[0])
        return lambda value, descriptors: [every(part, descriptors) for part in value]
    if arguments:
        several = [_encoder(part) for part in arguments]
        return lambda value, descriptors: [
            part(one, descriptors) for part, one in zip(several, value, strict=True)
        ]
    return lambda value, _: value


@functools.cache
def _decoder(kind: Any) -> Convert:
    if kind is Descriptor:
        return _descriptor
    if kind is bytes:
        text = _decoder(str)
        return lambda value, descriptors: text(value, descriptors).encode("latin-1")
    if isinstance(kind, type) and issubclass(kind, Enum):
        return lambda value, _: kind(value)
    fields = _fields(kind)
    arguments = typing.get_args(kind)
    if fields is not None:
        return _of_parts(lambda parts: kind(*parts), [part for _, part in fields])
    if typing.get_origin(kind) in _UNIONS:
        one = _of_parts(lambda parts: parts[0], arguments[:1])
        return lambda value, descriptors: None if value is None else one(value, descriptors)
    if typing.get_origin(kind) is dict:
        return lambda value, _: _texts(value)
    if _is_sequence(kind):
        every, make = _decoder(arguments[0]), typing.get_origin(kind)
        return lambda value, descriptors: make(every(part, descriptors) for part in _listed(value))
    if arguments:
        return _of_parts(tuple, arguments)
    return lambda value, _: _plain(kind, value)


def _of_parts(make: Callable[[list[Any]], Any], kinds: Sequence[Any]) -> Convert:
    """Returns what decodes a list of as many values as there are ``kinds``."""
    parts = [_decoder(kind) for kind in kinds]
    count = len(parts)

    def decode(value: Any, descriptors: list[int]) -> Any:
        if type(value) is not list or len(value) != count:
            raise ValueError("a list of another length was expected")
        return make([part(one, descriptors) for part, one in zip(parts, value, strict=True)])

    return decode


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


def _is_sequence(kind: Any) -> bool:
    """Returns whether ``kind`` is a list, set or tuple of any length, of values of one type."""
    return typing.get_origin(kind) in (list, frozenset) or typing.get_args(kind)[1:] == (Ellipsis,)


def _listed(value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError("a list was expected")
    return value


def _texts(value: Any) -> dict[str, str]:
    if type(value) is not dict or any(type(text) is not str for text in value.values()):
        raise ValueError("texts by name were expected")
    return value


def _plain(kind: Any, value: Any) -> Any:
    if type(value) is not kind or (kind is int and abs(value) >= _MOST_INTEGER):
        raise ValueError(f"a value of type {kind.__name__} was expected")
    return value


def _descriptor(value: Any, descriptors: list[int]) -> int:
    if value is not None or not descriptors:
        raise ValueError("no descriptor was received")
    return descriptors.pop(0)
