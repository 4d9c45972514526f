"""Tests recording in a thread: it never delays the reader, and windows that it cannot write are reported."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.model.errors import UsageError
from stalltop.model.window import Window
from stalltop.recordings.file import schema
from stalltop.recordings.file.trouble import WriteError
from stalltop.recordings.read.reading import open_file
from stalltop.recordings.write.bounds import LEAST_BYTES, Bounds
from stalltop.recordings.write.clock_watch import Clocks, ClockWatch
from stalltop.recordings.write.hold import FileInUseError
from stalltop.recordings.write.recorder import MOST_ASIDE, MOST_WAITING, Recorder
from stalltop.recordings.write.recording import Recording
from tests.windows.cheap import START, second
from tests.windows.recordings import changing

DEADLINE = 60.0


def until(condition: Callable[[], object], what: str = "") -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.005)


@contextmanager
def recording(
    path: Path, bounds: Bounds | None = None, **more: object
) -> Iterator[tuple[Recorder, list[str]]]:
    told: list[str] = []
    recorder = Recorder(path, bounds, tell=told.append, retry=(0.01,), **more)  # type: ignore[arg-type]
    recorder.open()
    recorder.start()
    try:
        yield recorder, told
    finally:
        assert recorder.close(DEADLINE)


def starts(path: Path) -> list[float]:
    with open_file(path) as recorded:
        return [float(start) - START for start in recorded.moments.start]


def events(path: Path) -> list[tuple[str, str]]:
    with open_file(path) as recorded:
        windows: list[Window] = recorded.between(0, 1e18)
    return [(event.kind, event.text) for window in windows for event in window.evidence.events]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "recording.stalltop"


def test_windows_are_written_including_the_last(path: Path) -> None:
    with recording(path) as (recorder, told):
        for number in range(20):
            recorder.add(second(number, rows=3))
    assert starts(path) == list(range(20))
    state = recorder.state
    assert (state.seconds, state.waiting, state.missed_seconds, state.failure) == (20.0, 0, 0.0, "")
    assert state.bytes == path.stat().st_size
    assert recorder.summary == f"20 s recorded; {path} takes {state.bytes / (1 << 20):.1f} MiB"
    assert told == []


def test_open_reports_errors_at_once(path: Path) -> None:
    path.write_bytes(b"a letter")
    with pytest.raises(UsageError):
        Recorder(path).open()
    path.unlink()
    first = Recording(path)
    with pytest.raises(FileInUseError):
        Recorder(path).open()
    first.close()


class FaultyRecording(Recording):
    """Fails or hangs on writing when the test says so, as on a full or hanging disk."""

    reason = ""
    held = threading.Event()
    held.set()

    def add(self, window: Window) -> None:
        FaultyRecording.held.wait(DEADLINE)
        if FaultyRecording.reason:
            raise WriteError(FaultyRecording.reason)
        super().add(window)


@pytest.fixture
def disk() -> Iterator[type[FaultyRecording]]:
    yield FaultyRecording
    FaultyRecording.reason = ""
    FaultyRecording.held.set()


def test_waiting_windows_are_written_when_the_disk_recovers(path: Path, disk: type[FaultyRecording]) -> None:
    with recording(path, opening=disk) as (recorder, told):
        recorder.add(second(0, rows=3))
        until(lambda: recorder.state.seconds == 1)
        disk.reason = "no space left on the device"
        for number in range(1, 10):
            recorder.add(second(number, rows=3))
        until(lambda: recorder.state.failure)
        assert recorder.state.failure == "no space left on the device"
        disk.reason = ""
        until(lambda: recorder.state.seconds == 10)
        until(lambda: not recorder.state.failure)
    assert starts(path) == list(range(10))
    assert events(path) == []
    assert told == [
        f"cannot record to {path}: no space left on the device; stalltop tries again until that works",
        f"recording to {path} continues; nothing is missing",
    ]


def test_dropped_windows_are_counted_reported_and_noted_in_the_file(
    path: Path, disk: type[FaultyRecording]
) -> None:
    with recording(path, opening=disk) as (recorder, told):
        disk.reason = "input/output error"
        for number in range(MOST_WAITING + 20):
            recorder.add(second(number, rows=2))
            until(lambda: recorder.state.failure)
        until(lambda: recorder.state.waiting <= MOST_WAITING)
        disk.reason = ""
        until(lambda: not recorder.state.failure)
        until(lambda: not recorder.state.waiting)
        missed = recorder.state.missed_seconds
    written = starts(path)
    assert written == sorted(written)
    assert written[-1] == MOST_WAITING + 19
    assert len(written) + missed == MOST_WAITING + 20
    assert missed >= 19  # 20 did not fit; 19 if the recorder had taken one from the queue
    told_of = [text.partition(" s before this could not be recorded") for _, text in events(path)]
    assert sum(float(seconds) for seconds, _, _ in told_of) == missed
    assert told[-1] == f"recording to {path} continues; windows of {missed:.0f} s in all were not written"
    assert f"{missed:.0f} s could not be written" in recorder.summary


def test_a_hanging_disk_delays_nobody(path: Path, disk: type[FaultyRecording]) -> None:
    with recording(path, opening=disk) as (recorder, _):
        disk.held.clear()
        for number in range(2 * MOST_WAITING):
            recorder.add(second(number, rows=1))
        assert MOST_WAITING - 1 <= recorder.state.waiting <= MOST_WAITING
        assert not recorder.close(0.05)
        disk.held.set()
    assert recorder.state.missed_seconds >= MOST_WAITING - 1


def test_windows_that_cannot_be_written_at_the_end_are_counted(
    path: Path, disk: type[FaultyRecording]
) -> None:
    with recording(path, opening=disk) as (recorder, _):
        disk.reason = "no space left on the device"
        for number in range(5):
            recorder.add(second(number, rows=1))
    assert recorder.state.missed_seconds == 5.0
    assert recorder.state.waiting == 0


def test_a_window_that_cannot_be_stored_is_left_out(path: Path) -> None:
    with recording(path) as (recorder, told):
        recorder.add(second(0, rows=1))
        recorder.add(replace(second(1, rows=1), tenants={"docker:aa": None}))  # type: ignore[dict-item]
        recorder.add(second(2, rows=1))
    assert starts(path) == [0.0, 2.0]
    assert recorder.state.missed_seconds == 1.0
    assert [kind for kind, _ in events(path)] == ["not_recorded"]
    assert "AttributeError" in told[0]


@pytest.mark.parametrize("way", ["moved", "removed", "replaced"])
def test_a_missing_file_is_created_anew(path: Path, way: str) -> None:
    old = path.with_name("old.stalltop")
    with recording(path) as (recorder, told):
        recorder.add(second(0, rows=1))
        until(lambda: recorder.state.seconds == 1)
        if way == "removed":
            path.unlink()
        else:
            os.rename(path, old)
        if way == "replaced":
            path.write_bytes(b"a letter")
        recorder.add(second(1, rows=1))
        until(lambda: recorder.state.seconds == 2)
    assert starts(path) == [1.0]
    if old.exists():
        assert starts(old) == [0.0]
    assert told[0] == f"{path} was moved, removed or replaced: recording goes on in a new one"
    other = path.with_name(f"{path.stem}.other.stalltop")
    assert other.exists() == (way == "replaced")
    if other.exists():
        assert other.read_bytes() == b"a letter"
        assert f"it is now {other}, and a new one is begun" in told[1]


def test_a_folder_in_place_of_the_file_is_left_alone(path: Path) -> None:
    with recording(path) as (recorder, _):
        recorder.add(second(0, rows=1))
        until(lambda: recorder.state.seconds == 1)
        path.unlink()
        path.mkdir()
        recorder.add(second(1, rows=1))
        until(lambda: "is no regular file" in recorder.state.failure)
        assert path.is_dir()
        path.rmdir()
        until(lambda: recorder.state.seconds == 2)
    assert starts(path) == [1.0]


def test_damaged_files_are_put_aside_up_to_a_limit(path: Path) -> None:
    with recording(path) as (recorder, told):
        recorder.add(second(0, rows=30))
        until(lambda: recorder.state.seconds == 1)
    for turn in range(MOST_ASIDE):
        content = bytearray(path.read_bytes())
        content[4_096:20_000] = b"\xff" * (20_000 - 4_096)
        path.write_bytes(content)
        with recording(path) as (recorder, told):
            recorder.add(second(1, rows=1))
            until(lambda: recorder.state.seconds == 1)
        assert "is damaged" in told[0]
        assert "and a new one is begun" in told[0]
        assert starts(path) == [1.0]
        aside = sorted(one.name for one in path.parent.glob("*.damaged*"))
        assert len(aside) == turn + 1, aside


OTHERS = {
    "saved": ("UPDATE about SET value = 'window' WHERE name = 'kind'", "saved or merged file"),
    "newer": (f"PRAGMA user_version = {schema.VERSION + 1}", "newer stalltop"),
    "no version": ("PRAGMA user_version = 0", "no recording of stalltop"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_files_are_left_alone(path: Path, kind: str) -> None:
    with recording(path) as (recorder, _):
        recorder.add(second(0, rows=3))
        until(lambda: recorder.state.seconds == 1)
    statement, told = OTHERS[kind]
    with changing(path) as connection:
        connection.execute(statement)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=told):
        Recorder(path).open()
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir() if one.suffix == ".stalltop"] == [path.name]


def test_clock_events_are_written_to_the_file(path: Path) -> None:
    readings = iter(
        (
            Clocks(1e9, 0.0, 0.0),
            Clocks(1e9 + 1, 1.0, 1.0),
            Clocks(1e9 + 2 - 3_600, 2.0, 2.0),
            Clocks(1e9 + 3 - 3_600 + 900, 3.0, 903.0),
        )
    )
    with recording(path, watch=ClockWatch(lambda: next(readings))) as (recorder, _):
        for number in range(3):
            recorder.add(second(number, rows=1))
    assert events(path) == [
        ("clock_step", "the host's clock was set back by 1 h 0 min"),
        ("suspended", "the host was suspended for 15 min 0 s"),
    ]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mounts a file system of 4 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("mounting a file system needs root, and a Linux kernel that permits it")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_on_a_full_disk_the_newest_windows_stay(small_disk: Path) -> None:
    path = small_disk / "recording.stalltop"
    with recording(path, Bounds(64 << 20)) as (recorder, told):
        for number in range(300):
            recorder.add(second(number, rows=150, entries=20))
            until(lambda: recorder.state.waiting < MOST_WAITING // 2)
            if number % 100 == 99:
                until(lambda: not recorder.state.waiting and not recorder.state.failure)
    assert recorder.state.missed_seconds == 0, told
    assert starts(path)[-1] == 299
    assert "little space" in told[0]
    held = recorder.state.held_seconds
    assert 10 < held < 299
    assert "and holds the newest" in recorder.summary
    with open_file(path) as recorded:
        assert len(recorded.between(0, 1e18)) == len(recorded.moments)
        assert not recorded.warnings


def test_nothing_is_dropped_while_there_is_space(small_disk: Path) -> None:
    """The recorder tries to keep some space free, but drops no window for that."""
    path = small_disk / "recording.stalltop"
    with recording(path, Bounds(1 << 30)) as (recorder, told):
        for number in range(90):
            recorder.add(second(number, rows=20))
            until(lambda: recorder.state.waiting < MOST_WAITING // 2)
        until(lambda: recorder.state.seconds == 90)
        taken = recorder.state.bytes
    assert taken < 3 << 19
    assert starts(path) == list(range(90))
    assert not told
    assert "holds" not in recorder.summary


def fill(path: Path) -> None:
    """Fills the file system with a file at ``path``."""
    with suppress(OSError), open(path, "wb", buffering=0) as file:
        while True:
            file.write(bytes(65_536))


def test_a_disk_filled_by_others_stops_recording_only_for_a_while(small_disk: Path) -> None:
    path, ballast = small_disk / "recording.stalltop", small_disk / "ballast"
    with recording(path, Bounds(LEAST_BYTES)) as (recorder, _):
        number = 0
        for _ in range(3):
            fill(ballast)
            for _ in range(30):
                recorder.add(second(number, rows=100))
                number += 1
            until(lambda: not recorder.state.waiting or recorder.state.failure)
            ballast.unlink(missing_ok=True)
            recorder.add(second(number, rows=100))
            number += 1
            until(lambda: not recorder.state.waiting and not recorder.state.failure)
    assert recorder.state.missed_seconds == 0
    assert starts(path)[-1] == number - 1
