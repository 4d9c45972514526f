"""Tests the lock on a recording: one recorder at a time, released when its owner ends."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stalltop.model.errors import StalltopError, UsageError
from stalltop.recordings.write.hold import FileInUseError, Hold


def test_the_file_is_private(tmp_path: Path) -> None:
    hold = Hold(tmp_path / "new" / "folder" / "a.stalltop")
    assert stat.S_IMODE(hold.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(hold.path.parent.stat().st_mode) == 0o700
    assert hold.in_place
    hold.release()
    hold.release()


def test_a_second_recorder_is_told_the_owner_and_the_lock_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "a.stalltop"
    script = (
        "import sys, pathlib; from stalltop.recordings.write.hold import Hold;"
        f"hold = Hold(pathlib.Path({str(path)!r})); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[4],
    ) as owner:
        assert owner.stdout is not None
        try:
            assert owner.stdout.readline() == "held\n"
            with pytest.raises(FileInUseError, match="another stalltop records to") as told:
                Hold(path)
            # On some file systems stalltop cannot find out which process holds the lock.
            assert "(process" not in str(told.value) or f"(process {owner.pid})" in str(told.value)
        finally:
            owner.kill()
            owner.wait()
    Hold(path).release()


def test_another_name_of_the_file_is_locked_too(tmp_path: Path) -> None:
    hold = Hold(tmp_path / "a.stalltop")
    os.link(hold.path, tmp_path / "b.stalltop")
    with pytest.raises(FileInUseError):
        Hold(tmp_path / "b.stalltop")
    hold.release()
    # A file with two names is refused: each name would have a log of its own.
    with pytest.raises(UsageError, match="another name"):
        Hold(tmp_path / "b.stalltop")
    (tmp_path / "a.stalltop").unlink()
    Hold(tmp_path / "b.stalltop").release()


def test_a_moved_or_replaced_file_is_noticed(tmp_path: Path) -> None:
    hold = Hold(tmp_path / "a.stalltop")
    os.rename(hold.path, tmp_path / "b.stalltop")
    assert not hold.in_place
    hold.path.touch()
    assert not hold.in_place
    hold.release()


def test_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    os.symlink(tmp_path / "target", tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "pipe", "folder"):
        with pytest.raises(UsageError):
            Hold(tmp_path / name)
    assert not (tmp_path / "target").exists()
    (tmp_path / "file").touch()
    with pytest.raises(StalltopError, match="cannot write"):
        Hold(tmp_path / "file" / "a.stalltop")


def test_reserved_space_is_released(tmp_path: Path) -> None:
    hold = Hold(tmp_path / "a.stalltop")
    hold.path.write_bytes(b"x" * 5_000)
    assert hold.reserve(1 << 20)
    assert hold.path.stat().st_size == 5_000
    hold.release()
    assert hold.path.stat().st_size == 5_000
    assert hold.path.stat().st_blocks * 512 <= 1 << 16
