"""Tests the file of a host's baselines, and when it is written."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
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
from stalltop.files import normals_file, private_file
from stalltop.files.normals_file import (
    NormalsDamagedError,
    NormalsNewerError,
    normals_path,
    put_aside,
    read_normals,
    write_normals,
)
from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, window

ROOT = Path(__file__).resolve().parents[3]
PLAIN = {"columns": ["a"], "workloads": [["train é", 1, 2.5]]}


def test_the_file_is_read_back_and_private(tmp_path: Path) -> None:
    path = normals_path("gpu7", tmp_path / "new" / "state")
    assert read_normals(path) is None
    old = os.umask(0)
    try:
        write_normals(path, PLAIN)
        write_normals(path, PLAIN)
    finally:
        os.umask(old)
    assert read_normals(path) == PLAIN
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_hosts_that_share_a_home_have_separate_files(tmp_path: Path) -> None:
    assert normals_path("gpu7", tmp_path) != normals_path("gpu8", tmp_path)
    assert normals_path("../../etc/passwd", tmp_path).parent == tmp_path
    assert normals_path("", tmp_path).name == "normals-host.json"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b'{"format": "something else"}',
        b'{"format": "stalltop normals"}',
        b'{"format": "stalltop normals", "version": true}',
        b'{"format": "stalltop normals", "version": 0}',
    ],
)
def test_a_damaged_file_is_reported(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "normals.json"
    path.write_bytes(content)
    with pytest.raises(NormalsDamagedError):
        read_normals(path)


def test_other_kinds_of_files_and_large_ones_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NormalsDamagedError, match="regular"):
        read_normals(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    with pytest.raises(OSError, match="symbolic"):
        read_normals(tmp_path / "link")
    path = tmp_path / "normals.json"
    write_normals(path, PLAIN)
    monkeypatch.setattr(normals_file, "MOST_BYTES", 50)
    with pytest.raises(NormalsDamagedError, match="large"):
        read_normals(path)
    with pytest.raises(ValueError, match="large"):
        write_normals(path, PLAIN)


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


def test_a_second_damaged_file_replaces_the_first(tmp_path: Path) -> None:
    path = tmp_path / "normals.json"
    for content in ("one", "two"):
        path.write_text(content)
        aside = put_aside(path)
    assert aside.read_text() == "two"
    assert [file.name for file in tmp_path.iterdir()] == ["normals.json.damaged"]


def test_an_unreadable_file_is_reported_and_left(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious")
    path = tmp_path / "normals.json"
    path.symlink_to(tmp_path / "target")
    said: list[str] = []
    assert not load(path, said.append)[1]
    assert len(said) == 1
    assert (tmp_path / "target").read_text() == "precious"


WRITER = """
import sys
from pathlib import Path
from stalltop.files.normals_file import read_normals, write_normals
path, number = Path(sys.argv[1]), int(sys.argv[2])
for turn in range(40):
    write_normals(path, {"columns": [number] * 5_000, "workloads": [turn]})
    found = read_normals(path)
    assert isinstance(found, dict) and len(set(found["columns"])) == 1, found
"""


def test_concurrent_writers_leave_one_complete_file(tmp_path: Path) -> None:
    path = tmp_path / "normals.json"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(number)]) for number in range(3)
    ]
    assert [writer.wait(100) for writer in writers] == [0, 0, 0]
    found = read_normals(path)
    assert isinstance(found, dict)
    assert found["workloads"] == [39]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["normals.json", "normals.json.lock"]


def test_the_leftover_of_a_killed_writer_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "normals.json"
    (tmp_path / "normals.json.new").write_text("half a fi")
    write_normals(path, PLAIN)
    assert read_normals(path) == PLAIN
    assert not (tmp_path / "normals.json.new").exists()


def test_a_lock_that_is_never_released_ends_in_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_file, "LOCK_SECONDS", 0.05)
    path = tmp_path / "normals.json"
    with (
        private_file.locked(path.with_name("normals.json.lock")),
        pytest.raises(TimeoutError, match="another stalltop"),
    ):
        write_normals(path, PLAIN)


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
    """Waits until ``path`` exists, for at most a minute, as a slow disk needs time; returns whether it
    does."""
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


def test_with_no_state_no_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = normals_path(socket.gethostname())
    assert tmp_path in path.parents
    for keep in (False, True):
        source = diagnosed(SteadySource(), keep=keep, tell=pytest.fail)
        for _ in range(40):
            source.read()
        source.close()
        assert appears(path) if keep else not list(tmp_path.iterdir())
