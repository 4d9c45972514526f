"""Names of C++ functions as people write them: the mangled names of the Itanium C++ ABI, which CUDA uses too.

Names come from other people's programs. A library in C would take a crafted one for granted (libstdc++'s
``__cxa_demangle`` builds 2^n characters from n), and take the monitor with it. Here all work is bounded: by
the depth of the name, and by the characters that are put together on the way. What is not understood is shown
as it is. The wording follows libstdc++'s.

Grammar: https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from probes.mangled import (
    BINARY,
    BUILTIN,
    NUMBER,
    OPERATORS,
    QUALIFIERS,
    STANDARD,
    SUFFIXES,
    UNARY,
    NotUnderstood,
    Reader,
    Type,
    pointed,
)

_SEQUENCE: Final = re.compile(r"([0-9A-Z]*)_")
_TEMPLATE: Final = re.compile(r"T([0-9]*)_")
_CLONE: Final = re.compile(r"(?:\.[A-Za-z_][A-Za-z_0-9]*|\.\d+)+")


class _Name(NamedTuple):
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


def demangled(name: bytes) -> str:
    """``name`` as it stands in the source; as it is, where it is no mangled name or not understood."""
    text = name.decode("ascii", "replace")
    if not text.startswith("_Z"):
        return text
    try:
        return _Parser(text).whole()
    except (NotUnderstood, RecursionError):
        return text


class _Parser(Reader):
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

    def whole(self) -> str:
        found = self._encoding(top=True)
        clone = _CLONE.fullmatch(self._text, self._at)
        if clone is not None:
            parts = re.findall(r"\.[A-Za-z_]\w*(?:\.\d+)*|(?:\.\d+)+", clone[0])
            return found + "".join(f" [clone {part}]" for part in parts)
        if self._at != len(self._text):
            raise NotUnderstood
        return found

    def _kept(self, found: Type) -> Type:
        self._made(found.left + found.right)
        self._seen.append(found)
        return found

    def _encoding(self, *, top: bool = False) -> str:
        name = self._name()
        if self._at == len(self._text) or self._next() in ("E", "."):
            return name.text
        returned = self._type() if name.arguments and not name.untyped else None
        parameters = self._parameters(lambda: self._at == len(self._text) or self._next() in ("E", "."))
        text = name.text + parameters + name.qualifiers
        if returned is None or not top:
            return self._made(text)
        space = "" if returned.right else " "
        return self._made(f"{returned.left}{space}{text}{returned.right}")

    def _parameters(self, over: Callable[[], bool]) -> str:
        found = []
        while not over():
            found.append(str(self._type()))
        return self._made("(" + ", ".join(filter(None, [] if found == ["void"] else found)) + ")")

    def _name(self) -> _Name:
        if self._next() == "N":
            return self._nested()
        if self._next() == "Z":
            return self._local()
        if self._next() == "S" and self._next(2) != "St":
            found = self._substitution()
            if self._next() != "I":
                raise NotUnderstood
            return self._with_arguments(_Name(found.left))
        prefix = "std::" if self._take("St") else ""
        name = self._unqualified("")
        name = name._replace(text=self._made(prefix + name.text))
        if self._next() == "I":
            self._kept(Type(name.text))
            return self._with_arguments(name)
        return name

    def _with_arguments(self, name: _Name) -> _Name:
        self._arguments = self._template_arguments()
        space = " " if name.text.endswith("<") else ""
        text = name.text + space + self._listed(self._arguments)
        return name._replace(text=self._made(text), arguments=True)

    @staticmethod
    def _listed(arguments: list[Type]) -> str:
        return "<" + ", ".join(filter(None, map(str, arguments))) + ">"

    def _nested(self) -> _Name:
        self._need("N")
        qualifiers = ""
        while self._next() in QUALIFIERS and self._next():
            qualifiers = QUALIFIERS[self._next()] + qualifiers
            self._at += 1
        if self._take("R"):
            qualifiers += " &"
        elif self._take("O"):
            qualifiers += " &&"
        name = _Name("")
        while not self._take("E"):
            name, keep = self._prefix(name)
            if keep and self._next() != "E":
                self._kept(Type(name.text))
        return name._replace(qualifiers=qualifiers)

    def _prefix(self, name: _Name) -> tuple[_Name, bool]:
        """``name`` with one more part, and whether that becomes something to refer to."""
        letter = self._next()
        if letter == "I" and name.text:
            return self._with_arguments(name), True
        if letter == "S" and not name.text:
            found = self._substitution()
            last = found.left.rpartition("::")[2].partition("<")[0]
            return _Name(found.left, plain=last), False
        if letter == "T" and not name.text:
            return _Name(str(self._template_parameter())), True
        if letter == "M" and name.text:
            self._at += 1
            return name, False
        part = self._unqualified(name.plain)
        text = f"{name.text}::{part.text}" if name.text else part.text
        return part._replace(text=self._made(text)), True

    def _unqualified(self, of_class: str) -> _Name:
        self._take("L")
        letter, two = self._next(), self._next(2)
        name: _Name
        if letter.isdigit():
            text = self._source_name()
            name = _Name(text, plain=text)
        elif two in ("Ul", "Ut"):
            name = self._unnamed()
        elif letter in ("C", "D") and two[1:].isdigit() and of_class:
            self._at += 2
            name = _Name(of_class if letter == "C" else f"~{of_class}", plain=of_class, untyped=True)
        elif two == "cv":
            self._at += 2
            name = _Name(f"operator {self._type()}", untyped=True)
        elif two == "li":
            self._at += 2
            name = _Name(f'operator"" {self._source_name()}')
        elif two in OPERATORS:
            self._at += 2
            name = _Name(f"operator{OPERATORS[two]}")
        else:
            raise NotUnderstood
        while self._take("B"):
            name = name._replace(text=self._made(f"{name.text}[abi:{self._source_name()}]"))
        return name

    def _source_name(self) -> str:
        length = self._number()
        text = self._next(length)
        if len(text) < length or not length:
            raise NotUnderstood
        self._at += length
        return self._made("(anonymous namespace)" if text.startswith("_GLOBAL__N") else text)

    def _unnamed(self) -> _Name:
        if self._take("Ut"):
            return _Name(f"{{unnamed type#{self._discriminator()}}}")
        self._need("Ul")
        self._in_lambda += 1
        parameters = self._parameters(lambda: self._take("E"))
        self._in_lambda -= 1
        return _Name(self._made(f"{{lambda{parameters}#{self._discriminator()}}}"))

    def _discriminator(self) -> int:
        found = NUMBER.match(self._text, self._at)
        number = self._number() + 2 if found else 1
        self._need("_")
        return number

    def _local(self) -> _Name:
        self._need("Z")
        arguments = self._arguments
        function = self._encoding()
        self._need("E")
        if self._take("s"):
            return self._discriminated(_Name(f"{function}::string literal"))
        if self._next() == "d":
            raise NotUnderstood
        # A template parameter in what follows is one of the function's, unless that is a template of its own.
        name = self._name()
        if not name.arguments and not self._arguments:
            self._arguments = arguments
        return self._discriminated(name._replace(text=self._made(f"{function}::{name.text}")))

    def _discriminated(self, name: _Name) -> _Name:
        if self._take("__"):
            self._number()
            self._need("_")
        elif self._next() == "_" and self._next(2)[1:].isdigit():
            self._at += 2
        return name

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

    def _literal(self) -> str:
        self._need("L")
        if self._take("_Z"):
            found = self._encoding(top=True)
            self._need("E")
            return found
        kind = str(self._type())
        end = self._text.find("E", self._at)
        value = self._text[self._at : end]
        if end < 0 or not re.fullmatch(r"n?[0-9a-f]*", value):
            raise NotUnderstood
        self._at = end + 1
        value = value.replace("n", "-", 1)
        if kind == "bool" and value in ("0", "1"):
            return "true" if value == "1" else "false"
        if kind in SUFFIXES:
            return value + SUFFIXES[kind]
        if kind in ("float", "double", "long double"):
            return f"({kind})[{value}]"
        return f"({kind}){value}"

    def _expression(self) -> str:
        return self._made(self._deeper(lambda: Type(self._some_expression())).left)

    def _some_expression(self) -> str:
        two = self._next(2)
        if two[:1] == "L":
            return self._literal()
        if two[:1] == "T":
            return str(self._template_parameter())
        if two[:1].isdigit():
            return self._with_own_arguments(self._source_name())
        self._at += 2
        if two == "st":
            return f"sizeof ({self._type()})"
        if two == "sr":
            of = self._scope()
            return f"{of}::{self._with_own_arguments(self._unqualified('').text)}"
        if two == "cl":
            called = self._expression()
            given = self._until_end(lambda: Type(self._expression()))
            return f"{called}({', '.join(map(str, given))})"
        if two == "fp":
            return f"{{parm#{self._discriminator()}}}"
        if two == "dt":
            return f"{self._expression()}.{self._expression()}"
        if two in UNARY:
            return f"{UNARY[two]}({self._expression()})"
        if two in BINARY:
            first, second = self._expression(), self._expression()
            found = f"({first}){BINARY[two]}({second})"
            return f"({found})" if two == "gt" else found
        raise NotUnderstood

    def _scope(self) -> str:
        """What a name in an expression is a member of."""
        parts = []
        if self._take("N"):
            parts.append(str(self._type()))
        elif not self._next().isdigit():
            return str(self._type())
        while not self._take("E"):
            parts.append(self._with_own_arguments(self._source_name()))
        return self._made("::".join(parts))

    def _with_own_arguments(self, name: str) -> str:
        return name + (self._listed(self._template_arguments()) if self._next() == "I" else "")
