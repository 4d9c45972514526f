"""Tests recording from the screen: the key that starts and ends a recording, the header, and failures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.files.places import recording_path
from stalltop.model.text.glyphs import UNICODE
from stalltop.recordings.read.reading import open_file
from stalltop.recordings.write.bounds import LEAST_BYTES, Bounds
from stalltop.recordings.write.recorded_source import RecordedSource
from stalltop.recordings.write.recorder import RecorderState
from stalltop.recordings.write.recording import Recording
from stalltop.tui.app import StalltopApp
from stalltop.tui.main.status import LATE_WINDOWS, recording_text
from stalltop.tui.screens.run_options import RunOptions
from tests.tui.screen import Screen, running
from tests.tui.sources import FedSource, numbered

PATH = Path("/x/recording.stalltop")


@asynccontextmanager
async def recordable(path: Path | None, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Screen]:
    """Run a screen that can record what its source delivers; ``path`` is the file given by the user, if
    any."""
    source = FedSource(numbered(0))
    recorded = RecordedSource(source, path, Bounds(LEAST_BYTES))
    app = StalltopApp(recorded, RunOptions(interval=0.0, theme="dark", recorded=recorded))
    app.glyphs = UNICODE
    async with app.run_test(size=size) as pilot:
        screen = Screen(app, pilot, source)
        await screen.until(lambda: app.main.moments.newest is not None, "no data")
        try:
            yield screen
        finally:
            source.release()
            recorded.finish(60.0)


def recorder_of(screen: Screen) -> RecordedSource:
    recorded = screen.app.options.recorded
    assert recorded is not None
    return recorded


async def test_the_key_begins_and_ends_a_recording_of_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "recording.stalltop"
    async with recordable(path) as screen:
        assert "REC" not in screen.header()
        await screen.press("R")
        await screen.sees(f"recording to {path}")
        await screen.sees("REC ")
        windows = [numbered(1), numbered(2)]
        for one in windows:
            await screen.feed(one)
        await screen.until(lambda: (state := recorder_of(screen).state) is not None and state.seconds == 2.0)
        await screen.sees("KiB")
        await screen.press("R")
        await screen.sees(f"recorded to {path}")
        await screen.until(lambda: "REC" not in screen.header(), "the recording goes on")
        await screen.feed(numbered(3))
        assert recorder_of(screen).finish(60.0)[0].startswith("2 s recorded; ")
    with open_file(path) as recorded:
        assert [one.start for one in recorded.between(0, 1e18)] == [one.start for one in windows]


async def test_a_second_recording_is_added_to_the_file_of_this_host() -> None:
    async with recordable(None) as screen:
        for number in (1, 2):
            await screen.press("R")
            await screen.until(lambda: recorder_of(screen).state is not None, "the recording does not begin")
            await screen.feed(numbered(number))
            await screen.press("R")
            assert recorder_of(screen).state is None
        assert len(recorder_of(screen).finish(60.0)) >= 2
    with open_file(recording_path()) as recorded:
        assert len(recorded.moments) == 2


def test_short_windows_are_merged_to_about_a_second(tmp_path: Path) -> None:
    path = tmp_path / "recording.stalltop"
    source = FedSource(*(numbered(number, 0.25) for number in range(10)))
    recorded = RecordedSource(source, path)
    recorded.begin()
    for _ in range(10):
        recorded.read()
    assert recorded.finish(60.0)[0].startswith("2.2 s recorded; ")
    with open_file(path) as found:
        assert found.moments.seconds.tolist() == [0.75, 0.75, 0.75]


async def test_a_recording_that_cannot_begin_says_why(tmp_path: Path) -> None:
    path = tmp_path / "recording.stalltop"
    other = Recording(path)
    async with recordable(path) as screen:
        await screen.press("R")
        await screen.sees("not recording: another stalltop records to")
        assert "REC" not in screen.header()
        other.close()
        await screen.press("R")
        await screen.sees("REC ")


async def test_a_recording_of_another_host_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "recording.stalltop"
    other = Recording(path)
    other.add(replace(numbered(0), host="another"))
    other.close()
    async with recordable(path) as screen:
        await screen.press("R")
        await screen.sees("not recording:")
        assert "REC" not in screen.header()
    with open_file(path) as found:
        assert len(found.moments) == 1


async def test_a_recording_that_fails_is_shown_in_the_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "recording.stalltop"
    async with recordable(path) as screen:
        await screen.press("R")
        await screen.sees("REC ")
        path.unlink()
        path.mkdir()
        await screen.feed(numbered(1))
        await screen.sees("REC FAILED")
        path.rmdir()
        await screen.feed(numbered(2))
        await screen.until(lambda: "REC FAILED" not in screen.header(), "the header still shows the failure")
        assert "REC " in screen.header()


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_header_has_room_for_the_recording(tmp_path: Path, size: tuple[int, int]) -> None:
    async with recordable(tmp_path / "recording.stalltop", size) as screen:
        before = screen.header()
        await screen.press("R")
        await screen.sees("REC ")
        line = screen.header()
        for part in ("LIVE", "gpu7"):
            assert part in line
        assert len(line) == len(before) == size[0]


async def test_a_screen_that_cannot_record_says_so() -> None:
    async with running(numbered(0)) as screen:
        await screen.press("R")
        await screen.sees("cannot record: ")


def test_the_text_of_a_recording_in_the_header_keeps_its_width() -> None:
    states = [
        RecorderState(PATH),
        RecorderState(PATH, bytes=123_456_789),
        RecorderState(PATH, bytes=5 << 30, waiting=LATE_WINDOWS + 1),
        RecorderState(PATH, failure="no space left on the device"),
    ]
    found = [recording_text(state) for state in states]
    assert [one[0] for one in found if one] == ["REC      0B", "REC  118MiB", "REC 5.00GiB", "REC FAILED "]
    assert [one[1] for one in found if one] == ["good", "good", "warn", "bad"]
    assert recording_text(None) is None
