"""Imports have no circles, and classes of the screen stay small."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted(file.parent for file in ROOT.glob("[a-z]*/__init__.py"))
OF_THE_PROGRAM = [folder for folder in FOLDERS if folder.name not in ("bench", "scripts", "tests")]
MOST_METHODS = 25


def modules() -> dict[str, ast.Module]:
    """Every module of the program, by its name."""
    found = {}
    for folder in OF_THE_PROGRAM:
        for path in folder.rglob("*.py"):
            name = ".".join(("stalltop", *path.relative_to(ROOT).with_suffix("").parts))
            found[name.removesuffix(".__init__")] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imported(tree: ast.Module, known: set[str]) -> set[str]:
    """The modules that one imports, for types only and in functions too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {
                name if (name := f"{node.module}.{one.name}") in known else node.module for one in node.names
            }
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    return found & known


def test_imports_have_no_circles() -> None:
    trees = modules()
    graph = {name: imported(tree, set(trees)) - {name} for name, tree in trees.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_no_class_of_the_screen_does_everything() -> None:
    large = {
        f"{name}.{one.name}"
        for name, tree in modules().items()
        if name.startswith(("stalltop.tui.", "stalltop.widgets."))
        for one in ast.walk(tree)
        if isinstance(one, ast.ClassDef)
        and sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in one.body) > MOST_METHODS
    }
    assert large == set()
