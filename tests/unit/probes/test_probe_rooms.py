"""Tests that folders of the BPF sources and of the probes depend on each other in one direction only, and
that classes of the probes stay small."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BPF_FOLDERS = ("base", "calls", "waits", "cuda", "host")
"""Folders of ``bpf/`` with headers, in the order in which ``bpf/__init__.py`` lists them."""
MOST_METHODS = 25


def test_headers_include_only_what_is_listed_above_them() -> None:
    included: defaultdict[str, set[str]] = defaultdict(set)
    for number, folder in enumerate(BPF_FOLDERS):
        for header in (ROOT / "bpf" / folder).glob("*.h"):
            for name in re.findall(r'^#include "([^"]+)"', header.read_text(), re.M):
                included[folder].add(name.partition("/")[0])
        assert included[folder] <= {*BPF_FOLDERS[: number + 1]}
    assert included["cuda"] <= {"base", "calls", "cuda"}
    assert included["host"] <= {"base", "host"}


def test_folders_of_probes_import_in_one_direction() -> None:
    graph: defaultdict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "probes").glob("*/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stalltop.probes."):
                room = str(node.module).split(".")[2]
                if (ROOT / "probes" / room).is_dir() and room != path.parent.name:
                    graph[path.parent.name].add(room)
    try:
        assert [*TopologicalSorter(graph).static_order()]
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_classes_are_small() -> None:
    methods: dict[str, set[str]] = {}
    bases: dict[str, list[str]] = {}
    for path in (ROOT / "probes").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                methods[node.name] = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
                bases[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name)]

    def every(name: str) -> set[str]:
        return methods.get(name, set()).union(*chain(map(every, bases.get(name, []))))

    assert {name: len(every(name)) for name in methods if len(every(name)) > MOST_METHODS} == {}
