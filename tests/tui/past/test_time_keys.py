"""Tests the keys that move in time and that mark and compare moments, and the timeline."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from stalltop.model.merge.packing import Packed
from stalltop.model.window import Window
from stalltop.recordings.past.kept import window_at
from stalltop.tui.screens.run_options import RunOptions
from stalltop.widgets.timeline import Timeline
from tests.tui.faults import LATE, STARVED, faulty
from tests.tui.screen import DEADLINE, Screen, running
from tests.tui.sources import numbered
from tests.windows.by_hand import Calls, key, window

ONE_SECOND = RunOptions(interval=0.0, window=1.0, theme="dark")


def quick(number: int, *, times: int = 1) -> Window:
    """Return a window of one second with two containers, ``number`` seconds after the start.

    Calls of the first container take ``times`` times as long as usual.
    """
    return window(
        [
            Calls(key(), [times * 10_000] * 900),
            Calls(key("cudaMalloc", tenant="cri:bb", pid=200), [50_000] * 900),
        ],
        start=1_000.0 + number,
    )


async def looks_at(screen: Screen, number: int) -> None:
    """Wait until the screen shows the end of window ``number`` (the first is 0) and no other picture is being
    made."""
    moments = screen.app.main.moments
    end = numbered(number).end

    def there() -> bool:
        return moments.wanted is None and moments.picture is not None and moments.picture.at == end

    await screen.until(there, f"the end of window {number} was never shown")
    assert screen.app.main.shown is not None
    assert screen.app.main.shown.end == pytest.approx(end)


async def looks_at_end(screen: Screen, one: Window) -> None:
    moments = screen.app.main.moments
    await screen.until(lambda: moments.wanted is None and moments.at == pytest.approx(one.end))


async def test_keys_step_back_and_forward_while_counting_continues() -> None:
    async with running(*(numbered(i) for i in range(12)), options=ONE_SECOND) as screen:
        await screen.press("left_square_bracket")
        await screen.sees("FROZEN")
        await looks_at(screen, 10)
        await screen.sees("-1s")
        await screen.press("left_square_bracket", "left_square_bracket")
        await looks_at(screen, 8)
        await screen.feed(numbered(12))
        await screen.sees("-4s")
        await looks_at(screen, 8)
        await screen.press("right_square_bracket")
        await looks_at(screen, 9)
        await screen.press("right_square_bracket", "right_square_bracket", "right_square_bracket")
        await looks_at(screen, 12)
        await screen.sees("FROZEN")
        await screen.press("right_square_bracket")
        await screen.sees("LIVE")
        await screen.press("right_square_bracket")
        await screen.sees("this is the newest moment")


async def test_space_returns_from_the_past() -> None:
    async with running(*(numbered(i) for i in range(3)), options=ONE_SECOND) as screen:
        await screen.press("left_square_bracket", "left_square_bracket", "left_square_bracket")
        await screen.sees("nothing older is kept")
        await looks_at(screen, 0)
        await screen.press("space")
        await screen.sees("LIVE")
        await looks_at(screen, 2)


async def test_keys_move_by_minutes() -> None:
    async with running(*(numbered(i) for i in range(150)), options=ONE_SECOND) as screen:
        await screen.press("left_curly_bracket")
        await looks_at(screen, 89)
        await screen.press("left_curly_bracket", "left_curly_bracket")
        await looks_at(screen, 0)
        await screen.press("right_curly_bracket")
        await looks_at(screen, 60)
        await screen.press("right_curly_bracket", "right_curly_bracket")
        await screen.sees("LIVE")


async def test_a_held_key_makes_only_the_last_picture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[float] = []
    free = threading.Event()

    def slow(
        parts: Sequence[Packed], at: float, length: float | None, stale: Callable[[], bool]
    ) -> Window | None:
        made.append(at)
        assert free.wait(DEADLINE)
        return window_at(parts, at, length, stale)

    monkeypatch.setattr("stalltop.recordings.past.kept.window_at", slow)
    async with running(*(numbered(i) for i in range(60))) as screen:
        main = screen.app.main
        for _ in range(50):
            main.time.step(-1)
        assert main.moments.at == numbered(9).end
        await screen.sees("-50s…")
        free.set()
        await looks_at(screen, 9)
        assert len(made) <= 2
        assert made[-1] == numbered(9).end
        assert main.shown is not None
        assert main.shown.seconds == pytest.approx(10)


async def test_a_past_moment_has_its_own_chains_and_takes_other_lengths() -> None:
    windows = [faulty(STARVED, number=0), faulty(STARVED, number=1), faulty(LATE, number=2)]
    async with running(*windows, size=(100, 24), options=ONE_SECOND) as screen:
        await screen.sees("summary of nccl_straggler")
        await screen.press("left_square_bracket")
        await screen.sees("summary of loader_disk")
        await screen.until(lambda: "summary of nccl_straggler" not in screen.text())
        await screen.press("plus")
        await screen.until(lambda: screen.app.main.shown is not None and screen.app.main.shown.seconds == 2)
        await screen.sees("last 2s of 10s")
        screen.app.main.speech.say("")
        await screen.sees("summary of loader_disk")


async def test_a_key_shows_changes_since_the_mark() -> None:
    async with running(quick(0), size=(120, 24), options=ONE_SECOND) as screen:
        await screen.press("x")
        await screen.sees("nothing is marked")
        await screen.press("m")
        await screen.sees("marked ")
        await screen.feed(quick(1, times=5))
        await screen.press("x")
        await screen.sees("changes since")
        await screen.sees("P99 WAS")
        await screen.named(["train", "serve"])
        # 900 calls a second, each 40 us longer than at the mark, are 36 ms per second.
        await screen.sees("+36.0ms")
        await screen.until(
            lambda: any("train" in line and " 5.00 " in line for line in screen.text().splitlines())
        )
        await screen.feed(quick(2, times=9))
        await screen.sees("+72.0ms")
        await screen.press("escape")
        await screen.until(lambda: "changes since" not in screen.text())
        assert "TOTAL" in screen.text()
        await screen.press("x")
        await screen.sees("changes since")
        await screen.press("x")
        await screen.until(lambda: "changes since" not in screen.text())


def turning(number: int) -> Window:
    """Return a window of one second with 90 operations.

    The order of the operations by duration is reversed from each window to the next.
    """
    lengths = range(1, 91) if number % 2 else range(90, 0, -1)
    calls = [Calls(key(f"operation{at:02}"), [100_000 * length] * 3) for at, length in enumerate(lengths)]
    return window(calls, start=1_000.0 + number)


async def test_a_table_whose_cursor_was_not_moved_stays_at_its_top() -> None:
    async with running(*(turning(i) for i in range(2)), size=(120, 42), options=ONE_SECOND) as screen:
        main, second = screen.app.main.tables.main, screen.app.main.tables.second
        await screen.press("enter")
        await screen.sees("containers › train")
        await screen.press("escape")
        await screen.until(lambda: "containers › train" not in screen.text() and main.has_focus)
        await screen.feed(turning(2))
        await screen.until(lambda: second.cursor_key == ("operation00", "runtime"))
        assert second.chosen_key is None
        assert main.chosen_key == ("docker:aa",), "Esc goes back to the row that Enter went into"


async def test_a_table_without_focus_moves_to_the_largest_change() -> None:
    async with running(turning(0), size=(120, 42), options=ONE_SECOND) as screen:
        second = screen.app.main.tables.second
        await screen.press("m", "tab", "end")
        await screen.until(lambda: second.chosen_key is not None)
        await screen.press("tab", "x")
        await screen.sees("changes since")
        await screen.until(lambda: second.cursor_key == second.data.key(0))
        await screen.press("tab", "end", "x")
        await screen.until(lambda: screen.app.main.moments.against is None)
        assert second.chosen_key is not None, "the focused table keeps its row"


async def test_new_and_gone_rows_are_labelled_and_tables_stay_usable() -> None:
    other = replace(
        quick(1),
        rows=window([Calls(key("cudaFree"), [9_000] * 30)]).rows,
    )
    async with running(quick(0), size=(120, 24), options=ONE_SECOND) as screen:
        await screen.press("m", "x", "o")
        await screen.feed(other)
        await screen.until(lambda: set(screen.names()) == {"cudaFree", "cudaLaunchKernel", "cudaMalloc"})

        def labels() -> tuple[int, int]:
            text = "\n".join(line for line in screen.text().splitlines() if "cuda" in line)
            return text.count(" gone "), text.count(" new ")

        await screen.until(lambda: labels() == (2, 1))
        # In a comparison, the keys that sort do not change the order that rows have without the comparison.
        before = screen.app.main.tables.views.order
        await screen.press("s", "s", "r", "S")
        assert screen.app.main.tables.views.order == before
        await screen.press("c", "enter", "escape")
        await screen.until(lambda: "changes since" not in screen.text())


async def test_a_moment_of_the_past_is_compared_with_the_mark() -> None:
    windows = [quick(0), quick(1, times=5), quick(2, times=9)]
    async with running(*windows, size=(120, 24), options=ONE_SECOND) as screen:
        await screen.press("left_square_bracket", "left_square_bracket")
        await looks_at_end(screen, windows[0])
        await screen.press("m", "space", "x")
        await screen.sees("+72.0ms")
        await screen.press("left_square_bracket")
        await screen.sees("+36.0ms")
        await screen.press("m")
        await screen.until(lambda: "+36.0ms" not in screen.text())


async def test_the_timeline_appears_with_a_past_moment_and_moves_nothing() -> None:
    async with running(*(numbered(i) for i in range(5)), size=(80, 24), options=ONE_SECOND) as screen:
        line = screen.app.main.query_one(Timeline)
        assert not line.display
        before = screen.text().splitlines()[3:16]  # below the header, which tells the moment
        await screen.press("left_square_bracket")
        await screen.until(lambda: line.display)
        await looks_at(screen, 3)
        await screen.until(lambda: "◆" in screen.text())
        assert "-5m" in screen.line(22)
        assert screen.text().splitlines()[3:16] == before
        await screen.press("space")
        await screen.until(lambda: not line.display)


async def test_a_large_screen_always_has_the_timeline() -> None:
    async with running(
        *(faulty(replace(STARVED, seen=1_001.0 + i), number=i) for i in range(5)), size=(200, 60)
    ) as screen:
        assert screen.app.main.query_one(Timeline).display
        assert "now" in screen.line(58)
        assert "◆" not in screen.text()
        assert "lost 412ms/s" in screen.line(58)


async def test_a_click_on_the_timeline_goes_to_that_moment() -> None:
    async with running(*(numbered(i) for i in range(200)), size=(120, 40), options=ONE_SECOND) as screen:
        await screen.press("space")
        line = screen.app.main.query_one(Timeline)
        await screen.until(lambda: line.size.width == 120)
        await screen.pilot.click("#timeline", offset=(110, 0))
        await screen.until(lambda: screen.app.main.moments.age > 1)
        await screen.pilot.click("#timeline", offset=(30, 0))
        await looks_at(screen, 0)


async def test_a_saved_window_has_no_time_keys() -> None:
    options = RunOptions(interval=0.0, theme="dark", still=True)
    async with running(numbered(0), size=(120, 24), options=options) as screen:
        for name in ("left_square_bracket", "right_square_bracket", "left_curly_bracket", "m", "x"):
            await screen.press(name)
            await screen.sees("a saved window is one moment")
            screen.app.main.speech.say("")
        assert not screen.app.main.query_one(Timeline).display


async def test_a_past_picture_that_cannot_be_made_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> Window:
        raise MemoryError("no room")

    monkeypatch.setattr("stalltop.recordings.past.kept.window_at", broken)
    async with running(*(numbered(i) for i in range(3)), options=ONE_SECOND) as screen:
        await screen.press("left_square_bracket")
        await screen.sees("cannot show that moment")
        await screen.press("space")
        await screen.sees("LIVE")


@pytest.mark.parametrize("size", [(40, 8), (60, 15), (80, 24), (200, 60)])
async def test_the_past_fits_every_size_in_ascii(size: tuple[int, int]) -> None:
    options = RunOptions(interval=0.0, ascii=True, theme="dark", window=1.0)
    windows = [faulty(STARVED, LATE, number=i) for i in range(4)]
    async with running(*windows, size=size, options=options) as screen:
        await screen.press("left_square_bracket", "m", "left_square_bracket", "x")
        await looks_at_end(screen, windows[1])
        assert screen.text().isascii()
        assert {len(line) for line in screen.text().splitlines()} == {size[0]}
