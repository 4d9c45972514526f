"""Names of C++ functions as people write them: the mangled names of the Itanium C++ ABI, which CUDA uses too.

Names come from other people's programs. A library in C would take a crafted one for granted (libstdc++'s
``__cxa_demangle`` builds 2^n characters from n), and take the monitor with it. Here all work is bounded: by
the depth of the name, and by the characters that are put together on the way. What is not understood is shown
as it is. The wording follows libstdc++'s.

Grammar: https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling
"""

from __future__ import annotations

import re
from typing import Final

from stalltop.probes.symbols.mangled import (
    BINARY,
    NUMBER,
    OPERATORS,
    QUALIFIERS,
    SUFFIXES,
    UNARY,
    NotUnderstood,
    Type,
)
from stalltop.probes.symbols.mangled_types import Name, TypeReader

_CLONE: Final = re.compile(r"(?:\.[A-Za-z_][A-Za-z_0-9]*|\.\d+)+")


def demangled(name: bytes) -> str:
    """``name`` as it stands in the source; as it is, where it is no mangled name or not understood."""
    text = name.decode("ascii", "replace")
    if not text.startswith("_Z"):
        return text
    try:
        return _Parser(text).whole()
    except (NotUnderstood, RecursionError):
        return text


class _Parser(TypeReader):
    """Whole names, and the values and expressions in them."""

    def whole(self) -> str:
        found = self._encoding(top=True)
        clone = _CLONE.fullmatch(self._text, self._at)
        if clone is not None:
            parts = re.findall(r"\.[A-Za-z_]\w*(?:\.\d+)*|(?:\.\d+)+", clone[0])
            return found + "".join(f" [clone {part}]" for part in parts)
        if self._at != len(self._text):
            raise NotUnderstood
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

    def _name(self) -> Name:
        if self._next() == "N":
            return self._nested()
        if self._next() == "Z":
            return self._local()
        if self._next() == "S" and self._next(2) != "St":
            found = self._substitution()
            if self._next() != "I":
                raise NotUnderstood
            return self._with_arguments(Name(found.left))
        prefix = "std::" if self._take("St") else ""
        name = self._unqualified("")
        name = name._replace(text=self._made(prefix + name.text))
        if self._next() == "I":
            self._kept(Type(name.text))
            return self._with_arguments(name)
        return name

    def _with_arguments(self, name: Name) -> Name:
        self._arguments = self._template_arguments()
        space = " " if name.text.endswith("<") else ""
        text = name.text + space + self._listed(self._arguments)
        return name._replace(text=self._made(text), arguments=True)

    def _nested(self) -> Name:
        self._need("N")
        qualifiers = ""
        while self._next() in QUALIFIERS and self._next():
            qualifiers = QUALIFIERS[self._next()] + qualifiers
            self._at += 1
        if self._take("R"):
            qualifiers += " &"
        elif self._take("O"):
            qualifiers += " &&"
        name = Name("")
        while not self._take("E"):
            name, keep = self._prefix(name)
            if keep and self._next() != "E":
                self._kept(Type(name.text))
        return name._replace(qualifiers=qualifiers)

    def _prefix(self, name: Name) -> tuple[Name, bool]:
        """``name`` with one more part, and whether that becomes something to refer to."""
        letter = self._next()
        if letter == "I" and name.text:
            return self._with_arguments(name), True
        if letter == "S" and not name.text:
            found = self._substitution()
            last = found.left.rpartition("::")[2].partition("<")[0]
            return Name(found.left, plain=last), False
        if letter == "T" and not name.text:
            return Name(str(self._template_parameter())), True
        if letter == "M" and name.text:
            self._at += 1
            return name, False
        part = self._unqualified(name.plain)
        text = f"{name.text}::{part.text}" if name.text else part.text
        return part._replace(text=self._made(text)), True

    def _unqualified(self, of_class: str) -> Name:
        self._take("L")
        letter, two = self._next(), self._next(2)
        name: Name
        if letter.isdigit():
            text = self._source_name()
            name = Name(text, plain=text)
        elif two in ("Ul", "Ut"):
            name = self._unnamed()
        elif letter in ("C", "D") and two[1:].isdigit() and of_class:
            self._at += 2
            name = Name(of_class if letter == "C" else f"~{of_class}", plain=of_class, untyped=True)
        elif two == "cv":
            self._at += 2
            name = Name(f"operator {self._type()}", untyped=True)
        elif two == "li":
            self._at += 2
            name = Name(f'operator"" {self._source_name()}')
        elif two in OPERATORS:
            self._at += 2
            name = Name(f"operator{OPERATORS[two]}")
        else:
            raise NotUnderstood
        while self._take("B"):
            name = name._replace(text=self._made(f"{name.text}[abi:{self._source_name()}]"))
        return name

    def _unnamed(self) -> Name:
        if self._take("Ut"):
            return Name(f"{{unnamed type#{self._discriminator()}}}")
        self._need("Ul")
        self._in_lambda += 1
        parameters = self._parameters(lambda: self._take("E"))
        self._in_lambda -= 1
        return Name(self._made(f"{{lambda{parameters}#{self._discriminator()}}}"))

    def _discriminator(self) -> int:
        found = NUMBER.match(self._text, self._at)
        number = self._number() + 2 if found else 1
        self._need("_")
        return number

    def _local(self) -> Name:
        self._need("Z")
        arguments = self._arguments
        function = self._encoding()
        self._need("E")
        if self._take("s"):
            return self._discriminated(Name(f"{function}::string literal"))
        if self._next() == "d":
            raise NotUnderstood
        # A template parameter in what follows is one of the function's, unless that is a template of its own.
        name = self._name()
        if not name.arguments and not self._arguments:
            self._arguments = arguments
        return self._discriminated(name._replace(text=self._made(f"{function}::{name.text}")))

    def _discriminated(self, name: Name) -> Name:
        if self._take("__"):
            self._number()
            self._need("_")
        elif self._next() == "_" and self._next(2)[1:].isdigit():
            self._at += 2
        return name

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
