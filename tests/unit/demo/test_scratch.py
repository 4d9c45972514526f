"""Tests that temporary folders of the demo are removed, even those of killed processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stalltop.demo.scratch import Scratch

ROOT = Path(__file__).resolve().parents[3]


def test_folders_of_killed_processes_are_removed_and_those_in_use_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = Scratch()
    (first.path / "file").touch()
    script = (
        "from stalltop.demo.scratch import Scratch; made = Scratch(); print(made.path, flush=True); input()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert other.stdout is not None
    left = Path(other.stdout.readline().strip())
    assert left.is_dir()
    second = Scratch()
    assert left.is_dir()
    other.kill()
    other.communicate()
    assert left.is_dir()
    third = Scratch()
    assert not left.exists()
    assert (first.path / "file").exists()
    for scratch in (first, second, third):
        scratch.close()
        scratch.close()
        assert not scratch.path.exists()
