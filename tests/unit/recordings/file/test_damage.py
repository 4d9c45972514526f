"""Tests that a damaged file gives an error, or its intact windows with a warning, but never a wrong
figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from stalltop.model.errors import StalltopError
from stalltop.model.histograms.hdr import COUNTERS
from stalltop.recordings.read.reading import load, open_file
from stalltop.recordings.write.saving import save
from tests.windows.by_hand import same_window
from tests.windows.full import full_window
from tests.windows.recordings import following, record

Damage = Callable[[bytearray, Random], None]
PAGE = 1024
WINDOWS = following(6)


def flip(content: bytearray, random: Random) -> None:
    for _ in range(random.choice((1, 1, 4, 32))):
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)


def cut(content: bytearray, random: Random) -> None:
    del content[random.randrange(len(content)) :]


def zero(content: bytearray, random: Random) -> None:
    at = random.randrange(len(content) // PAGE) * PAGE
    content[at : at + PAGE] = bytes(PAGE)


def swap(content: bytearray, random: Random) -> None:
    one, other = (random.randrange(len(content) // PAGE) * PAGE for _ in range(2))
    page = content[one : one + PAGE]
    content[one : one + PAGE] = content[other : other + PAGE]
    content[other : other + PAGE] = page


def double(content: bytearray, random: Random) -> None:
    one, other = (random.randrange(len(content) // PAGE) * PAGE for _ in range(2))
    content[one : one + PAGE] = content[other : other + PAGE]


def scribble(content: bytearray, random: Random) -> None:
    at = random.randrange(len(content))
    written = random.randbytes(random.randrange(1, 200))
    content[at : at + len(written)] = written


def large_numbers(content: bytearray, random: Random) -> None:
    at = random.randrange(len(content) - 4)
    content[at : at + 4] = random.choice((b"\xff\xff\xff\xff", bytes(4), b"\x7f\xff\xff\xff"))


DAMAGES: tuple[Damage, ...] = (flip, cut, zero, swap, double, scribble, large_numbers)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_recording_never_gives_wrong_figures(damage: Damage, tmp_path: Path) -> None:
    good = record(tmp_path / "good.stalltop", WINDOWS, page_bytes=PAGE).read_bytes()
    path = tmp_path / "bad.stalltop"
    by_start = {window.start: window for window in WINDOWS}
    results: Counter[str] = Counter()
    for seed in range(60):
        content = bytearray(good)
        damage(content, Random(seed))
        path.write_bytes(content)
        try:
            with open_file(path) as recorded:
                found = list(recorded.windows())
                warnings = recorded.warnings
        except StalltopError:
            results["told"] += 1
            continue
        for window in found:
            same_window(window, by_start[window.start])
        assert len(found) == len(WINDOWS) or warnings, f"windows are missing without a warning: seed {seed}"
        results["all" if len(found) == len(WINDOWS) else "some"] += 1
    assert results["told"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_saved_window_is_exact_or_refused(damage: Damage, tmp_path: Path) -> None:
    good = save(full_window(), tmp_path / "good.stalltop").read_bytes()
    path = tmp_path / "bad.stalltop"
    for seed in range(60):
        content = bytearray(good)
        damage(content, Random(1_000 + seed))
        path.write_bytes(content)
        try:
            found = load(path)
        except StalltopError:
            continue
        same_window(found, full_window())


def test_a_stack_cannot_have_a_counter_that_no_histogram_has(tmp_path: Path) -> None:
    path = tmp_path / "bad.stalltop"
    window = full_window()
    stacks = [stack._replace(durations=((COUNTERS, 1),)) for stack in window.stacks]
    save(replace(window, stacks=tuple(stacks)), path)
    with pytest.raises(StalltopError, match="counter"):
        load(path)
