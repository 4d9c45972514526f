"""What mangled names of the Itanium C++ ABI are read with: its abbreviations, and a reader that takes no more
than it should."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

MOST_CHARACTERS: Final = 1 << 18
"""Put together on the way to one name."""
_DEEPEST: Final = 96
"""Types and expressions inside each other."""


def _table(text: str) -> dict[str, str]:
    """``c char|h unsigned char`` as a table."""
    return dict(entry.split(" ", 1) for entry in text.split("|"))


BUILTIN: Final = _table(
    "v void|w wchar_t|b bool|c char|a signed char|h unsigned char|s short|t unsigned short|i int"
    "|j unsigned int|l long|m unsigned long|x long long|y unsigned long long|n __int128|o unsigned __int128"
    "|f float|d double|e long double|g __float128|z ...|Dd decimal64|De decimal128|Df decimal32|Dh half"
    "|Di char32_t|Ds char16_t|Du char8_t|Da auto|Dc decltype(auto)|Dn decltype(nullptr)"
)
"""Types."""
SUFFIXES: Final = {
    kind: suffix
    for suffix, kind in _table(
        " int|u unsigned int|l long|ul unsigned long|ll long long|ull unsigned long long"
    ).items()
}
"""Of numbers, by their type."""
STANDARD: Final = _table(
    "St std|Sa std::allocator|Sb std::basic_string|Ss std::string|Si std::istream|So std::ostream"
    "|Sd std::iostream"
)
"""Names of the standard library."""
UNARY: Final = _table("ps +|ng -|ad &|de *|co ~|nt !|pp ++|mm --")
BINARY: Final = {
    pair[:2]: pair[2:]
    for pair in [
        "pl+",
        "mi-",
        "ml*",
        "dv/",
        "rm%",
        "an&",
        "or|",
        "eo^",
        "aS=",
        "pL+=",
        "mI-=",
        "mL*=",
        "dV/=",
        "rM%=",
        "aN&=",
        "oR|=",
        "eO^=",
        "ls<<",
        "rs>>",
        "lS<<=",
        "rS>>=",
        "eq==",
        "ne!=",
        "lt<",
        "gt>",
        "le<=",
        "ge>=",
        "ss<=>",
        "aa&&",
        "oo||",
        "cm,",
        "pm->*",
        "pt->",
    ]
}
OPERATORS: Final = {
    **UNARY,
    **BINARY,
    **_table("nw  new|na  new[]|dl  delete|da  delete[]|cl ()|ix []|qu ?"),
}
"""What stands after ``operator``."""
QUALIFIERS: Final = _table("r  restrict|V  volatile|K  const")
NUMBER: Final = re.compile(r"\d+")


class NotUnderstood(Exception):
    """The name, or that much of it, is beyond what is known here."""


class Type(NamedTuple):
    """A type as what stands before and after what it is declared for: ``int (*`` and ``)[4]``."""

    left: str
    right: str = ""
    open: bool = False
    """A pointer to it needs parentheses: it is a function or an array."""
    pack: tuple[Type, ...] | None = None
    """Several types, of a parameter pack."""

    def __str__(self) -> str:
        if self.pack is not None:
            return ", ".join(filter(None, map(str, self.pack)))
        return self.left + self.right


class Reader:
    """Reads a name from its third character on, and refuses what is too much."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 2
        self._depth = 0
        self._left = MOST_CHARACTERS

    def _deeper(self, parse: Callable[[], Type]) -> Type:
        """What ``parse`` gives, one step further inside."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise NotUnderstood
        found = parse()
        self._depth -= 1
        return found

    def _next(self, length: int = 1) -> str:
        return self._text[self._at : self._at + length]

    def _take(self, wanted: str) -> bool:
        if self._text.startswith(wanted, self._at):
            self._at += len(wanted)
            return True
        return False

    def _need(self, wanted: str) -> None:
        if not self._take(wanted):
            raise NotUnderstood

    def _number(self) -> int:
        found = NUMBER.match(self._text, self._at)
        if found is None or len(found[0]) > 9:
            raise NotUnderstood
        self._at = found.end()
        return int(found[0])

    def _made(self, text: str) -> str:
        self._left -= len(text) + 1
        if self._left < 0:
            raise NotUnderstood
        return text

    def _until_end(self, parse: Callable[[], Type]) -> list[Type]:
        found = []
        while not self._take("E"):
            found.append(parse())
        return found


def pointed(of: Type, sign: str) -> Type:
    """A pointer (``sign`` is ``*``) or reference to ``of``."""
    if of.pack is not None:
        raise NotUnderstood
    if of.open:
        space = "" if of.left.endswith(" ") else " "
        return Type(f"{of.left}{space}({sign}", f"){of.right}")
    if sign != "*" and of.left.endswith("&"):
        # References to references are one, to a value only where both are.
        return of if sign == "&&" or not of.left.endswith("&&") else Type(of.left.removesuffix("&"))
    return Type(of.left + sign, of.right)
