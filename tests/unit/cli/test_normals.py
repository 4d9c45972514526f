"""Tests when the file of a host's baselines is read and written, and the messages if that fails."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import pytest

from stalltop.cli import normals as keeping
from stalltop.cli.normals import BaselineKeeper, load
from stalltop.cli.tracing import diagnosed
from stalltop.diagnosis.diagnosed import Diagnosed
from stalltop.diagnosis.engine import Diagnosis
from stalltop.diagnosis.facts import Facts
from stalltop.diagnosis.normals import Normals
from stalltop.files import normals_file
from stalltop.files.normals_file import (
    NormalsNewerError,
    normals_path,
    read_normals,
)
from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, window


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "normals.json"
    content = json.dumps({"format": normals_file.FORMAT, "version": 2, "normals": "other"})
    path.write_text(content)
    with pytest.raises(NormalsNewerError):
        read_normals(path)
    said: list[str] = []
    normals, writable = load(path, said.append)
    assert (len(normals), writable, len(said)) == (0, False, 1)
    assert "newer" in said[0]
    assert path.read_text() == content


@pytest.mark.parametrize("normals", ["[]", '{"columns": []}', "null", '{"columns": 5, "workloads": 7}'])
def test_baselines_of_another_shape_are_put_aside_with_one_line(normals: str, tmp_path: Path) -> None:
    path = tmp_path / "normals.json"
    content = f'{{"format": "stalltop normals", "version": 1, "normals": {normals}}}'
    path.write_text(content)
    said: list[str] = []
    found, writable = load(path, said.append)
    if normals == "null":  # is treated like a missing file
        assert (len(found), writable, said) == (0, True, [])
        return
    assert (len(found), writable, len(said)) == (0, True, 1)
    assert "\n" not in said[0]
    assert not path.exists()
    assert (tmp_path / "normals.json.damaged").read_text() == content


def test_an_unreadable_file_is_reported_and_left(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    path = tmp_path / "normals.json"
    path.symlink_to(tmp_path / "target")
    said: list[str] = []
    assert not load(path, said.append)[1]
    assert len(said) == 1
    assert (tmp_path / "target").read_text() == "precious"


class SteadySource:
    """Returns equal windows, one second after the other."""

    def __init__(self) -> None:
        self.closed = 0
        self._at = 1_000.0

    def read(self) -> Window:
        self._at += 1.0
        return window([Calls(key(), [10_000] * 50)], start=self._at, split=True)

    def close(self) -> None:
        self.closed += 1


def learned() -> Normals:
    normals = Normals()
    one = SteadySource().read()
    for _ in range(100):
        normals.learn(Facts(one))
    return normals


def appears(path: Path) -> bool:
    """Waits until ``path`` exists, for at most a minute, since a slow disk needs time; returns whether
    ``path`` exists."""
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return path.exists()


def test_the_next_run_knows_what_was_learned(tmp_path: Path) -> None:
    path = tmp_path / "normals.json"
    said: list[str] = []
    normals, writable = load(path, said.append)
    assert writable
    source = SteadySource()
    kept = BaselineKeeper(Diagnosed(source, Diagnosis(normals=normals)), normals, path)
    for _ in range(100):
        kept.read()
    kept.close()
    kept.close()
    assert source.closed >= 1
    assert appears(path)
    again, _ = load(path, said.append)
    assert len(again)
    assert again.to_plain() == normals.to_plain()
    assert said == []


def test_the_file_is_written_at_intervals(tmp_path: Path) -> None:
    path = tmp_path / "normals.json"
    now = [0.0]
    normals = learned()
    kept = BaselineKeeper(
        Diagnosed(SteadySource(), Diagnosis(normals=normals)), normals, path, clock=lambda: now[0]
    )
    kept.read()
    assert not path.exists()
    now[0] += keeping.SAVE_SECONDS
    kept.read()
    assert appears(path)
    assert len(load(path, pytest.fail)[0])
    kept.close()


def test_a_hanging_disk_delays_neither_reading_nor_exit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    writes: list[Path] = []

    def hang(path: Path, _: object) -> None:
        writes.append(path)
        release.wait(100)

    monkeypatch.setattr(keeping, "write_normals", hang)
    now = [0.0]
    normals = learned()
    kept = BaselineKeeper(
        Diagnosed(SteadySource(), Diagnosis(normals=normals)), normals, tmp_path / "n", clock=lambda: now[0]
    )
    try:
        for _ in range(3):
            now[0] += keeping.SAVE_SECONDS
            kept.read()
        began = time.monotonic()
        kept.close()
        waited = time.monotonic() - began
    finally:
        release.set()
    assert len(writes) == 1, "no second write may begin while one hangs"
    assert waited < 30
    assert keeping.LEAVE_SECONDS <= 0.2


def test_without_baselines_no_file_is_written(tmp_path: Path) -> None:
    kept = BaselineKeeper(Diagnosed(SteadySource(), Diagnosis()), Normals(), tmp_path / "normals.json")
    kept.close()
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_written_unless_the_user_wants_no_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = normals_path(socket.gethostname())
    assert tmp_path in path.parents
    for keep in (False, True):
        source = diagnosed(SteadySource(), keep=keep, tell=pytest.fail)
        for _ in range(40):
            source.read()
        source.close()
        assert appears(path) if keep else not list(tmp_path.iterdir())
