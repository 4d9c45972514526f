"""Reads the types in mangled names of the Itanium C++ ABI, and what in them refers back to others."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, NamedTuple

from stalltop.probes.symbols.mangled import (
    BUILTIN,
    QUALIFIERS,
    STANDARD,
    NotUnderstood,
    Reader,
    Type,
    pointed,
)

_SEQUENCE: Final = re.compile(r"([0-9A-Z]*)_")
_TEMPLATE: Final = re.compile(r"T([0-9]*)_")


class Name(NamedTuple):
    """A name, perhaps of a function."""

    text: str
    arguments: bool = False
    """It ends in template arguments: a function's return type follows."""
    plain: str = ""
    """Its last part without template arguments: what its constructors are called."""
    untyped: bool = False
    """A constructor, destructor or conversion: it has no return type."""
    qualifiers: str = ""
    """Of a member function."""


class TypeReader(Reader, ABC):
    """Types; what they are made of besides is read by who inherits this. All raise NotUnderstood."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._seen: list[Type] = []
        """What ``S_``, ``S0_`` … stand for."""
        self._arguments: list[Type] = []
        """What ``T_``, ``T0_`` … stand for."""
        self._element: int | None = None
        """Of the packs that are expanded this moment, the one that is looked at."""
        self._elements = 0
        self._in_lambda = 0

    @abstractmethod
    def _name(self) -> Name:
        """The name of a class or function."""

    @abstractmethod
    def _literal(self) -> str:
        """A value that is a template argument."""

    @abstractmethod
    def _expression(self) -> str:
        """What a template argument or an array's size is worked out from."""

    def _kept(self, found: Type) -> Type:
        self._made(found.left + found.right)
        self._seen.append(found)
        return found

    def _parameters(self, over: Callable[[], bool]) -> str:
        found = []
        while not over():
            found.append(str(self._type()))
        return self._made("(" + ", ".join(filter(None, [] if found == ["void"] else found)) + ")")

    @staticmethod
    def _listed(arguments: list[Type]) -> str:
        return "<" + ", ".join(filter(None, map(str, arguments))) + ">"

    def _source_name(self) -> str:
        length = self._number()
        text = self._next(length)
        if len(text) < length or not length:
            raise NotUnderstood
        self._at += length
        return self._made("(anonymous namespace)" if text.startswith("_GLOBAL__N") else text)

    def _substitution(self) -> Type:
        standard = STANDARD.get(self._next(2))
        if standard is not None:
            self._at += 2
            return Type(standard)
        self._need("S")
        found = _SEQUENCE.match(self._text, self._at)
        if found is None or len(found[1]) > 4:
            raise NotUnderstood
        self._at = found.end()
        number = int(found[1], 36) + 1 if found[1] else 0
        if number >= len(self._seen):
            raise NotUnderstood
        kept = self._seen[number]
        self._made(kept.left + kept.right)
        return kept

    def _template_arguments(self) -> list[Type]:
        self._need("I")
        outer = self._arguments
        found = self._until_end(self._template_argument)
        self._arguments = outer
        return found

    def _template_argument(self) -> Type:
        if self._take("J"):
            return Type("", pack=tuple(self._until_end(self._template_argument)))
        if self._take("X"):
            found = Type(self._expression())
            self._need("E")
            return found
        if self._next() == "L":
            return Type(self._literal())
        return self._type()

    def _template_parameter(self) -> Type:
        found = _TEMPLATE.match(self._text, self._at)
        if found is None or len(found[1]) > 4:
            raise NotUnderstood
        self._at = found.end()
        number = int(found[1]) + 1 if found[1] else 0
        if self._in_lambda:
            return Type(f"auto:{number + 1}")
        if number >= len(self._arguments):
            raise NotUnderstood
        argument = self._arguments[number]
        if argument.pack is not None and self._element is not None:
            self._elements = len(argument.pack)
            return argument.pack[self._element] if self._element < len(argument.pack) else Type("")
        self._made(str(argument))
        return argument

    def _expanded(self) -> Type:
        """A pattern, once for each element of the packs in it."""
        outer, start, seen = (self._element, self._elements), self._at, len(self._seen)
        self._element, self._elements = 0, 0
        found = [self._type()]
        end, kept = self._at, self._seen[:]
        for element in range(1, self._elements):
            self._element, self._at = element, start
            del self._seen[seen:]
            found.append(self._type())
        found = found[: self._elements]
        self._at, self._seen = end, kept
        self._element, self._elements = outer
        return Type("", pack=tuple(found))

    def _type(self) -> Type:
        return self._deeper(self._some_type)

    def _some_type(self) -> Type:
        letter, two = self._next(), self._next(2)
        if letter in BUILTIN or two in BUILTIN:
            known = letter if letter in BUILTIN else two
            self._at += len(known)
            return Type(BUILTIN[known])
        if letter in QUALIFIERS and letter:
            return self._qualified()
        if letter in ("P", "R", "O"):
            self._at += 1
            return self._kept(pointed(self._type(), {"P": "*", "R": "&", "O": "&&"}[letter]))
        if letter == "F" or two in ("Do", "DO", "Dx"):
            return self._kept(self._function())
        if letter == "A":
            return self._kept(self._array())
        if letter == "M":
            return self._kept(self._member())
        if letter == "T" and two[1:] not in ("s", "u", "e"):
            return self._parameter_type()
        if letter == "S" and two != "St":
            return self._substituted()
        if two == "DF":
            return self._float()
        if two == "Dp":
            self._at += 2
            return self._expanded()
        if two in ("Dt", "DT"):
            self._at += 2
            found = f"decltype ({self._expression()})"
            self._need("E")
            return self._kept(Type(found))
        if two == "Dv":
            return self._vector()
        if letter == "u":
            self._at += 1
            return self._kept(Type(self._source_name()))
        if letter == "U" and two not in ("Ul", "Ut"):
            self._at += 1
            qualifier = self._source_name()
            found_type = self._type()
            return self._kept(found_type._replace(left=f"{found_type.left} {qualifier}"))
        if letter == "T":
            self._at += 2
        return self._class()

    def _class(self) -> Type:
        arguments = self._arguments
        name = self._name()
        self._arguments = arguments
        return self._kept(Type(name.text))

    def _qualified(self) -> Type:
        qualifiers = ""
        while self._next() in QUALIFIERS and self._next():
            qualifiers = QUALIFIERS[self._next()] + qualifiers
            self._at += 1
        if self._next() == "F" or self._next(2) in ("Do", "DO", "Dx"):
            found = self._function()
            return self._kept(found._replace(right=found.right + qualifiers))
        found = self._type()
        if found.pack is not None:
            raise NotUnderstood
        return self._kept(found._replace(left=found.left + qualifiers))

    def _parameter_type(self) -> Type:
        found = self._kept(self._template_parameter())
        if self._next() == "I":
            arguments = self._template_arguments()
            return self._kept(Type(self._made(f"{found}{self._listed(arguments)}")))
        return found

    def _substituted(self) -> Type:
        standard = self._next(2) in STANDARD
        found = self._substitution()
        if standard and self._next() == "B":
            raise NotUnderstood
        if self._next() == "I":
            arguments = self._template_arguments()
            return self._kept(Type(self._made(f"{found}{self._listed(arguments)}")))
        return found

    def _function(self) -> Type:
        if self._take("DO"):
            raise NotUnderstood
        noexcept = " noexcept" if self._take("Do") else ""
        self._take("Dx")
        self._need("F")
        self._take("Y")
        returned = self._type()
        reference = ""

        def over() -> bool:
            nonlocal reference
            if self._next(2) in ("RE", "OE"):
                reference = " &" if self._take("R") else " &&"
                self._take("O")
            return self._take("E")

        parameters = self._parameters(over)
        right = parameters + reference + noexcept + returned.right
        return Type(f"{returned.left} " if not returned.right else returned.left, right, open=True)

    def _array(self) -> Type:
        self._need("A")
        size = ""
        if self._next() != "_":
            size = str(self._number()) if self._next().isdigit() else self._expression()
        self._need("_")
        of = self._type()
        inner = of.right.removeprefix(" ") if of.open else of.right
        return Type(of.left, f" [{size}]{inner}", open=True)

    def _member(self) -> Type:
        self._need("M")
        of, found = str(self._type()), self._type()
        if found.open and found.right.startswith("("):
            return Type(f"{found.left}({of}::*", f"){found.right}")
        return Type(f"{found.left} {of}::*", found.right)

    def _float(self) -> Type:
        self._need("DF")
        bits = self._number()
        if self._take("b"):
            return Type("std::bfloat16_t" if bits == 16 else f"std::bfloat{bits}_t")
        suffix = "x" if self._take("x") else ""
        if not suffix:
            self._need("_")
        return Type(f"_Float{bits}{suffix}")

    def _vector(self) -> Type:
        self._need("Dv")
        if self._next() == "_":
            raise NotUnderstood
        size = self._number()
        self._need("_")
        return self._kept(Type(f"{self._type()} __vector({size})"))
