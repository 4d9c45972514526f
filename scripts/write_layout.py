"""Generates Python modules for the structs, enums and constants that BPF programs and Python share
(headers of ``bpf/``).

These are defined once, in C. The compiler reports their layout (DWARF) and the values of constants; comments
in the headers become docstrings. With ``--check`` nothing is written: the exit code is 1 if a file is not up
to date. Names that no Python module uses are left out. Needs gcc.
"""

from __future__ import annotations

import ast
import io
import re
import struct
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

ROOT = Path(__file__).resolve().parent.parent
BPF = ROOT / "bpf"
WRITTEN = {
    "probes/layout.py": ("base/launches.h", "base/layout.h"),
    "probes/host/layout.py": ("host/layout.h",),
    "probes/stacks/layout.py": ("stacks/layout.h",),
}
"""By generated file: the names of the headers that define its content. A header comes after the headers that
it includes."""
_NUMPY = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}
_WIDTH = 100


@dataclass(frozen=True)
class Field:
    """One member of a struct."""

    name: str
    offset: int
    size: int
    dtype: str
    """Source text that describes the field in a call of ``np.dtype``."""


@dataclass(frozen=True)
class Headers:
    """Headers of one generated module, with the compiler's information about them."""

    names: tuple[str, ...]

    @property
    def text(self) -> str:
        """Text of all headers."""
        return "\n".join((BPF / name).read_text(encoding="utf-8") for name in self.names)

    def compiled(self, *options: str, more: str = "") -> bytes:
        """Compiles the headers, followed by ``more``, with the ``options`` of gcc; returns the object
        file."""
        include = "".join(f'#include "{name}"\n' for name in self.names)
        with tempfile.NamedTemporaryFile() as made:
            paths = [f"-I{BPF / 'headers/include'}", f"-I{BPF}"]
            command = ["gcc", "-x", "c", *paths, *options, "-o", made.name, "-"]
            subprocess.run(command, input=(include + more).encode(), check=True, timeout=60)
            return Path(made.name).read_bytes()

    def constants(self) -> dict[str, int]:
        """Returns the macros of the headers that are integers, with their values."""
        defined = re.findall(r"^#define ([A-Z][A-Z0-9_]*) (.+)$", self.text, re.M)
        names = [name for name, value in defined if re.match(r"\(?[0-9]", value)]
        values = ", ".join(f"{{{name}}}" for name in names)
        content = self.compiled(
            "-c", more=f"const struct {{ unsigned long long value; }} values[] = {{{values}}};\n"
        )
        section = ELFFile(io.BytesIO(content)).get_section_by_name(".rodata")
        data = b"" if section is None else section.data()
        return dict(zip(names, struct.unpack(f"<{len(names)}Q", data), strict=True))

    def types(self) -> Iterator[DIE]:
        """Yields the structs and enums defined in the headers, in order."""
        content = self.compiled("-g", "-c", "-fno-eliminate-unused-debug-types")
        elf = ELFFile(io.BytesIO(content))
        (unit,) = elf.get_dwarf_info().iter_CUs()
        for die in unit.get_top_DIE().iter_children():
            kind = {"DW_TAG_structure_type": "struct", "DW_TAG_enumeration_type": "enum"}.get(str(die.tag))
            if kind and "DW_AT_name" in die.attributes and f"\n{kind} {_name(die)} {{" in self.text:
                yield die

    def above(self, definition: str) -> str:
        """Returns the comment above ``definition``, which begins a line; '' if there is none."""
        found = re.search(rf"^/\*((?:[^*]|\*(?!/))*)\*/\n{definition}\b", self.text, re.M)
        return re.sub(r"\s*\n \*\s*|\s+", " ", found[1]).strip() if found else ""

    def behind(self, definition: str) -> str:
        """Returns the comment at the end of the line with ``definition``; '' if there is none."""
        found = re.search(rf"\b{definition}[^\n/]*/\* (.*?) \*/", self.text)
        return found[1] if found else ""


def _name(die: DIE) -> str:
    return str(die.attributes["DW_AT_name"].value.decode())


def _attribute(die: DIE, name: str) -> int:
    return int(die.attributes[name].value)


def _type(die: DIE) -> DIE:
    found = die.get_DIE_from_attribute("DW_AT_type")
    while found.tag in ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type"):
        found = found.get_DIE_from_attribute("DW_AT_type")
    return found


def _dtype(name: str, die: DIE) -> tuple[str, int]:
    """Returns the source text that describes the field in a call of ``np.dtype``, and the field's size in
    bytes."""
    shape: list[int] = []
    if die.tag == "DW_TAG_array_type":
        shape = [
            _attribute(each, "DW_AT_upper_bound") + 1
            for each in die.iter_children()
            if each.tag == "DW_TAG_subrange_type"
        ]
        die = _type(die)
    if die.tag == "DW_TAG_structure_type":
        kind, size = _name(die).upper(), _attribute(die, "DW_AT_byte_size")
    elif die.tag == "DW_TAG_base_type" and _name(die) == "char" and len(shape) == 1:
        (size,) = shape
        return f'("{name}", "S{size}")', size
    elif die.tag == "DW_TAG_base_type":
        size = _attribute(die, "DW_AT_byte_size")
        kind = f'"{_NUMPY[size]}"'
    else:
        raise ValueError(f"{name}: no numpy type for {die.tag}")
    for count in shape:
        size *= count
    dimensions = f", {tuple(shape)}" if shape else ""
    return f'("{name}", {kind}{dimensions})', size


def _fields(die: DIE) -> Iterator[Field]:
    for member in die.iter_children():
        if member.tag == "DW_TAG_member":
            dtype, size = _dtype(_name(member), _type(member))
            yield Field(_name(member), _attribute(member, "DW_AT_data_member_location"), size, dtype)


def _struct(die: DIE, headers: Headers) -> str:
    """Returns the source text of a struct's dtype. Raises ValueError if the struct has padding, because
    structs that are keys of BPF maps must not have any."""
    end, lines = 0, []
    for field in _fields(die):
        if field.offset != end:
            raise ValueError(f"struct {_name(die)}: {field.offset - end} unused bytes before {field.name}")
        end = field.offset + field.size
        lines.append(f"        {field.dtype},\n")
    if end != _attribute(die, "DW_AT_byte_size"):
        raise ValueError(f"struct {_name(die)}: unused bytes at its end")
    name = _name(die)
    about = headers.above(f"struct {name}")
    docstring = _docstring(f"``struct {name}``: {about}" if about else f"``struct {name}``.", "")
    return f"{name.upper()}: Final = np.dtype(\n    [\n{''.join(lines)}    ]\n)\n{docstring}"


def _enum(die: DIE, headers: Headers) -> str:
    values = [
        (_name(one), _attribute(one, "DW_AT_const_value"))
        for one in die.iter_children()
        if one.tag == "DW_TAG_enumerator"
    ]
    name = _name(die)
    prefix = f"{name.upper().removesuffix('_STATE')}_"
    about = headers.above(f"enum {name}")
    lines = [f"class {_class_name(die)}(IntEnum):\n"]
    lines += [_docstring(f"``enum {name}``: {about}" if about else f"``enum {name}``.", "    "), "\n"]
    for each, value in values:
        lines.append(f"    {each.removeprefix(prefix)} = {value}\n")
        comment = headers.behind(f"{each} = ")
        lines += [_docstring(comment, "    ")] if comment else []
    return "".join(lines)


def _class_name(die: DIE) -> str:
    return "".join(part.capitalize() for part in _name(die).split("_"))


def _docstring(text: str, indent: str) -> str:
    text = text[:1].upper() + text[1:] if not text.startswith("``") else text
    text = text if text.endswith((".", ":")) else f"{text}."
    quoted = f'"""{text}"""'.replace("\\", "\\\\")
    lines = textwrap.wrap(quoted, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return "".join(f"{indent}{line}\n" for line in lines)


def _constant(name: str, value: int, headers: Headers) -> str:
    comment = headers.behind(f"define {name} ")
    return f"{name}: Final = {value}\n" + (_docstring(comment, "") if comment else "")


def used_names() -> set[str]:
    """Returns the names that the program and its tests use from modules called ``layout``."""
    names = set()
    for path in (*(ROOT / "probes").rglob("*.py"), *(ROOT / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "layout" in text else ():
            match node:
                case ast.Attribute(value=ast.Name(id="layout" | "host_layout")):
                    names.add(node.attr)
                case ast.ImportFrom(module=str(module)) if module.endswith(".layout"):
                    names |= {alias.name for alias in node.names}
    return names


def _with_parts(structs: dict[str, str], used: set[str]) -> list[str]:
    """Returns the source texts of the structs in ``used``, and of the structs that are fields of these."""
    kept: list[str] = []
    for name, text in reversed(structs.items()):
        if name in used or any(f'", {name}' in other for other in kept):
            kept.insert(0, text)
    return kept


def written(names: tuple[str, ...]) -> str:
    """Returns the source text of the Python module that defines those names of these headers that Python
    uses."""
    used = used_names()
    headers = Headers(names)
    which = " and ".join(f"``bpf/{name}``" for name in reversed(names))
    types: list[Any] = list(headers.types())
    enums = [
        _enum(die, headers)
        for die in types
        if die.tag == "DW_TAG_enumeration_type" and _class_name(die) in used
    ]
    # Structs that Python does not use are examined, too: they may be keys of maps, and must have no padding.
    structs = {
        _name(die).upper(): _struct(die, headers) for die in types if die.tag == "DW_TAG_structure_type"
    }
    twice = headers.constants().keys() & {_name(die).upper() for die in types}
    if twice:
        raise ValueError(f"constants named as structs: {', '.join(sorted(twice))}")
    constants = [
        _constant(name, value, headers) for name, value in headers.constants().items() if name in used
    ]
    imports = (["from enum import IntEnum\n"] if enums else []) + ["from typing import Final\n"]
    text = [
        f'"""Structs, enums and constants of {which}, for numpy.\n\n',
        "``scripts/write_layout.py`` writes this file: change the header, not this.\n",
        '"""\n\nfrom __future__ import annotations\n\n',
        *imports,
        "\nimport numpy as np\n\n",
        *([*constants, "\n"] if constants else []),
        "\n".join(_with_parts(structs, used)),
        *(f"\n\n{enum}" for enum in enums),
    ]
    return formatted("".join(text))


def formatted(text: str) -> str:
    """Formats ``text`` by ``ruff format``."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "format",
        "--stdin-filename",
        str(ROOT / "probes/layout.py"),
        "-",
    ]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Writes the generated files. With --check, only checks that they are up to date. Returns the exit
    code."""
    differ = [path for path, names in WRITTEN.items() if (ROOT / path).read_text() != written(names)]
    if "--check" in sys.argv[1:]:
        for path in differ:
            print(f"{path} is out of date: run python scripts/write_layout.py", file=sys.stderr)  # noqa: T201
        return 1 if differ else 0
    for path in differ:
        (ROOT / path).write_text(written(WRITTEN[path]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
