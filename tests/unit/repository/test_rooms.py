"""Tests that imports are acyclic and that classes of the screen stay small."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = sorted(file.parent for file in ROOT.glob("[a-z]*/__init__.py"))
OF_THE_PROGRAM = [folder for folder in FOLDERS if folder.name not in ("bench", "scripts", "tests")]
MOST_METHODS = 25


@cache
def modules() -> dict[str, ast.Module]:
    """Returns every module of the program by its name."""
    found = {}
    for folder in OF_THE_PROGRAM:
        for path in folder.rglob("*.py"):
            name = ".".join(("stalltop", *path.relative_to(ROOT).with_suffix("").parts))
            found[name.removesuffix(".__init__")] = ast.parse(path.read_text(encoding="utf-8"))
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
    for folder in (*OF_THE_PROGRAM, *(ROOT / name for name in ("bench", "scripts", "tests"))):
        for path in folder.rglob("*.py"):
            for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(one, ast.ClassDef):
                    named[one.name].append(str(path.relative_to(ROOT)))
    assert {one: found for one, found in named.items() if len(found) > 1} == {}
