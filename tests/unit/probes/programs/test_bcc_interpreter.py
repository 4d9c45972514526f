"""Tests which Python interpreter runs BCC, and that an old version of Python can run it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.probes.programs import bcc_interpreter as chosen
from stalltop.probes.programs import compiler

OLDEST = (3, 8)


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    chosen.bcc_interpreter.cache_clear()
    yield
    chosen.bcc_interpreter.cache_clear()


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes two interpreters and returns a folder with packages. The interpreter ``this`` imports packages
    from that folder, the interpreter ``distribution`` does not."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for name, path in (("this", packages), ("distribution", tmp_path / "none")):
        # -S hides the packages that are installed on this machine from both interpreters.
        script = f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} -S "$@"\n'
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "this"))
    monkeypatch.setattr(chosen, "DISTRIBUTION", str(tmp_path / "distribution"))
    return packages


def bcc(packages: Path, *, real: bool, text: str = "BPF = object\n__version__ = '0.18.0'\n") -> None:
    (packages / "bcc").mkdir(parents=True)
    (packages / "bcc/__init__.py").write_text(text)
    if real:
        (packages / "bcc/libbcc.py").touch()


def test_this_interpreter_is_used_if_it_has_bcc(seen: Path) -> None:
    bcc(seen, real=True)
    assert chosen.bcc_interpreter() == sys.executable
    assert chosen.bcc_version() == "0.18.0"


@pytest.mark.parametrize("other", [False, True], ids=["nothing", "another package of that name"])
def test_the_distributions_interpreter_is_used_if_only_it_has_bcc(seen: Path, other: bool) -> None:
    if other:
        bcc(seen, real=False, text="")
    bcc(seen.parent / "none", real=True)
    assert chosen.bcc_interpreter() == chosen.DISTRIBUTION
    assert chosen.bcc_version() == "0.18.0"


def test_a_missing_bcc_is_reported_with_the_reason(seen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImportError, match="No module named 'bcc'"):
        chosen.bcc_version()
    chosen.bcc_interpreter.cache_clear()
    bcc(seen, real=False, text="")
    monkeypatch.setattr(chosen, "DISTRIBUTION", "/nonexistent")
    with pytest.raises(ImportError, match="another package named bcc"):
        chosen.bcc_version()


def test_a_missing_libbcc_is_reported(seen: Path) -> None:
    bcc(seen, real=True, text="raise OSError('libbcc.so.0: cannot open shared object file')\n")
    with pytest.raises(ImportError, match=r"libbcc\.so\.0: cannot open"):
        chosen.bcc_version()


def test_the_compiler_script_runs_on_python_3_8() -> None:
    text = Path(compiler.__file__).read_text()
    tree = ast.parse(text, feature_version=OLDEST)
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert imported <= {"base64", "bcc", "ctypes", "json", "os", "signal", "struct", "sys"}
