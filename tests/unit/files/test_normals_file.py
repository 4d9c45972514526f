"""Tests the file of a host's baselines: how it is written and read, and what damage does."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stalltop.files import normals_file, private_file
from stalltop.files.normals_file import (
    NormalsDamagedError,
    normals_path,
    put_aside,
    read_normals,
    write_normals,
)

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


def test_a_second_damaged_file_replaces_the_first(tmp_path: Path) -> None:
    path = tmp_path / "normals.json"
    for content in ("one", "two"):
        path.write_text(content)
        aside = put_aside(path)
    assert aside.read_text() == "two"
    assert [file.name for file in tmp_path.iterdir()] == ["normals.json.damaged"]


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
