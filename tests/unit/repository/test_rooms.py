"""Tests that imports have no cycles, that folders and classes stay small, and that names of classes are
unique."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from graphlib import CycleError, TopologicalSorter

from tests.unit.repository.checkout import NOT_INSTALLED, ROOT, folders, parsed

OF_THE_PROGRAM = [ROOT / name for name in sorted(folders())]
MOST_METHODS = 25
MOST_FILES = 20
"""Maximum number of Python and C files in a folder of the program, of bench or of tests."""


@cache
def modules() -> dict[str, ast.Module]:
    """Returns every module of the program by its name."""
    found = {}
    for folder in OF_THE_PROGRAM:
        for path in folder.rglob("*.py"):
            name = ".".join(("stalltop", *path.relative_to(ROOT).with_suffix("").parts))
            found[name.removesuffix(".__init__")] = parsed(path)
    return found


def imported(tree: ast.Module, known: set[str]) -> set[str]:
    """Returns the modules that ``tree`` imports, including imports for types only and inside functions."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {
                name if (name := f"{node.module}.{one.name}") in known else node.module for one in node.names
            }
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    return found & known


def test_imports_are_acyclic() -> None:
    trees = modules()
    graph = {name: imported(tree, set(trees)) - {name} for name, tree in trees.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def room_of(name: str) -> str:
    """Returns the package in whose folder the module ``name`` lies."""
    path = ROOT.joinpath(*name.split(".")[1:])
    return name if (path / "__init__.py").exists() else name.rpartition(".")[0]


def imports_between_siblings() -> dict[str, dict[tuple[str, str], str]]:
    """Returns, by package, which of its folders import each other directly. Each pair of folders (importing,
    imported) has an example of such an import.

    Counts only modules that lie directly in the two folders. The modules of a package itself may import its
    folders, or be imported by them.
    """
    known = set(modules())
    found: defaultdict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    for name, tree in modules().items():
        parent, _, room = room_of(name).rpartition(".")
        for other in imported(tree, known):
            its_parent, _, its_room = room_of(other).rpartition(".")
            if its_parent == parent and its_room != room:
                found[parent].setdefault((room, its_room), f"{name} imports {other}")
    return found


def reachable(start: str, pairs: Iterable[tuple[str, str]]) -> set[str]:
    """Returns the folders to which the imports of ``start`` lead, directly or through other folders."""
    found: set[str] = set()
    new = {start}
    while new:
        new = {second for first, second in pairs if first in new} - found
        found |= new
    return found


def test_folders_of_a_package_do_not_import_each_other_in_a_circle() -> None:
    examples = []
    for pairs in imports_between_siblings().values():
        rooms = {room for room, _ in pairs if room in reachable(room, pairs)}
        examples += [text for pair, text in pairs.items() if set(pair) <= rooms]
    assert not examples, "\n".join(examples)


def test_folders_have_a_limited_number_of_files() -> None:
    counts = Counter(
        str(path.parent.relative_to(ROOT))
        for folder in (*OF_THE_PROGRAM, ROOT / "bench", ROOT / "tests")
        for path in folder.rglob("*.[pch]*")
        if path.suffix in (".py", ".c", ".h")
    )
    del counts["cli/commands"]  # one file for each command, which has the command's name
    assert {name for name, files in counts.items() if files > MOST_FILES} == set()


def test_no_test_module_is_imported() -> None:
    found = {
        f"{path.relative_to(ROOT)} imports {node.module}"
        for path in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and node.module
        for name in (node.module, *(f"{node.module}.{each.name}" for each in node.names))
        if re.fullmatch(r"tests\..*\btest_\w+", name)
    }
    assert found == set()


def test_classes_of_the_screen_are_small() -> None:
    large = {
        f"{name}.{one.name}"
        for name, tree in modules().items()
        if name.startswith(("stalltop.tui.", "stalltop.widgets."))
        for one in ast.walk(tree)
        if isinstance(one, ast.ClassDef)
        and sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in one.body) > MOST_METHODS
    }
    assert large == set()


def test_a_start_imports_no_page_that_a_key_opens() -> None:
    opened = {
        name for name in imported(modules()["stalltop.tui.opens"], set(modules())) if name.endswith("screen")
    }
    assert len(opened) > 6
    later = opened | {"stalltop.tui.palette", "stalltop.tui.saving.formats", "stalltop.formats.registry"}
    script = f"import stalltop.cli.commands.demo, stalltop.tui.app, sys; print(*{later} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert done.stdout == "\n", done.stdout + done.stderr


def test_the_settings_import_neither_numpy_nor_textual() -> None:
    slow = {"numpy", "rich", "textual"}
    script = f"import stalltop.tui.settings.settings, sys; print(*{slow} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert done.stdout == "\n", done.stdout + done.stderr


def test_names_of_classes_are_unique() -> None:
    named: defaultdict[str, list[str]] = defaultdict(list)
    for folder in (*OF_THE_PROGRAM, *(ROOT / name for name in NOT_INSTALLED)):
        for path in folder.rglob("*.py"):
            for one in ast.walk(parsed(path)):
                if isinstance(one, ast.ClassDef):
                    named[one.name].append(str(path.relative_to(ROOT)))
    assert {one: found for one, found in named.items() if len(found) > 1} == {}
