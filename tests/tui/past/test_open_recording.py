"""Tests the screen on a recording: keys that move in time, a file that grows, damage, and every screen
size."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.model.chain import Chain
from stalltop.model.errors import StalltopError
from stalltop.model.window import Window
from stalltop.recordings.past.in_file import DAMAGED
from stalltop.recordings.past.opened import OpenedRecording
from stalltop.recordings.read.reading import open_file
from stalltop.recordings.write import recording as recorder
from stalltop.recordings.write.thinning import Tier
from stalltop.tui.app import StalltopApp
from stalltop.tui.main_keys.playing import SPEEDS
from stalltop.tui.pages.live import LivePage
from stalltop.tui.past.when_screen import WhenScreen
from stalltop.widgets.timeline import Timeline
from tests.tui.faults import LATE, STARVED, faulty
from tests.tui.past.recorded import OPTIONS, MemoryFile, opened
from tests.tui.screen import DEADLINE, Screen, running
from tests.tui.sources import FedSource
from tests.windows.by_hand import Calls, key, window
from tests.windows.cheap import second

START = 1_700_000_000.0


@pytest.fixture(autouse=True)
def _said_until_something_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stalltop.tui.main.speech.SAID_SECONDS", 1_000.0)
    monkeypatch.setattr("stalltop.tui.main.tour.FILE_SECONDS", 1_000.0)


def calm(number: float, *, host: str = "gpu7", times: int = 1) -> Window:
    """Return a window of one second with two containers and no chains, ``number`` seconds after the start.

    Calls of the first container take ``times`` times as long as usual.
    """
    made = window(
        [
            Calls(key(host=host), [times * 10_000] * 900),
            Calls(key("cudaMalloc", tenant="cri:bb", pid=200, host=host), [50_000] * 900),
        ],
        start=START + number,
    )
    return replace(made, host=host)


def bad(number: int, chain: Chain, since: int) -> Window:
    """Return a window of one second, ``number`` seconds after the start, in which ``chain`` is open.

    The chain began ``since`` seconds after the start.
    """
    made = faulty(replace(chain, since=START + since, seen=START + number + 1))
    return replace(made, start=START + number, seconds=1.0)


def seconds(count: int) -> list[Window]:
    """Return ``count`` windows of one second.

    In the windows 20 to 29 the chain ``STARVED`` is open, in 40 to 44 the chain ``LATE``.
    """
    found = []
    for number in range(count):
        if 20 <= number < 30:
            found.append(bad(number, STARVED, since=19))
        elif 40 <= number < 45:
            found.append(bad(number, LATE, since=39))
        else:
            found.append(calm(number))
    return found


async def looks_at(screen: Screen, number: float) -> None:
    """Wait until the screen shows the window that ended ``number`` seconds after the start."""
    moments = screen.app.main.moments

    def there() -> bool:
        picture = moments.picture
        return moments.wanted is None and picture is not None and picture.at == pytest.approx(START + number)

    await screen.until(there, f"the end of second {number} was never shown")
    assert screen.app.main.shown is not None
    assert screen.app.main.shown.end == pytest.approx(START + number)


async def types(screen: Screen, text: str) -> None:
    """Open the dialogue with ``T``, type the moment ``text``, and press Enter."""
    await screen.press("T")
    await screen.until(lambda: isinstance(screen.app.screen, WhenScreen))
    await screen.press(*text, "enter")


async def test_a_recording_opens_at_its_end_and_steps_like_a_live_screen() -> None:
    async with opened(MemoryFile.of(seconds(100))) as screen:
        await looks_at(screen, 100)
        await screen.sees("a recording of 1m40s: [ ] step")
        assert "RECORDED 20" in screen.header()
        assert "FROZEN" not in screen.text()
        await screen.press("right_square_bracket")
        await screen.sees("this is the end of the recording")
        await screen.press("L")
        await screen.sees("timeline: too short to be shortened")
        assert "-2m" in screen.line(38)
        await screen.press("left_square_bracket", "left_square_bracket")
        await looks_at(screen, 98)
        await screen.sees(" -2s")
        await screen.press("left_curly_bracket")
        await looks_at(screen, 38)
        await screen.press("plus")
        await screen.until(lambda: screen.app.main.shown is not None and screen.app.main.shown.seconds == 10)
        await screen.press("space")
        await looks_at(screen, 100)
        await screen.press("right_square_bracket")
        await screen.sees("this is the end of the recording")


async def test_a_recording_opens_at_the_moment_asked_for() -> None:
    async with opened(MemoryFile.of(seconds(60)), options=replace(OPTIONS, at=START + 25.4)) as screen:
        await looks_at(screen, 25)
        await screen.sees("summary of loader_disk")


async def test_keys_jump_between_chains() -> None:
    async with opened(MemoryFile.of(seconds(100))) as screen:
        await looks_at(screen, 100)
        await screen.press("left_parenthesis")
        await screen.sees("a problem begins here: critical")
        await looks_at(screen, 41)
        await screen.sees("summary of nccl_straggler")
        await screen.press("left_parenthesis")
        await looks_at(screen, 21)
        await screen.sees("summary of loader_disk")
        await screen.press("left_parenthesis")
        await screen.sees("no problem begins before this moment")
        await screen.press("right_parenthesis")
        await looks_at(screen, 41)
        await screen.press("right_parenthesis")
        await screen.sees("no problem begins after this moment")


async def test_a_moment_can_be_typed() -> None:
    async with opened(MemoryFile.of(seconds(100)), size=(80, 24)) as screen:
        await types(screen, "-30s")
        await looks_at(screen, 70)
        await types(screen, "+10s")
        await looks_at(screen, 80)
        await types(screen, "start")
        await looks_at(screen, 1)
        await types(screen, "soon")
        await screen.sees("'soon' is not a moment")
        await screen.press("backspace")
        await screen.until(lambda: "is not a moment" not in screen.text())
        await screen.press("escape")
        await screen.until(lambda: screen.app.screen is screen.app.main)
        await looks_at(screen, 1)
        await types(screen, "")
        await screen.until(lambda: screen.app.screen is screen.app.main)
        await types(screen, "end")
        await looks_at(screen, 100)
        await types(screen, "-9d")
        await screen.sees("is before what is kept")


async def test_playing_gets_faster_with_each_key_and_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stalltop.tui.main_keys.playing.FRAME_SECONDS", 0.1)
    # The recording is so long that the test sees the fastest speed before the end, even on a slow machine.
    windows = [replace(calm(60.0 * number), seconds=60.0) for number in range(2_000)]
    async with opened(MemoryFile.of(windows)) as screen:
        main = screen.app.main
        await screen.press("P")
        await screen.sees("go back in time, then play")
        await types(screen, "start")
        await looks_at(screen, 60)
        for speed in SPEEDS[:3]:
            await screen.press("P")
            await screen.sees(f"PLAY {speed:g}x 20")
        await screen.until(lambda: (main.moments.at or 0) > START + 60, "it never moves")
        await screen.press("space")
        await screen.sees("RECORDED")
        at = main.moments.at
        assert at is not None
        assert not main.moments.playing
        await screen.pilot.pause(0.2)
        assert main.moments.at == at
        await screen.press("P", "P", "P", "P")
        await screen.sees("PLAY 600x")
        await types(screen, "-10m")
        await looks_at(screen, 120_000)
        await screen.until(lambda: not main.moments.playing and not main.moments.frozen)
        await screen.sees("the end of the recording")


async def test_playing_goes_on_after_a_jump_and_skips_gaps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stalltop.tui.main_keys.playing.FRAME_SECONDS", 0.1)
    windows = [*seconds(30), *(calm(number) for number in range(7_200, 8_000))]
    async with opened(MemoryFile.of(windows)) as screen:
        main = screen.app.main
        await types(screen, "start")
        await looks_at(screen, 1)
        await types(screen, "+28s")
        await screen.press("P")
        await screen.until(lambda: (main.moments.at or 0) > START + 7_200, "it never skips the gap")
        await screen.press("left_parenthesis")
        await screen.until(lambda: (main.moments.at or START + 9e9) < START + 30)
        assert main.moments.playing
        await screen.until(lambda: (main.moments.at or 0) > START + 22)
        await screen.press("space", "space")
        await looks_at(screen, 8_000)


async def test_a_recording_that_grows_is_followed() -> None:
    file = MemoryFile.of(seconds(50))
    async with opened(file) as screen:
        await looks_at(screen, 50)
        file.add(calm(50))
        await looks_at(screen, 51)
        await screen.sees("RECORDING 20")
        await screen.press("left_square_bracket")
        await looks_at(screen, 50)
        file.add(calm(51))
        await screen.sees(" -2s")
        await looks_at(screen, 50)
        await screen.press("space")
        await looks_at(screen, 52)


async def test_changes_since_a_mark_are_shown() -> None:
    windows = [calm(0), *(calm(number, times=5) for number in range(1, 4))]
    async with opened(MemoryFile.of(windows), size=(120, 24)) as screen:
        await types(screen, "start")
        await looks_at(screen, 1)
        await screen.press("m", "space", "x")
        await screen.sees("changes since")
        await screen.sees("+36.0ms")


async def test_pages_show_the_moment_and_the_time_before_it() -> None:
    async with opened(MemoryFile.of(seconds(300)), size=(120, 50)) as screen:
        await screen.press("left_curly_bracket")
        await looks_at(screen, 240)
        await screen.press("I")
        await screen.sees("Over time")
        await screen.sees("Space newest")
        await screen.press("left_parenthesis")
        await looks_at(screen, 41)
        await screen.press("P")
        await screen.until(lambda: (screen.app.main.moments.at or 0) > START + 41, "it does not play")
        await screen.press("space", "T")
        await screen.until(lambda: isinstance(screen.app.screen, WhenScreen))
        await screen.press(*"end", "enter")
        await looks_at(screen, 300)
        await screen.press("space")
        await screen.sees("the end of the recording")
        page = screen.app.screen
        assert isinstance(page, LivePage)
        page.say("")
        await screen.sees("y copy  w save  Esc closes")
        await screen.press("escape")
        await screen.until(lambda: screen.app.screen is screen.app.main)


async def test_the_timeline_covers_a_week_or_less_and_takes_clicks() -> None:
    hours = [replace(calm(3_600.0 * number), seconds=3_600.0) for number in range(168)]
    async with opened(MemoryFile.of(hours)) as screen:
        line = screen.app.main.query_one(Timeline)
        assert line.display
        await screen.until(lambda: "-7d" in screen.line(38) and " end" in screen.line(38))
        await types(screen, "-4d")
        await looks_at(screen, 3_600.0 * 72)
        await screen.press("L")
        await screen.sees("timeline: 3d")
        await screen.until(lambda: "-7d" not in screen.line(38) and "◆" in screen.line(38))
        for _ in range(20):
            await screen.press("L")
            if screen.app.main.moments.span is None:
                break
        await screen.until(lambda: "-7d" in screen.line(38))
        await screen.pilot.click("#timeline", offset=(100, 0))
        await screen.until(lambda: (screen.app.main.moments.at or 0) > START + 3_600 * 140)
        await screen.pilot.mouse_down("#timeline", offset=(100, 0))
        await screen.pilot.hover("#timeline", offset=(60, 0))
        await screen.until(lambda: (screen.app.main.moments.at or START + 9e9) < START + 3_600 * 100)
        await screen.pilot.hover("#timeline", offset=(2, 0))
        await screen.pilot.mouse_up("#timeline", offset=(2, 0))
        await looks_at(screen, 3_600)
        await screen.pilot.hover("#timeline", offset=(60, 0))
        await looks_at(screen, 3_600)


async def test_several_hosts_are_shown_together_or_as_separate_rows() -> None:
    windows = [calm(number, host=host) for number in range(20) for host in ("gpu7", "gpu8")]
    async with opened(MemoryFile.of(windows)) as screen:
        await screen.sees("gpu7, gpu8")
        await screen.press("h")
        await screen.named(["gpu7", "gpu8"])
        await screen.press("left_square_bracket")
        await looks_at(screen, 19)
        await screen.named(["gpu7", "gpu8"])


async def test_damage_is_a_gap_and_a_warning() -> None:
    file = MemoryFile.of(seconds(100))
    file.damaged = {50}
    async with opened(file, size=(120, 40)) as screen:
        await types(screen, "-50s")
        await looks_at(screen, 50)
        await screen.sees(DAMAGED)
        await screen.press("left_square_bracket")
        await looks_at(screen, 49)
        await screen.until(lambda: DAMAGED not in screen.text())
        assert any(note.startswith("damaged: a window from") for note in screen.app.main.drawing.notes)
        await screen.press("a")
        await screen.sees("damaged: a window from")


async def test_a_slow_disk_delays_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    file = MemoryFile.of(seconds(200))
    async with opened(file) as screen:
        await looks_at(screen, 200)
        await screen.until(lambda: len(screen.app.main.past) > 100)
        free = threading.Event()
        read = file.window
        monkeypatch.setattr(file, "window", lambda number: (free.wait(DEADLINE), read(number))[1])
        await types(screen, "start")
        await screen.sees("…")
        await screen.press("o")
        await screen.sees("operations ")
        await screen.press("right_square_bracket")
        free.set()
        await looks_at(screen, 2)


async def test_time_keys_work_on_a_live_screen_too() -> None:
    windows = seconds(60)
    async with running(*windows, size=(120, 40), options=replace(OPTIONS, interval=0.0)) as screen:
        await screen.press("left_parenthesis")
        await looks_at(screen, 41)
        await types(screen, "-50s")
        await looks_at(screen, 10)
        await screen.press("P", "P", "P")
        await screen.sees("LIVE")
        await looks_at(screen, 60)
        await screen.press("P")
        await screen.sees("this is the newest moment: go back in time, then play")


async def test_a_saved_window_has_no_time_keys() -> None:
    options = replace(OPTIONS, interval=0.0, still=True)
    async with running(calm(0), size=(120, 24), options=options) as screen:
        for name in ("left_parenthesis", "right_parenthesis", "T", "P", "L"):
            await screen.press(name)
            await screen.sees("a saved window is one moment")
            screen.app.main.speech.say("")


@pytest.mark.parametrize("size", [(40, 8), (60, 15), (80, 24), (200, 60)])
async def test_a_recording_fits_every_size_in_ascii(size: tuple[int, int]) -> None:
    async with opened(MemoryFile.of(seconds(60)), size=size, options=replace(OPTIONS, ascii=True)) as screen:
        await screen.press("left_parenthesis", "T", "x", "enter")
        await screen.until(lambda: isinstance(screen.app.screen, WhenScreen))
        for _ in range(2):
            assert screen.text().isascii()
            assert {len(line) for line in screen.text().splitlines()} == {size[0]}
            await screen.press("escape")
            await looks_at(screen, 41)


async def test_a_file_that_a_recorder_writes_is_followed(tmp_path: Path) -> None:
    tiers = (Tier(0, 40.0), Tier(10, 100.0), Tier(60, float("inf")))
    recording = recorder.Recording(tmp_path / "live.stalltop", tiers=tiers)
    try:
        for number in range(30):
            recording.add(second(number, 5))
        app = StalltopApp(OpenedRecording(open_file(tmp_path / "live.stalltop")), OPTIONS)
        async with app.run_test(size=(120, 40)) as pilot:
            screen = Screen(app, pilot, FedSource())
            await looks_at(screen, 30)
            recording.add(second(30, 5))
            await looks_at(screen, 31)
            await screen.sees("RECORDING 20")
            await types(screen, "-21s")
            await looks_at(screen, 10)
            # While the screen shows a window, the recorder adds others and merges the shown window with its
            # neighbours.
            for number in range(31, 91):
                recording.add(second(number, 5))
                recording.tend()
            await screen.until(lambda: app.main.moments.age > 80)
            await screen.press("plus", "minus")
            await looks_at(screen, 10)
            await screen.until(lambda: app.main.shown is not None and app.main.shown.seconds == 10)
            await screen.press("space")
            await looks_at(screen, 91)
            app.collector.stop(DEADLINE)
    finally:
        recording.close()


async def test_a_file_that_can_no_longer_be_read_keeps_the_picture_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = MemoryFile.of(seconds(10))
    async with opened(file) as screen:

        def broken() -> bool:
            raise StalltopError("the disk does not answer")

        with monkeypatch.context() as patch:
            patch.setattr(file, "changed", broken)
            await screen.sees("new windows of the recording cannot be read: the disk does not answer")
            await screen.press("left_square_bracket")
            await looks_at(screen, 9)
            await screen.press("space")
        await screen.until(lambda: "does not answer" not in screen.text())
        file.add(calm(10))
        await looks_at(screen, 11)


async def test_the_sum_of_a_whole_recording_is_made_once_and_updated() -> None:
    file = MemoryFile.of(seconds(70))
    recording = OpenedRecording(file)
    async with opened(recording, options=replace(OPTIONS, window=None)) as screen:
        main = screen.app.main
        await screen.until(lambda: main.shown is not None and main.shown.seconds == pytest.approx(70))
        # The past of the graphs is read at the same time as the sum, and may end later.
        await screen.until(lambda: all(recording.at_hand(one) for one in range(1, 71)))
        file.reads.clear()
        file.add(calm(70))
        await screen.until(lambda: main.shown is not None and main.shown.seconds == pytest.approx(71))
        assert set(file.reads) == {71}
        await screen.press("left_square_bracket")
        await screen.until(lambda: main.shown is not None and main.shown.seconds == pytest.approx(70))
