"""Tests that a file that replaces a recording is never read with the log of the replaced one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from stalltop.files.complete import FileInUseError, PathTakenError
from stalltop.files.places import free
from stalltop.recordings.read.reading import open_file
from stalltop.recordings.write.merging import merge_files
from stalltop.recordings.write.recording import Recording
from stalltop.recordings.write.saving import save
from tests.windows.by_hand import same_window
from tests.windows.cheap import START, second
from tests.windows.full import full_window

ENDINGS = ("", "-wal", "-shm")


def killed(path: Path) -> Path:
    """Returns a recording whose recorder was killed, with its newest windows in the log."""
    live = path.with_name("live.stalltop")
    recording = Recording(live)
    for number in range(5):
        recording.add(second(number, rows=3))
    for ending in ENDINGS:
        shutil.copy(f"{live}{ending}", f"{path}{ending}")
    recording.close()
    live.unlink()
    assert os.path.getsize(f"{path}-wal")
    return path


def saved_over(path: Path) -> None:
    save(full_window(), path, overwrite=True)


def merged_over(path: Path) -> None:
    one = save(full_window(), path.with_name("one.stalltop"), overwrite=True)
    merge_files([one], path, overwrite=True)


@pytest.mark.parametrize("write", [saved_over, merged_over])
@pytest.mark.parametrize("removed", [False, True])
def test_a_file_that_replaces_a_killed_recording_has_only_its_own_windows(
    write: Callable[[Path], None], removed: bool, tmp_path: Path
) -> None:
    path = killed(tmp_path / "r.stalltop")
    if removed:
        path.unlink()
    write(path)
    with open_file(path) as recorded:
        (found,) = recorded.windows()
        same_window(found, full_window())
        assert not recorded.warnings
    assert not [name for name in os.listdir(tmp_path) if name.startswith("r.stalltop-")]


def test_a_log_is_removed_only_on_request(tmp_path: Path) -> None:
    path = killed(tmp_path / "r.stalltop")
    path.unlink()
    assert free(path) == tmp_path / "r-2.stalltop"
    with pytest.raises(PathTakenError, match=r"r\.stalltop-wal exists"):
        save(full_window(), path)
    assert os.path.getsize(f"{path}-wal")
    assert not path.exists()


@pytest.mark.parametrize("write", [saved_over, merged_over])
def test_a_recording_in_use_is_not_replaced(write: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "r.stalltop"
    recording = Recording(path)
    recording.add(second(0, rows=3))
    with pytest.raises(FileInUseError, match="records to"):
        write(path)
    recording.add(second(1, rows=3))
    with open_file(path) as recorded:
        assert recorded.moments.start.tolist() == [START, START + 1]
    recording.close()
    write(path)
    with open_file(path) as recorded:
        assert len(recorded.moments) == 1


def test_a_recorder_does_not_read_the_log_of_another_file(tmp_path: Path) -> None:
    path, copy = killed(tmp_path / "r.stalltop"), tmp_path / "copy.stalltop"
    recording = Recording(copy)
    recording.add(second(7, rows=3))
    recording.close()
    os.replace(copy, path)  # a user puts another recording in its place
    recording = Recording(path)
    recording.add(second(8, rows=3))
    recording.close()
    with open_file(path) as recorded:
        for found, number in zip(recorded.windows(), (7, 8), strict=True):
            same_window(found, second(number, rows=3))
