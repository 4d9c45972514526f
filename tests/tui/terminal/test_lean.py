"""Tests that a terminal shows the same picture if stalltop shortens its output to save bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.style import Style
from textual._compositor import CompositorUpdate
from textual.screen import Screen as TextualScreen

from bench.monitor.shown import PreparedSource
from stalltop.tui.app import StalltopApp
from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.terminal.lean import Lean
from tests.tui.screen import running
from tests.tui.terminal.emulator import KEYS, Emulator

COLOURS = ("#d7dde3", "#5fb4f5", "red", "bright_blue", "color(200)", "default")
STYLES = st.builds(
    Style,
    color=st.sampled_from((None, *COLOURS)),
    bgcolor=st.sampled_from((None, *COLOURS)),
    bold=st.sampled_from((None, True)),
    italic=st.sampled_from((None, True)),
    underline=st.sampled_from((None, True)),
    reverse=st.sampled_from((None, True)),
    strike=st.sampled_from((None, True)),
)
TEXTS = st.sampled_from(("   ", "12.3ms", "12.4ms  99.9ms", " ", "━━━", "a b", "▸", "日本", "e\u0301"))
MOVES = st.builds("\x1b[{};{}H".format, st.integers(1, 3), st.integers(1, 9))
SYSTEMS = (ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT, ColorSystem.STANDARD)


WRITES = st.lists(
    st.builds(
        lambda move, parts: [move, *parts],
        MOVES,
        st.lists(st.one_of(MOVES, st.just("\n\x1b[2;2H"), st.tuples(STYLES, TEXTS)), max_size=6),
    ),
    max_size=6,
)


@given(WRITES, st.sampled_from(SYSTEMS), st.sets(st.integers(0, 5)))
def test_shortened_output_shows_the_same(
    writes: list[list[str | tuple[Style, str]]], system: ColorSystem, forgets: set[int]
) -> None:
    whole, short, lean = Emulator(), Emulator(), Lean()
    for number, parts in enumerate(writes):
        text = "".join(
            part if isinstance(part, str) else part[0].render(part[1], color_system=system) for part in parts
        )
        if number in forgets:
            lean.forget()
        less = lean.shorten(text)
        whole.feed(text)
        short.feed(less)
        assert short.shown() == whole.shown()
        if number not in forgets:
            # The place after characters of two cells is written, because terminals differ in their width.
            assert len(less) <= len(text) or "日" in text
    # Plain text written afterwards appears at the same place and in the same style in both terminals.
    whole.feed("\x1b[4;1Hafter")
    short.feed(lean.shorten("\x1b[4;1Hafter"))
    assert short.shown() == whole.shown()
    assert short.place == whole.place


@pytest.mark.parametrize(
    ("texts", "short"),
    [
        (["plain"], "plain"),
        (["\x1b[1;1Ha", "\x1b[1;1Ha"], ""),
        (["\x1b[1;1Habcdefghijkl", "\x1b[1;1Haxcdefghijkx\x1b[1;1H"], "\x1b[1;2Hx\x1b[1;12Hx\x1b[1;1H"),
        (["\x1b[1;1Habcdef", "\x1b[1;1Haxcxef"], "\x1b[1;2Hxcx"),
        (["\x1b[1;1H\x1b[31ma\x1b[0m\x1b[31mb\x1b[0m"], "\x1b[1;1H\x1b[31mab\x1b[0m"),
        (["\x1b[1;1H\x1b[31;44ma\x1b[0m\x1b[32;44mb\x1b[0m"], "\x1b[1;1H\x1b[31;44ma\x1b[32mb\x1b[0m"),
        (["\x1b[1;1H\x1b[31;44ma\x1b[0m\x1b[32;44m \x1b[0m"], "\x1b[1;1H\x1b[31;44ma \x1b[0m"),
        (["\x1b[1;1H\x1b[1;31ma\x1b[0m\x1b[31mb\x1b[0m"], "\x1b[1;1H\x1b[1;31ma\x1b[0;31mb\x1b[0m"),
        (["\x1b[1;1H\x1b[7ma\x1b[0m  b"], "\x1b[1;1H\x1b[7ma\x1b[0m  b"),
        (["\x1b[1;1Ha\n\n\x1b[2;1Hb"], "\x1b[1;1Ha\x1b[2;1Hb"),
        # An unknown sequence is passed on unchanged. After it the shown text is unknown, so nothing is left
        # out.
        (["\x1b[1;1Ha", "\x1b[2J"], "\x1b[2J"),
        (["\x1b[1;1Ha", "\x1b[2J", "\x1b[1;1Ha"], "\x1b[1;1Ha"),
        (["\x1b[1;1Ha", "\x1b[?1049h", "\x1b[1;1Ha"], "\x1b[1;1Ha"),
        (["\x1b[1;1Ha", "b\r\n", "\x1b[1;1Ha"], "\x1b[1;1Ha"),
        (["\x1b[>4;1m\x1b[?1000h\x1b[4:3mx"], "\x1b[>4;1m\x1b[?1000h\x1b[4:3mx\x1b[0m"),
        # Sequences for synchronized output and for the clipboard change no cell, so cells can be left out
        # after them.
        (["\x1b[1;1Ha", "\x1b[?2026h\x1b[1;1Hab\x1b[?2026l"], "\x1b[?2026hb\x1b[?2026l"),
        (["\x1b[1;1Ha", "\x1b]52;c;YQ==\x07", "\x1b[1;1Ha"], ""),
    ],
)
def test_only_what_changes_is_sent(texts: list[str], short: str) -> None:
    lean = Lean()
    assert [lean.shorten(text) for text in texts][-1] == short


@given(st.lists(st.text(st.sampled_from("\x1b[0123456789;:mHh?\n\r a日"), max_size=20), max_size=4))
def test_any_text_is_accepted(texts: list[str]) -> None:
    lean = Lean()
    for text in texts:
        lean.shorten(text)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_whole_program_shows_the_same(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, short, lean = Emulator(*size), Emulator(*size), Lean()
    sent = {"whole": 0, "short": 0}
    display = StalltopApp._display

    def both(app: StalltopApp, screen: TextualScreen[object], renderable: object) -> None:
        if isinstance(renderable, CompositorUpdate):
            text = renderable.render_segments(app.console) + "\x1b[1;1H"
            less = lean.shorten(text)
            whole.feed(text)
            short.feed(less)
            sent["whole"] += len(text)
            sent["short"] += len(less)
        display(app, screen, renderable)  # type: ignore[arg-type]

    monkeypatch.setattr(StalltopApp, "_display", both)
    source = PreparedSource(100, 1.0)
    options = RunOptions(interval=0.0, theme="dark", window=1.0)
    async with running(source.read(), size=size, options=options) as screen:
        for key in KEYS:
            await screen.press(key)
            await screen.feed(source.read())
            await screen.pilot.pause(0.05)
            assert short.shown() == whole.shown(), key
    assert sent["short"] < 0.4 * sent["whole"]
