"""Tests the dialogue that saves what the screen shows, and copying to the clipboard."""

from __future__ import annotations

import base64
import csv
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input

from stalltop.formats.html.page import html_page
from stalltop.formats.registry import SAVED
from stalltop.model.tenant import Tenant
from stalltop.recordings.read.reading import load
from stalltop.tui.saving.formats import problem
from stalltop.tui.saving.screen import SaveScreen
from stalltop.tui.screens.run_options import RunOptions
from stalltop.widgets.table import Table
from tests.tui.faults import LATE, STARVED, faulty
from tests.tui.pseudo_terminal import PseudoTerminal
from tests.tui.screen import Screen, running
from tests.tui.sources import many, numbered
from tests.windows.by_hand import Calls, key, window
from tests.windows.full import full_window
from tests.windows.hostile import NAMES, hostile_window

KINDS = [one.name for one in SAVED]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "stalltop"


async def opened(screen: Screen, *keys: str) -> None:
    """Open the dialogue with ``w`` and press ``keys`` in it."""
    await screen.press("w")
    await screen.until(lambda: isinstance(screen.app.screen, SaveScreen))
    await screen.until(lambda: "Enter saves" in screen.text(), "no dialogue")
    await screen.press(*keys)


async def typed(screen: Screen, path: str) -> None:
    """Set the path in the dialogue to ``path``."""
    screen.app.screen.query_one("#path", Input).value = path
    await screen.pilot.pause()


async def saved(screen: Screen, *keys: str) -> Path:
    """Open the dialogue and press ``keys``, which must end with Enter. Return the saved file."""
    before = len(screen.app.saving.paths)
    await opened(screen, *keys)
    await screen.until(lambda: len(screen.app.saving.paths) > before, "nothing was saved")
    await screen.sees("saved ")
    return screen.app.saving.paths[-1]


async def test_w_and_enter_save_the_window_that_is_shown(folder: Path) -> None:
    async with running(numbered(0), size=(200, 24)) as screen:
        await screen.press("w", "enter")
        await screen.sees("saved ")
        (path,) = folder.glob("*.stalltop")
        assert path.name in screen.text()
        shown = screen.app.main.shown
        assert shown is not None
        assert load(path).rows.keys == shown.rows.keys
        assert screen.app.screen is screen.app.main


async def test_keys_typed_at_once_are_handled_in_order(folder: Path) -> None:
    async with running(numbered(0), size=(120, 24)) as screen:
        await screen.pilot.press("w", "down", "4", "enter", "o")
        await screen.sees("saved ")
        assert [path.suffix for path in screen.app.saving.paths] == [".csv"]
        await screen.until(lambda: "cudaLaunchKernel" in screen.names())


async def test_an_opened_window_has_the_baselines_that_the_screen_showed(folder: Path) -> None:
    one = numbered(0)
    baselines = dict.fromkeys(one.rows.keys, (1000000, 3000000))
    async with running(replace(one, normals=baselines), size=(200, 40)) as screen:
        # The window of ten seconds has no baselines of its own.
        await screen.feed(replace(numbered(1), normals=baselines))
        await screen.sees("vs BASE")
        opened = load(await saved(screen, "enter"))
        assert opened.normals
        assert opened.normals.items() <= baselines.items()
    async with running(opened, size=(200, 40), options=RunOptions(interval=0.0, still=True)) as screen:
        await screen.sees("vs BASE")
        await screen.press("C", "end")
        screen.app.screen.query_one("#columns", Table).put_cursor("trend")
        await screen.press("up", "down")
        await screen.sees("a saved window has not")


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (120, 40), (200, 60)])
async def test_the_dialogue_names_every_format_and_the_path(size: tuple[int, int], folder: Path) -> None:
    async with running(numbered(0), size=size) as screen:
        await opened(screen)
        for one in SAVED:
            await screen.sees(f" {one.label}")
        await screen.sees("Save 1s of gpu7")
        await screen.sees(f"to {folder}"[:20])
        # The main screen stays visible around the dialogue.
        await screen.until(lambda: size[0] < 80 or "gpu7" in screen.header())
        await screen.press("escape")
        await screen.until(lambda: screen.app.screen is screen.app.main)
        assert not folder.exists()


async def test_the_mouse_chooses_a_format_and_the_dialogue_can_be_ascii(folder: Path) -> None:
    options = RunOptions(interval=0.0, theme="dark", ascii=True)
    async with running(numbered(0), size=(100, 30), options=options) as screen:
        await opened(screen)
        await screen.sees("> 1 window")
        await screen.pilot.click("#formats", offset=(6, 4))
        await screen.sees("> 4 CSV")
        await screen.until(lambda: screen.app.screen.query_one("#path", Input).value.endswith(".csv"))
        assert screen.text().isascii()
        await screen.press("shift+tab", "shift+tab", "up", "enter")
        await screen.until(lambda: bool(screen.app.saving.paths))
        assert screen.app.saving.paths[0].suffix == ".html"


@pytest.mark.parametrize("kind", KINDS)
async def test_every_format_is_saved(kind: str, folder: Path) -> None:
    at = KINDS.index(kind)
    if reason := problem(SAVED[at], still=False):
        pytest.skip(reason)
    async with running(faulty(LATE, STARVED), size=(120, 40)) as screen:
        await screen.press("o")
        path = await saved(screen, str(at + 1), "enter")
    assert path.suffix == SAVED[at].suffix
    assert path.parent == folder
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = path.read_bytes()
    if kind == "window":
        assert load(path).host == "gpu7"
    elif kind == "png":
        assert content.startswith(b"\x89PNG")
    else:
        assert "cudaLaunchKernel" in content.decode().replace("&#160;", " ")
    if kind in ("text", "html", "markdown"):
        assert "summary of nccl_straggler" in content.decode()
    assert os.listdir(folder) == [path.name]


async def test_the_window_at_the_press_of_the_key_is_saved(folder: Path) -> None:
    async with running(numbered(0), size=(120, 24)) as screen:
        shown = screen.app.main.shown
        assert shown is not None
        await opened(screen)
        await screen.feed(replace(numbered(1), rows=many(9).rows))
        await screen.press("enter")
        await screen.until(lambda: bool(screen.app.saving.paths))
        found = load(screen.app.saving.paths[0])
        assert found.rows.keys == shown.rows.keys
        assert found.end == shown.end
        await screen.until(lambda: screen.app.screen is screen.app.main)


async def test_a_table_is_saved_in_its_order_with_all_rows(folder: Path) -> None:
    async with running(many(300), size=(80, 24)) as screen:
        await screen.press("o", "r")
        path = await saved(screen, "4", "enter")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [row["operation"] for row in rows] == [f"operation{number:03}" for number in range(300)]
    assert rows[7]["max_ns"] == "8000"


async def test_a_saved_table_has_its_path_and_filter(folder: Path) -> None:
    async with running(numbered(0), size=(120, 24)) as screen:
        await screen.press("down", "enter", "slash", "c", "u", "d", "a", "enter")
        await screen.sees("filter: cuda")
        path = await saved(screen, "2", "enter")
        text = path.read_text()
        assert "containers › train › operations   filter: cuda" in text
        shown = text.partition("filter: cuda\n")[2].partition("\n\n")[0]
        assert "cudaMemcpyAsync HtoD" in shown
        assert "cuLaunchKernel" not in shown


async def test_a_table_sorted_by_change_is_saved_in_that_order(folder: Path) -> None:
    ns = {"a": 10_000, "m": 10_000, "z": 10_000}
    options = RunOptions(interval=0.0, window=1.0, sort="change")
    async with running(size=(200, 40), options=options) as screen:
        await screen.press("o")
        for number in range(8):
            after = {"a": 40_000, "m": 10_000, "z": 20_000} if number == 7 else ns
            one = window([Calls(key(name), [one] * 200) for name, one in after.items()])
            await screen.feed(replace(one, start=one.start + number * one.seconds))
        await screen.named(["a", "z", "m"])
        table = await saved(screen, "4", "enter")
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["operation"] for row in rows] == ["a", "z", "m"]
    assert [float(row["p99_against_median"]) for row in rows] == pytest.approx([4.0, 2.0, 1.0], rel=0.01)
    assert [row["processes"] for row in rows] == ["1", "1", "1"]


async def test_changes_since_the_mark_are_in_the_saved_table(folder: Path) -> None:
    async with running(many(5), size=(120, 30), options=RunOptions(interval=0.0, window=1.0)) as screen:
        await screen.press("o", "m")
        later = many(7, factor=3)
        await screen.feed(replace(later, start=later.start + later.seconds))
        await screen.press("x")
        await screen.sees("changes since")
        table = await saved(screen, "4", "enter")
        report = await saved(screen, "2", "enter")
    rows = {row["operation"]: row for row in csv.DictReader(table.read_text().splitlines())}
    # The rows have the order of the screen: new rows by total time, then the others by the time that they
    # lost.
    assert list(rows)[:3] == ["operation006", "operation005", "operation004"]
    slower, new = rows["operation004"], rows["operation006"]
    assert (slower["p50_before_ns"], slower["max_ns"]) == ("5000", "15000")
    assert float(slower["lost_ns_per_s"]) == pytest.approx(30_000)
    assert float(slower["compared_with_s"]) == pytest.approx(many(5).end)
    assert new["p50_before_ns"] == ""
    assert "changes since" in report.read_text()
    assert "+30.0µs" in report.read_text()


async def test_a_taken_file_name_is_reported_and_not_overwritten(folder: Path) -> None:
    async with running(numbered(0), size=(160, 30)) as screen:
        first = await saved(screen, "enter")
        before = first.read_bytes()
        await opened(screen)
        await screen.sees("that name is taken; the file will be ")
        await screen.press("enter")
        await screen.until(lambda: len(screen.app.saving.paths) == 2)
        second = screen.app.saving.paths[1]
    assert second.name == first.name.replace(".stalltop", "-2.stalltop")
    assert first.read_bytes() == before


async def test_the_path_can_be_typed(folder: Path, tmp_path: Path) -> None:
    async with running(numbered(0), size=(160, 30)) as screen:
        await opened(screen, "tab")
        box = screen.app.screen.query_one("#path", Input)
        assert box.has_focus
        await screen.press("q")  # in the path ``q`` is text, not the command to quit
        assert box.value.endswith("q")
        await typed(screen, str(tmp_path / "new" / "mine.csv"))
        await screen.sees("new folder: ")
        # Choosing another format changes the suffix.
        await screen.press("down", "down")
        assert box.value.endswith("mine.html")
        await typed(screen, f"{tmp_path}/")
        await screen.press("enter")
        await screen.until(lambda: bool(screen.app.saving.paths))
        path = screen.app.saving.paths[0]
    assert path.parent == tmp_path
    assert path.suffix == ".html"
    assert path.read_text().startswith("<!DOCTYPE html>")


async def test_a_path_that_cannot_be_written_is_reported(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    async with running(numbered(0), size=(160, 30)) as screen:
        await opened(screen)
        await typed(screen, str(tmp_path / "file" / "w.stalltop"))
        await screen.sees("not a folder: ")
        await screen.press("enter")
        await screen.sees("not saved")
        assert not screen.app.saving.paths
        assert (tmp_path / "file").read_text() == "in the way"


async def test_saving_and_copying_without_data_say_so() -> None:
    async with running(size=(120, 24)) as screen:
        await screen.press("w")
        await screen.sees("nothing to save yet")
        await screen.press("Y")
        await screen.sees("no row to copy")


async def test_a_window_from_a_file_is_saved_in_other_formats(folder: Path) -> None:
    options = RunOptions(interval=0.0, theme="dark", still=True)
    async with running(numbered(0), size=(120, 30), options=options) as screen:
        await opened(screen, "1", "enter")
        await screen.sees("saved already")
        await screen.press("escape")
        await screen.until(lambda: screen.app.screen is screen.app.main)
        path = await saved(screen, "enter")
    assert path.suffix == ".txt"


async def test_without_a_converter_the_png_format_says_what_to_install(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    async with running(numbered(0), size=(120, 30)) as screen:
        await opened(screen)
        await screen.sees("needs rsvg-convert")
        await screen.press("6", "enter")
        await screen.sees("librsvg2-bin")
        assert isinstance(screen.app.screen, SaveScreen)


async def test_y_copies_the_path_of_the_file_just_saved(folder: Path) -> None:
    async with running(numbered(0), size=(160, 30)) as screen:
        path = await saved(screen, "enter")
        await screen.sees("(y copies it)")
        await screen.press("y")
        await screen.sees("sent to the terminal's clipboard")
        assert screen.app.clipboard == str(path)
        # After another message ``y`` copies a fix again.
        path = await saved(screen, "enter")
        await screen.press("t", "y")
        await screen.until(lambda: screen.app.clipboard != str(path))


async def test_pages_are_saved_with_a_picture_of_their_own(folder: Path) -> None:
    async with running(faulty(LATE, STARVED), size=(120, 40)) as screen:
        await screen.press("a", "enter")
        await screen.sees("summary of nccl_straggler")
        path = await saved(screen, "5", "enter")
        assert "summary&#160;of&#160;nccl_straggler" in path.read_text()
        await screen.press("y")
        await screen.until(lambda: screen.app.clipboard == str(path))
        await screen.press("escape", "escape", "I")
        await screen.sees("Esc closes")
        path = await saved(screen, "enter")
        assert path.suffix == ".stalltop"
        await screen.press("y")
        await screen.until(lambda: screen.app.clipboard == str(path))


async def test_a_row_is_copied_with_its_heads() -> None:
    async with running(numbered(0), size=(80, 24)) as screen:
        await screen.press("o", "down", "Y")
        await screen.sees("sent to the terminal's clipboard")
        heads, fields = (line.split("\t") for line in screen.app.clipboard.splitlines())
        row = dict(zip(heads, fields, strict=True))
        # The copy includes columns out of view, and the split in words.
        assert row["OPERATION"] == screen.names()[1]
        assert {"CALL/S", "P50", "P99", "MAX", "SPLIT"} <= set(row)
        assert row["SPLIT"] == "running 100%"
        assert "" not in row


async def test_a_warning_is_copied() -> None:
    async with running(faulty(LATE, STARVED), size=(120, 30)) as screen:
        await screen.press("a", "Y")
        await screen.sees("sent to the terminal's clipboard")
        heads, fields = (line.split("\t") for line in screen.app.clipboard.splitlines())
        assert dict(zip(heads, fields, strict=True))["PROBLEM"] == "title of nccl_straggler"


def test_on_a_terminal_copies_use_osc_52_and_saved_files_are_printed_on_leaving(tmp_path: Path) -> None:
    with PseudoTerminal("-m", "tests.tui.program", "normal", XDG_STATE_HOME=str(tmp_path)) as terminal:
        terminal.sees("train")
        terminal.press("oY")
        terminal.until(lambda: b"\x1b]52;c;" in terminal.raw, "nothing was copied")
        copied = bytes(terminal.raw).partition(b"\x1b]52;c;")[2].partition(b"\x07")[0]
        assert base64.b64decode(copied).startswith(b"OPERATION\t")
        terminal.press("w\r")
        terminal.until(lambda: list((tmp_path / "stalltop").glob("*.stalltop")), "nothing was saved")
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.restored()
        after = bytes(terminal.raw).rpartition(b"\x1b[?1049l")[2].decode()
        (path,) = (tmp_path / "stalltop").glob("*.stalltop")
        assert f"stalltop: saved {path}" in after


async def test_hostile_names_are_harmless_in_every_format(folder: Path) -> None:
    one = hostile_window()
    async with running(one, size=(120, 40)) as screen:
        for number, one_format in enumerate(SAVED, start=1):
            if one_format.name != "png":
                await saved(screen, str(number), "enter")
        await screen.press("Y")
        await screen.sees("sent to the terminal's clipboard")
        assert screen.app.clipboard.replace("\n", "").replace("\t", "").isprintable()
    for path in screen.app.saving.paths[1:]:
        text = path.read_text()
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert path.suffix in (".txt", ".csv", ".md") or "<script>" not in text
        # The name of a host cannot change the folder.
        assert path.parent == folder


async def test_a_tenant_named_like_a_formula_is_no_formula_in_a_spreadsheet(folder: Path) -> None:
    tenant = Tenant("docker:aa", NAMES[2])
    one = replace(full_window(), tenants={**full_window().tenants, "docker:aa": tenant})
    assert "cmd|" in html_page(one)
    async with running(one, size=(80, 24)) as screen:
        path = await saved(screen, "4", "enter")
    assert "'=cmd|' /C calc'!A0" in path.read_text()


@pytest.mark.parametrize("keys", ["w\t\x15", "w\t\x15\x15", "w\x1b\x1bw\t\x15"])
async def test_a_path_typed_in_one_burst_is_the_path_of_the_file(
    keys: str, folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "q-w-1" / "queue.stalltop"
    named = {"\t": "tab", "\x15": "ctrl+u", "\x1b": "escape"}
    async with running(numbered(0), size=(120, 40)) as screen:
        for letter in [*keys, *str(path), "\r"]:
            key = {**named, "\r": "enter"}.get(letter, letter)
            screen.app.post_message(events.Key(key, letter))
        await screen.sees("saved ")
        assert screen.app.saving.paths == [path]
        assert not folder.exists()


async def test_a_pasted_path_follows_the_keys_before_it(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "pasted.stalltop"
    async with running(numbered(0), size=(120, 40)) as screen:
        for key in ("w", "tab", "ctrl+u"):
            screen.app.post_message(events.Key(key, None))
        screen.app.post_message(events.Paste(str(path)))
        screen.app.post_message(events.Key("enter", "\r"))
        await screen.sees("saved ")
        assert screen.app.saving.paths == [path]
