"""Tests that no bytes from the keyboard stop the screen, and that keys pressed after such bytes act."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual import events
from textual.app import App
from textual.message import Message

from stalltop.tui.terminal import keyboard as reading
from stalltop.tui.terminal.keyboard import PASTE_SECONDS, READ_BYTES, Keyboard
from tests.tui.pseudo_terminal import ALTERNATE_OFF, ALTERNATE_ON, DEADLINE, ROOT, PseudoTerminal
from tests.tui.serve_command import command

pytestmark = pytest.mark.timeout(400)

PROGRAM = ("-m", "tests.tui.program")
F12 = b"\x1b[24~"
LEAVE = b"\x10\x11"
"""Ctrl-P and Ctrl-Q, which random input leaves out: Ctrl-Q quits, and the palette that Ctrl-P opens can
quit."""

ODD = (
    b"\xb4",  # not UTF-8
    b"\xf0\x9f\x98",  # the beginning of a character
    b"\xed\xa0\x80\xed\xbf\xbf",  # surrogates
    b"\xf5\xff\xfe\xc0\x80",  # never in UTF-8
    b"\0" * 100,
    b"\x1b[",
    b"\x1b[<0;5",
    b"\x1bO",
    b"\x1b[1:2;3u",  # a key whose modifiers are no number
    b"\x1b[99999999;1u",  # a key beyond Unicode
    b"\x1b[97;1;99999999u",
    b"\x1b[55296;1;55296u",  # a surrogate
    b"\x1b[48;0;0;0;0t\x1b[<0;5;5M",  # a terminal size of 0, then a mouse event in pixels
    b"\x1b[48;90000;90000;1;1t",  # a terminal size too large for memory
    b"\x1b[?2048;1$y\x1b[48;1;1;1;1t",
    b"\x1b[<999999999;999999999;999999999M",
    b"\x1b[<35;-5;-5M",
    b"\x1b[M\xff\xff\xff",
    b"\x1b[999999;999999R",
    b"\x1b]52;c;" + b"B" * 5000,
    b"\x1bP" + b"z" * 100,
    b"\x1b" * 50,
)
"""Invalid and incomplete sequences."""
PASTES = (b"\x1b[200~never ended", b"\x1b[200~\xff\x1b[20", b"\x1b[200~" + b"z" * 100_000)
"""Pastes without an end."""

chunks = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from((*ODD, *PASTES[:2], b"\x1b[201~", b"\x1b[200~")),
        st.from_regex(rb"\x1b\[[<?]?[0-9:;-]{0,12}[A-Za-z~$]?", fullmatch=True),
    ),
    max_size=12,
)


class PatchedClock:
    """A clock that advances only when a test sets ``now``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("stalltop.tui.terminal.keyboard.time.monotonic", lambda: self.now)
        monkeypatch.setattr("textual._parser.get_time", lambda: self.now)


@settings(max_examples=300, deadline=None)
@given(chunks, st.randoms(use_true_random=False))
def test_no_bytes_stop_the_keyboard_and_a_key_after_them_is_read(
    parts: list[bytes], rng: random.Random
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        clock, keyboard = PatchedClock(monkeypatch), unheard()
        for part in split(b"".join(parts), rng):
            for message in keyboard.feed(part):
                assert isinstance(message, Message)
                assert not isinstance(message, events.Resize)
            clock.now += rng.choice((0.0, 0.05, 0.2))
        # Advance the clock, so that the keyboard stops waiting for the rest of a lone Esc, of a paste without
        # an end, and of half a character.
        clock.now += 1.0
        list(keyboard.feed(b""))
        clock.now += PASTE_SECONDS
        list(keyboard.feed(b""))
        pressed = [one.key for one in keyboard.feed(b"j") if isinstance(one, events.Key)]
        assert pressed[-1:] == ["j"]
        moved = [*keyboard.feed(b"\x1b[<35;7;3M")]
        assert [(one.x, one.y) for one in moved if isinstance(one, events.MouseMove)] == [(6, 2)]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd[:16]))
def test_a_key_after_odd_bytes_in_the_same_read_is_read(odd: bytes) -> None:
    keyboard = unheard()
    found = [one.key for one in keyboard.feed(odd + b"\x18" * 40 + b"j") if isinstance(one, events.Key)]
    assert found[-1] == "j"


def test_a_paste_in_parts_is_one_paste_however_slow_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, keyboard = PatchedClock(monkeypatch), unheard()
    found: list[Message] = []
    for part in (b"\x1b[200~one", b"", b" tw", b"o", b"\x1b[20", b"1~"):
        found += keyboard.feed(part)
        clock.now += PASTE_SECONDS - 0.1 if part != b"\x1b[20" else 0.0
    assert [one.text for one in found if isinstance(one, events.Paste)] == ["one two"]
    assert not [one for one in found if isinstance(one, events.Key)]


def test_input_waits_in_the_terminal_while_the_app_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "UNHANDLED_SECONDS", 60.0)
    theirs, ours = os.pipe()
    app, loop, ended, taken = Busy(), asyncio.new_event_loop(), threading.Event(), bytearray()
    keyboard = Keyboard(cast(App[Any], app), loop, ended)

    def read() -> None:
        for data in keyboard.read(theirs):
            taken.extend(data)

    threads = [threading.Thread(target=target, daemon=True) for target in (loop.run_forever, read)]
    for thread in threads:
        thread.start()
    os.write(ours, b"z" * 4000)
    until(lambda: app.asked > 5)
    assert len(taken) == READ_BYTES
    app.message_queue_size = 0
    until(lambda: len(taken) == 4000)
    ended.set()
    loop.call_soon_threadsafe(loop.stop)
    for thread in threads:
        thread.join(60)
    for end in (theirs, ours):
        os.close(end)
    loop.close()


@pytest.mark.parametrize("kind", ["deaf", "ended"])
def test_a_keyboard_that_cannot_be_read_ends_the_program_with_a_reason(kind: str) -> None:
    with PseudoTerminal(*PROGRAM, kind, size=(100, 24)) as terminal:
        assert terminal.wait() == 1
        raw = bytes(terminal.raw)
        assert raw.rfind(ALTERNATE_OFF) > raw.rfind(ALTERNATE_ON)
        assert b"stalltop: cannot read keys: " in raw
        assert b"Traceback" not in raw


def test_keys_after_odd_bytes_act_in_a_real_terminal(tmp_path: Path) -> None:
    with PseudoTerminal(*PROGRAM, "typed", size=(100, 24), folder=tmp_path) as terminal:
        terminal.sees("train")
        for odd in (*ODD, *PASTES):
            send(terminal, odd)
            quiet(terminal, PASTE_SECONDS + 0.5 if odd in PASTES else 0.3)
            send(terminal, b"\x1b")
            quiet(terminal, 0.3)
            acts(terminal, odd)
        pressed(terminal, F12, lambda: terminal.process.poll() is not None, "never ended")
        assert terminal.wait() == 130
        assert terminal.restored()


def test_random_bytes_do_not_end_the_program_in_a_real_terminal(tmp_path: Path) -> None:
    rng = random.Random(1)
    state = {"XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    with PseudoTerminal(*PROGRAM, "typed", size=(100, 24), folder=tmp_path, **state) as terminal:
        terminal.sees("train")
        for _ in range(60):
            for part in split(burst(rng), rng):
                send(terminal, part)
                quiet(terminal, rng.choice((0.0, 0.0, 0.0, 0.15)))
            assert ALTERNATE_OFF not in terminal.raw, bytes(terminal.raw[-3000:])
        pressed(terminal, F12, lambda: terminal.process.poll() is not None, "never ended")
        assert terminal.wait() == 130
        assert terminal.restored()
        assert b"Traceback" not in terminal.raw


@pytest.mark.parametrize("kind", ["demo", "open"])
def test_the_command_survives_odd_bytes(kind: str, tmp_path: Path) -> None:
    if kind == "demo":
        arguments = ["demo", "--simulated"]
    else:
        path = tmp_path / "made.stalltop"
        record = ("-P", "-m", "stalltop", "record", "--simulated", "--seconds", "2", "--to", str(path))
        subprocess.run(
            (sys.executable, *record),
            cwd=ROOT,
            check=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        arguments = ["open", str(path)]
    with PseudoTerminal(
        "-P", "-m", "stalltop", *arguments, "--no-state", size=(100, 24), folder=tmp_path
    ) as terminal:
        terminal.sees("Quit")
        for odd in ODD[:14]:
            send(terminal, odd)
            quiet(terminal, 0.2)
        send(terminal, b"\x1b")
        quiet(terminal, 0.3)
        acts(terminal)
        pressed(terminal, b"q", lambda: terminal.process.poll() is not None, "never ended")
        assert terminal.wait() == 0
        assert terminal.restored()


async def test_a_screen_in_a_browser_survives_odd_text() -> None:
    async with command() as here, here.terminal() as terminal:
        await terminal.sees("SIMULATED")
        for odd in (*ODD, b"\x1b[200~never ended"):
            await terminal.types(odd.decode("utf-8", "surrogateescape"))
            await asyncio.sleep(0.2)
        await asyncio.sleep(PASTE_SECONDS + 0.5)
        await terminal.types("\x1b")
        await asyncio.sleep(0.3)
        await terminal.types("?")
        await terminal.sees("Legend")
        assert len(here.screens()) == 1


class Busy:
    """Stands in for an app: reports how many events wait for it, 1000 at first."""

    def __init__(self) -> None:
        self.asked, self._waiting = 0, 1000
        self.screen = self

    def walk_children(self, with_self: bool) -> Iterator[Busy]:
        yield self

    @property
    def message_queue_size(self) -> int:
        self.asked += 1
        return self._waiting

    @message_queue_size.setter
    def message_queue_size(self, waiting: int) -> None:
        self._waiting = waiting


def unheard() -> Keyboard:
    """Return a keyboard that has no app, so that only its method ``feed`` works."""
    return Keyboard(cast(App[Any], None), cast(asyncio.AbstractEventLoop, None), threading.Event())


def split(data: bytes, rng: random.Random) -> list[bytes]:
    """Split ``data`` into random parts, as a connection may deliver it."""
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(4)))
    return [data[one:two] for one, two in zip([0, *cuts], [*cuts, len(data)], strict=True) if two > one]


def burst(rng: random.Random) -> bytes:
    """Return up to a few hundred bytes: random bytes, sequences of ``ODD``, keys, and parts of escape
    sequences."""
    parts = []
    for _ in range(rng.randrange(1, 6)):
        whole = rng.choice((*ODD, *PASTES[:2], b"\x1b[A", b"\x1b[B", b"\r", b"\t", b"?", b"/", b"w"))
        made = bytes(rng.choices(b"\x1b[]<>?0123456789;:~$uyMmRtABCDHIO", k=rng.randrange(1, 30)))
        parts.append(rng.choice((rng.randbytes(rng.randrange(60)), whole, whole[: rng.randrange(9)], made)))
    return b"".join(parts).translate(None, LEAVE)


def send(terminal: PseudoTerminal, data: bytes) -> None:
    """Type ``data`` and read the output at the same time, so that neither side blocks."""
    if terminal.process.poll() is not None:
        return
    writer = threading.Thread(target=lambda: write(terminal.ours, data), daemon=True)
    writer.start()
    terminal.until(lambda: not writer.is_alive(), "the program does not read its keys")


def write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def quiet(terminal: PseudoTerminal, seconds: float) -> None:
    """Read the output for ``seconds`` and type nothing."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        terminal.read(0.01)


def acts(terminal: PseudoTerminal, after: bytes = b"") -> None:
    """Check that ``?`` opens the help, and that Esc closes it and every other screen."""
    pressed(terminal, b"?", lambda: "Legend" in terminal.text, f"no help after {after[:60]!r}")
    escapes = b"\x1b\x1b\x1b"
    pressed(
        terminal,
        escapes,
        lambda: "Legend" not in terminal.text,
        f"the help stays after {after[:60]!r}",
    )


def pressed(terminal: PseudoTerminal, key: bytes, condition: Callable[[], bool], what: str) -> None:
    """Press ``key`` again and again until ``condition`` holds.

    On a busy machine the program may read the first press together with earlier bytes, as part of an escape
    sequence or a paste.
    """
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"{what}\n{terminal.text}\n{bytes(terminal.raw[-600:])!r}"
        send(terminal, key)
        pause = time.monotonic() + PASTE_SECONDS + 0.5
        while time.monotonic() < pause and not condition():
            terminal.read()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
