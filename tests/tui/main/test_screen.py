"""Tests the main screen by its keys, on windows that a test feeds."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest
from rich.style import Style
from textual.events import MouseScrollDown, MouseScrollUp
from textual.geometry import Region
from textual.widgets import Input

from stalltop.model.devices.device import Devices
from stalltop.model.errors import TracingError
from stalltop.model.source import Source
from stalltop.model.window import Missing
from stalltop.tui.app import StalltopApp, finish
from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.settings.palettes import THEME_NAMES
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import palette
from stalltop.widgets.table import Table
from tests.tui.screen import DEADLINE, running
from tests.tui.sources import FedSource, MadeSource, many, numbered
from tests.windows.by_hand import window
from tests.windows.full import full_window


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (120, 40), (200, 60)])
async def test_every_size_shows_the_essential_columns(size: tuple[int, int]) -> None:
    async with running(numbered(0), numbered(1), size=size) as screen:
        text = screen.text()
        lines = text.splitlines()
        assert len(lines) == size[1]
        assert "gpu7" in screen.header()
        assert "LIVE" in screen.header()
        assert "last 2s of 10s" in screen.header()
        for word in ("CPU", "GPU0", "CONTAINER", "train", "serve", "P99", "LOST/S", "q Quit"):
            assert word in text
        assert "CPU taken by another tenant" in text or "serve loses time" in text
        assert "ncclCommInitRank open for 42.0s" in text or size[1] < 40
        assert ("OPERATION" in text) == (size[1] >= 24)
        assert all(column in text for column in ("SPLIT", "OPEN", "ERR")) == (size[0] >= 80)
        assert all(column in text for column in ("P95", "SHARE")) == (size[0] >= 120)


async def test_a_terminal_that_is_too_small_says_so_and_recovers() -> None:
    async with running(numbered(0), size=(30, 5)) as screen:
        await screen.sees("too small")
        await screen.pilot.resize_terminal(80, 24)
        await screen.sees("train")
        await screen.until(lambda: "too small" not in screen.text())
        await screen.pilot.resize_terminal(120, 45)
        await screen.sees("OPERATION")
        await screen.press("slash")
        await screen.pilot.resize_terminal(100, 30)
        await screen.sees("Enter keeps")
        await screen.until(lambda: "q Quit" not in screen.text())


async def test_keys_pivot_the_table_and_lead_into_rows_and_out() -> None:
    async with running(numbered(0), size=(80, 24)) as screen:
        await screen.named(["serve", "train"])
        await screen.press("o")
        await screen.until(lambda: "cudaStreamSynchronize" in screen.names())
        await screen.press("p")
        await screen.named(["tritonserver 200", "python3 100"])
        await screen.press("l")
        await screen.until(lambda: set(screen.names()) == {"runtime", "nccl", "(driver)"})
        await screen.press("n")
        await screen.until(lambda: "llm-0" in screen.names())
        await screen.press("c", "down", "enter")
        await screen.sees("containers › train › operations")
        await screen.until(lambda: "cudaMemcpyAsync HtoD" in screen.names())
        await screen.press("enter")
        await screen.sees("› processes")
        await screen.press("enter")
        await screen.sees("Row  python3 100")  # a row of the deepest level: Enter opens its page
        await screen.press("escape", "escape", "escape")
        await screen.named(["serve", "train"])
        table = screen.app.main.query_one("#main", Table)
        await screen.until(lambda: table.cursor_key == ("docker:aa",))
        await screen.press("escape")
        await screen.named(["serve", "train"])


async def test_keys_and_clicks_sort_rows() -> None:
    async with running(many(5), size=(120, 24)) as screen:
        await screen.press("o")
        names = [f"operation{number:03}" for number in range(5)]
        await screen.named(names[::-1])
        await screen.press("r")
        await screen.named(names)
        await screen.sees("▲TOTAL")
        await screen.press("S")
        await screen.sees("▼MAX")
        await screen.press("s", "s", "s")
        await screen.named(names[::-1])
        await screen.sees("operations   worst first")
        await screen.press("r")
        await screen.sees("operations   worst last")
        await screen.press("s")
        await screen.named(names)
        await screen.sees("OPERATION▲")
        head = next(line for line in screen.text().splitlines() if "P99" in line)
        await screen.pilot.click("#main", offset=(head.index("P99"), 1))
        await screen.pilot.pause()
        await screen.sees("▼P99")


async def test_tab_moves_between_two_tables_and_esc_restores_both() -> None:
    async with running(numbered(0), size=(120, 42)) as screen:
        await screen.press("space", "tab")
        main, second = (screen.app.main.query_one(f"#{name}", Table) for name in ("main", "second"))
        cursor = palette(screen.app).cursor.bgcolor

        def marked(table: Table) -> bool:
            styles = (segment.style for segment in table.render_line(2))
            return any(style is not None and style.bgcolor == cursor for style in styles)

        # Only the focused table marks a row. The screen is frozen, so only the move of the focus can repaint
        # the tables.
        await screen.until(lambda: marked(second) and not marked(main))
        await screen.press("r")
        await screen.until(lambda: screen.app.main.query_one("#second").has_focus)
        assert "▼TOTAL" in screen.text()
        assert "operations   worst last" in screen.text()
        await screen.press("end", "enter")
        await screen.sees("operations › ncclCommInitRank › containers")
        await screen.until(lambda: screen.app.main.query_one("#main").has_focus)
        await screen.press("s", "escape")
        # Esc restores both tables, the chosen row, the order of rows, and the focus.
        await screen.until(lambda: screen.app.main.query_one("#second").has_focus)
        await screen.until(lambda: second.cursor_key == ("ncclCommInitRank", "nccl"))
        lines = [line for line in screen.text().splitlines() if "TOTAL" in line]
        assert "CONTAINER" in lines[0]
        assert "▼TOTAL" in lines[0]
        assert "OPERATION" in lines[1]
        assert "operations   worst last" in screen.text()
        await screen.press("e")
        await screen.until(lambda: "load" not in screen.text())
        await screen.press("e")
        await screen.sees("load")


async def test_an_open_call_stands_out_under_the_cursor() -> None:
    async with running(numbered(0), size=(80, 24)) as screen:
        await screen.named(["serve", "train"])
        table, paint = screen.app.main.query_one("#main", Table), palette(screen.app)

        def hung() -> Style | None:
            return next(part.style for part in table.render_line(2) if "42.0s" in part.text)

        await screen.until(lambda: (style := hung()) is not None and style.color == paint.bad.color)
        assert (style := hung()) is not None
        assert style.bgcolor == paint.cursor.bgcolor


async def test_a_filter_applies_while_it_is_typed() -> None:
    async with running(numbered(0), size=(80, 24)) as screen:
        await screen.press("slash", "s", "e", "r")
        await screen.named(["serve"])
        # While the user types a filter, keys are text, not commands.
        await screen.press("q")
        await screen.named([])
        await screen.sees("Nothing here matches")
        await screen.press("backspace", "enter")
        await screen.named(["serve"])
        await screen.until(lambda: screen.app.main.query_one("#main").has_focus)
        await screen.press("down", "escape")
        await screen.until(lambda: len(screen.names()) == 2)
        await screen.press("slash", "slash", "left_parenthesis", "slash")
        await screen.sees("not a valid regular expression")
        await screen.press("escape")
        await screen.until(lambda: not screen.app.main.query_one("#filter", Input).display)
        await screen.until(lambda: len(screen.names()) == 2)


async def test_a_saved_window_has_one_length_and_is_not_saved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    options = RunOptions(interval=0.0, theme="dark", still=True)
    async with running(numbered(0), size=(120, 24), options=options) as screen:
        await screen.press("plus")
        await screen.sees("one length")
        monkeypatch.setattr("stalltop.tui.main.speech.SAID_SECONDS", 0.2)
        await screen.press("plus")
        await screen.until(lambda: "one length" not in screen.text())
        await screen.sees("serve loses time")
        await screen.press("w")
        await screen.sees("saved already")


async def test_a_running_demo_is_labelled_demo() -> None:
    options = RunOptions(interval=0.0, theme="dark", demo=True)
    async with running(numbered(0), size=(120, 24), options=options) as screen:
        assert "LIVE DEMO" in screen.header()
        await screen.press("space")
        await screen.sees("FROZEN")
        assert "DEMO" in screen.header()


async def test_narrow_lines_keep_the_host_and_the_reason() -> None:
    files = Missing("/var/lib/containers/storage/overlay/0123456789abcdef/merged/opt/app/infer", "no symbols")
    one = replace(numbered(0), host="gpu-node-17.example", open_calls=(), chains=(), loss={"no_entry": 9})
    one = replace(one, devices=Devices())
    one = replace(one, coverage=replace(one.coverage, missing=(files,)))
    options = RunOptions(interval=0.0, theme="dark", window=300.0)
    for size in ((60, 15), (80, 24)):
        async with running(one, size=size, options=options) as screen:
            await screen.press("space")
            await screen.sees("FROZEN")
            assert "gpu-node" in screen.header()
            alert = next(line for line in screen.text().splitlines() if "not traced: /var" in line)
            assert "infer: no symbols" in alert
            # Calls that were open when tracing began cause no warning; only the page of warnings lists them.
            assert "returns without an entry" not in screen.text()
            await screen.press("a", "end", "enter", "end")
            await screen.sees("returns without an entry")
            assert "histogram slots" not in screen.text()  # the page does not list reasons whose count is 0
            await screen.press("escape")
    async with running(replace(one, loss={"no_slot": 1234}), size=(60, 15), options=options) as screen:
        await screen.press("space")
        await screen.sees("FROZEN")
        assert "missed 1.23k" in screen.header()


async def test_help_and_warnings_have_pages() -> None:
    lossy = replace(full_window(), loss={"no_slot": 5})
    async with running(lossy, size=(100, 30)) as screen:
        await screen.sees("missed 5")
        await screen.press("question_mark")
        await screen.sees("Legend")
        await screen.press("end")
        await screen.sees("finds any action by a word")
        await screen.press("q")
        await screen.sees("CONTAINER")
        await screen.press("a", "end", "enter")
        await screen.sees("no histogram slot left for their process")
        await screen.sees("ncclCommInitRank open for 42.0s in serve: tritonserver 200")
        await screen.sees("train: python3 103: thread ended inside cuCtxSynchronize after 12.5s (thread 104)")
        await screen.feed(replace(numbered(1), loss={"no_slot": 7}))
        await screen.press("escape")
        await screen.sees("missed 12")


async def test_the_first_line_agrees_with_the_page_about_losses() -> None:
    options = RunOptions(interval=0.0, theme="dark")
    async with running(replace(numbered(0), loss={"clamped": 31}), size=(120, 40), options=options) as screen:
        await screen.until(lambda: "partial 31" in screen.header(), "the line says that nothing is missing")
        assert "missed" not in screen.header()
        await screen.press("a", "end", "enter", "end")
        await screen.sees("Missed in this window: 0")
        await screen.sees("Partial in this window")
    async with running(replace(numbered(0), loss={"no_entry": 3}), size=(120, 40), options=options) as screen:
        await screen.until(lambda: "missed 0" in screen.header())  # not missed: usual at the start


async def test_clicks_run_keys_and_the_mouse_moves_the_cursor() -> None:
    async with running(many(60), size=(120, 24)) as screen:
        await screen.pilot.click("#keys", offset=(screen.line(23).index("Group by"), 0))
        await screen.press("o")
        screen.app.main.speech.hush()
        await screen.until(lambda: "Freeze" in screen.line(23))
        await screen.pilot.click("#keys", offset=(screen.line(23).index("Freeze"), 0))
        await screen.sees("FROZEN")
        table = screen.app.main.query_one("#main", Table)
        await screen.pilot._post_mouse_events([MouseScrollDown], "#main", offset=(5, 5))
        await screen.until(lambda: table.cursor_key == ("operation056", "runtime"))
        await screen.pilot._post_mouse_events([MouseScrollUp], "#main", offset=(5, 5))
        await screen.until(lambda: table.cursor_key == ("operation059", "runtime"))
        await screen.pilot.click("#main", offset=(5, 4))
        await screen.until(lambda: table.cursor_key == ("operation057", "runtime"))
        await screen.pilot.click("#main", offset=(5, 4))
        await screen.sees("operations › operation057 › containers")


async def test_the_theme_key_cycles_and_keeps_the_rows() -> None:
    async with running(numbered(0), size=(80, 24)) as screen:
        before = screen.names()
        seen = []
        for _ in THEME_NAMES:
            await screen.press("t")
            seen.append(screen.app.theme)
        assert sorted(seen) == sorted(THEME_NAMES)
        await screen.named(before)


async def test_no_color_draws_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running(numbered(0), size=(80, 24)) as screen:
        assert screen.app.theme == "mono"
        await screen.press("down")
        for widget in screen.app.main.query(Lines):
            for strip in widget.render_lines(Region(0, 0, *widget.size)):
                for segment in strip:
                    style = segment.style
                    assert style is None or all(
                        colour is None or colour.is_default for colour in (style.color, style.bgcolor)
                    )
        await screen.press("t")
        assert screen.app.theme == "mono"
        await screen.sees("NO_COLOR is set")


async def test_the_ascii_option_draws_ascii_only() -> None:
    async with running(
        numbered(0), size=(120, 40), options=RunOptions(interval=0.0, ascii=True, theme="dark")
    ) as screen:
        assert screen.text().isascii()
        await screen.press("down", "enter")
        assert screen.text().isascii()
        await screen.press("question_mark")
        assert screen.text().isascii()


async def test_missing_data_is_reported_and_keys_still_act(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(numbered(0), size=(120, 24)) as screen:
        newest = screen.app.main.moments.newest
        assert newest is not None
        screen.app.main.moments.newest = replace(newest, at=time.monotonic() - 100)
        await screen.sees("NO DATA 10")
        await screen.press("o")
        await screen.until(lambda: "cudaStreamSynchronize" in screen.names())
        await screen.press("plus")
        await screen.sees("of 60s")


async def test_the_screen_before_the_first_window_and_without_rows() -> None:
    async with running(size=(80, 24)) as screen:
        await screen.sees("STARTING")
        await screen.sees("starting")
        await screen.feed(window())
        await screen.sees("No process here uses CUDA")
        await screen.sees("demo")
        await screen.sees("GPU none found")


async def test_simulated_data_and_missing_tracing_are_labelled() -> None:
    one = window(simulated=True)
    one = replace(one, coverage=replace(one.coverage, tracing="needs root"))
    async with running(one, size=(120, 24)) as screen:
        await screen.sees("SIMULATED")
        await screen.sees("NOT TRACING")
        await screen.sees("not tracing: needs root")


async def test_a_failing_source_ends_the_app_with_its_exit_code() -> None:
    for error, code in ((ValueError("broken"), 1), (TracingError("no eBPF", "be root"), 3)):
        source = FedSource(numbered(0))
        app = StalltopApp(source, RunOptions(interval=0.0))
        async with app.run_test(size=(80, 24)):
            source.put(error)
            end = time.monotonic() + DEADLINE
            while app.failure is None and time.monotonic() < end:
                await asyncio.sleep(0.02)
        assert app.failure is error
        assert app.return_code == code


async def test_leaving_returns_the_exit_code_and_closes_the_source() -> None:
    for key, code in (("q", 0), ("ctrl+c", 130)):
        source: Source = MadeSource(numbered)
        app = StalltopApp(source, RunOptions(interval=0.05))
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("slash" if key == "ctrl+c" else "down")
            await pilot.press(key)
            await pilot.pause()
        assert (app.return_code or 0) == code
        finish(app, 30.0)
        assert isinstance(source, MadeSource)
        assert source.closed.is_set()


async def test_a_window_that_comes_while_the_program_ends_is_not_drawn() -> None:
    async with running(numbered(0), numbered(1)) as screen:
        main = screen.app.main
        newest = main.moments.newest
        assert newest is not None
        main.speech.say("something", "good", 60.0)
        await main.query(
            "#alerts, #keys"
        ).remove()  # Textual does the same to the widgets of a closing screen, beginning with the last widget
        main.updates.take(newest)
        main.drawing.time()
        main.updates.every_second()
        main._tables_looked()
        main.speech.hush()
