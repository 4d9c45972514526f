"""Converts dataclasses to plain JSON values and back. Each value that is converted back has the type of its
field.

Files may come from strangers. So values of the wrong type, NaN and missing fields that have no default are
refused with ValueError, and characters that are not printable are removed from every text.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from stalltop.model.evidence import Signed

T = TypeVar("T")

MOST_TEXT = 4096
"""Maximum length of a text that is read from a file, in characters; longer text is cut."""
_MOST_INTEGER = (1 << 64) - 1


def to_plain(value: object, *, sparse: bool = False) -> Any:
    """Return ``value`` (a dataclass, tuple, mapping, text, number or None) as dicts, lists, strings and
    numbers.

    NaN and infinity become None. If ``sparse`` is True, fields of dataclasses that are None are left out if
    their default is None as well.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_plain(item, sparse=sparse)
            for field in fields(value)
            if (item := getattr(value, field.name)) is not None or not sparse or field.default is not None
        }
    if isinstance(value, Mapping):
        return {str(name): to_plain(item, sparse=sparse) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_plain(item, sparse=sparse) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def from_plain(kind: type[T], plain: object, where: str) -> T:
    """Return an object of the dataclass ``kind`` from ``plain``, which ``to_plain`` made.

    Raises ValueError if ``plain`` is invalid. ``where`` names ``plain`` in the error message, such as
    ``window``. Fields that ``kind`` does not have are ignored, because files of later versions may have more
    fields.
    """
    if not isinstance(plain, dict):
        raise ValueError(f"{where} is not an object")
    values: dict[str, Any] = {}
    for name, hint, required in _fields(kind):
        if plain.get(name) is None and not required:
            continue  # a field that is null or missing gets its default
        if name in plain:
            values[name] = value(hint, plain[name], f"{where}.{name}")
        elif required:
            raise ValueError(f"{where}.{name} is missing")
    return kind(**values)


_known: dict[type[Any], tuple[tuple[str, Any, bool], ...]] = {}


def _fields(kind: type[Any]) -> tuple[tuple[str, Any, bool], ...]:
    """Return (name, type, True if it has no default) of every field of ``kind``. The result is cached,
    because evaluating type hints is slow."""
    if kind not in _known:
        hints = get_type_hints(kind, include_extras=True)
        _known[kind] = tuple(
            (field.name, hints[field.name], field.default is MISSING and field.default_factory is MISSING)
            for field in fields(kind)
        )
    return _known[kind]


def value(hint: Any, plain: object, where: str) -> Any:
    """Convert ``plain`` to the type ``hint``. Raises ValueError if ``plain`` is invalid; ``where`` names
    ``plain`` in the error message."""
    if hint == Signed:
        return integer(plain, where, signed=True)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        if plain is None and type(None) in get_args(hint):
            return None
        (hint,) = (part for part in get_args(hint) if part is not type(None))
        return value(hint, plain, where)
    if origin is Literal:
        if plain in get_args(hint):
            return plain
    elif origin is tuple:
        return _tuple(get_args(hint), plain, where)
    elif isinstance(hint, type) and issubclass(hint, tuple):
        return named_tuple(hint, plain, where)
    elif is_dataclass(hint):
        return from_plain(hint, plain, where)  # type: ignore[arg-type]
    elif hint is str:
        return text(plain, where)
    elif hint is bool:
        if isinstance(plain, bool):
            return plain
    elif hint is int:
        return integer(plain, where)
    elif hint is float:
        return number(plain, where)
    else:
        raise TypeError(f"{where}: no rule for {hint}")
    raise ValueError(f"{where} has a value that is not allowed")


def _tuple(parts: Sequence[Any], plain: object, where: str) -> tuple[Any, ...]:
    if not isinstance(plain, list):
        raise ValueError(f"{where} is not a list")
    if len(parts) == 2 and parts[1] is ...:
        return tuple(value(parts[0], item, f"{where}[{at}]") for at, item in enumerate(plain))
    if len(parts) != len(plain):
        raise ValueError(f"{where} has {len(plain)} elements, not {len(parts)}")
    return tuple(value(part, item, where) for part, item in zip(parts, plain, strict=True))


_known_tuples: dict[Any, tuple[Any, ...]] = {}


def named_tuple(kind: Any, plain: object, where: str) -> Any:
    """Return an object of the named tuple ``kind`` from the list ``plain``.

    Raises ValueError if ``plain`` is invalid; ``where`` names ``plain`` in the error message. Further
    elements are ignored, because files of later versions may have more. Elements with a default may be
    missing.
    """
    if not isinstance(plain, list):
        raise ValueError(f"{where} is not a list")
    if kind not in _known_tuples:
        hints = get_type_hints(kind, include_extras=True)
        _known_tuples[kind] = tuple(hints[name] for name in kind._fields)
    wanted = _known_tuples[kind]
    if len(plain) < len(wanted) - len(kind._field_defaults):
        raise ValueError(f"{where} has {len(plain)} elements, not {len(wanted)}")
    return kind(*(value(hint, item, where) for hint, item in zip(wanted, plain, strict=False)))


def text(plain: object, where: str, most: int | None = MOST_TEXT) -> str:
    """Return the text ``plain`` without unprintable characters, cut to ``most`` characters (None: not cut).
    Raises ValueError if ``plain`` is not text; ``where`` names ``plain`` in the error message."""
    if not isinstance(plain, str):
        raise ValueError(f"{where} is not text")
    if plain.isprintable():
        return plain[:most]
    return "".join(character for character in plain if character.isprintable())[:most]


def integer(plain: object, where: str, most: int = _MOST_INTEGER, *, signed: bool = False) -> int:
    """Return the integer ``plain``. Raises ValueError if ``plain`` is not an integer from 0 to ``most``, or
    from -``most`` to ``most`` if ``signed``; ``where`` names ``plain`` in the error message."""
    least = -most if signed else 0
    if not isinstance(plain, int) or isinstance(plain, bool) or not least <= plain <= most:
        raise ValueError(f"{where} is not {'an integer' if signed else 'a count'}")
    return plain


def number(plain: object, where: str) -> float:
    """Return the number ``plain`` as a float. Raises ValueError if ``plain`` is not a finite number;
    ``where`` names ``plain`` in the error message."""
    if isinstance(plain, bool) or not isinstance(plain, (int, float)):
        raise ValueError(f"{where} is not a number")
    try:
        value = float(plain)
    except OverflowError:
        raise ValueError(f"{where} is too large") from None
    if not math.isfinite(value):
        raise ValueError(f"{where} is not finite")
    return value
