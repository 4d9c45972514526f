"""Tests that a recording in a file gives the same past windows as the past in memory, also with several
hosts, gaps and damage."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from stalltop.model.errors import StalltopError
from stalltop.model.merge.packing import pack
from stalltop.model.window import Window
from stalltop.recordings.past.in_file import DAMAGED, InFile
from stalltop.recordings.past.kept import InMemory
from stalltop.recordings.past.opened import BEFORE, OpenedRecording
from tests.tui.faults import STARVED, faulty
from tests.tui.past.recorded import MemoryFile
from tests.tui.sources import numbered
from tests.windows.by_hand import Calls, key, window


def kept(file: MemoryFile) -> InFile:
    return InFile.of(OpenedRecording(file))


def second(number: float, host: str = "gpu7", *, seconds: float = 1.0) -> Window:
    one = window([Calls(key(host=host), [1_000] * 10)], start=1_000.0 + number)
    return replace(one, host=host, seconds=seconds)


def same(one: Window | None, other: Window | None) -> bool:
    """Return whether both windows exist and have the same time, counts and chains."""
    assert one is not None
    assert other is not None
    return (one.start, one.seconds, one.rows.keys, one.rows.calls.tolist(), one.rows.total_ns.tolist()) == (
        *(other.start, other.seconds, other.rows.keys),
        *(other.rows.calls.tolist(), other.rows.total_ns.tolist()),
    ) and one.chains == other.chains


@pytest.mark.parametrize("length", [1.0, 10.0, 60.0, None])
@pytest.mark.parametrize("at", [0, 5, 44, 79])
def test_a_recording_gives_the_same_windows_as_memory(length: float | None, at: int) -> None:
    windows = [faulty(STARVED, number=number) if number % 3 else numbered(number) for number in range(80)]
    windows = [replace(one, start=1_000.0 + number, seconds=1.0) for number, one in enumerate(windows)]
    found, known = kept(MemoryFile.of(windows)), InMemory([pack(one) for one in windows])
    end = windows[at].end
    assert same(found.window_at(end, length), known.window_at(end, length))
    assert found.end == known.end
    assert np.array_equal(found.stretch.end, known.stretch.end)


def test_windows_before_a_moment_are_read_once_and_newest_first() -> None:
    file = MemoryFile.of(second(number) for number in range(300))
    found = kept(file)
    at = found.stretch.end[249]
    assert found.at_hand(at) == ()
    found.window_at(at, 10.0)
    assert file.reads == list(range(241, 251))
    assert [part.window.start for part in found.at_hand(at)] == [1_000.0 + n for n in range(240, 250)]
    before = found.before(at)
    assert before is not None
    assert len(before) == BEFORE
    assert file.reads[10:] == list(range(240, 250 - BEFORE, -1))
    found.before(at)
    assert len(file.reads) == BEFORE
    assert found.before(at - 1, lambda: True) is None
    assert len(found.at_hand(at)) == BEFORE


def test_the_cache_of_windows_is_bounded() -> None:
    file = MemoryFile.of(second(number) for number in range(200))
    size = pack(second(0)).bytes
    recording = OpenedRecording(file, most_bytes=20 * size)
    found = InFile.of(recording)
    found.before(found.end)
    assert 10 <= len(found.at_hand(found.end)) <= 20
    file.reads.clear()
    found.window_at(found.end, None)
    assert len(file.reads) >= 180
    assert len(found.at_hand(found.end)) <= 20


def test_hosts_are_merged_also_while_one_is_missing() -> None:
    a = [second(number) for number in range(30)]
    b = [second(number + 0.3, "gpu8") for number in range(30) if not 10 <= number < 20]
    found = kept(MemoryFile.of([*a, *b]))
    assert len(found.stretch.end) == 30
    both = found.window_at(1_030.3, 5.0)
    assert both is not None
    assert both.host == "gpu7, gpu8"
    assert (both.seconds, int(both.rows.calls.sum())) == (5.0, 100)
    alone = found.window_at(1_019.0, 1.0)
    assert alone is not None
    assert alone.host == "gpu7"
    assert set(alone.tenants) < set(both.tenants), "the tenants of gpu7 have other ids in the merged window"
    before = found.before(found.end)
    assert before is not None
    assert [part.window.host for part in before] == ["gpu7, gpu8"] * 10 + ["gpu7"] * 10 + ["gpu7, gpu8"] * 10


def test_no_window_spans_a_gap() -> None:
    windows = [second(number) for number in (*range(20), *range(3_600, 3_610))]
    found = kept(MemoryFile.of(windows))
    after = found.window_at(windows[22].end, 10.0)
    assert after is not None
    assert (after.start, after.seconds) == (4_600.0, 3.0)
    known = InMemory([pack(one) for one in windows]).window_at(windows[22].end, 10.0)
    assert same(after, known)
    whole = found.window_at(found.end, None)
    assert whole is not None
    assert whole.seconds == 30.0


def test_damaged_windows_are_left_out_and_reported() -> None:
    file = MemoryFile.of(second(number) for number in range(20))
    file.damaged = {10, 11}
    found = kept(file)
    assert not found.notes
    sum_of_five = found.window_at(1_012.0, 5.0)
    assert sum_of_five is not None
    assert (sum_of_five.seconds, int(sum_of_five.rows.calls.sum())) == (3.0, 30)
    (note,) = tuple(found.notes)
    assert note.startswith("damaged: 2 windows from ")
    assert note.endswith("left out (its checksum is wrong)")
    assert np.flatnonzero(np.isnan(found.stretch.lost_ms_per_s)).tolist() == [9, 10]
    nothing = found.window_at(1_011.0, 1.0)
    assert nothing is not None
    assert (len(nothing.rows), nothing.coverage.tracing) == (0, DAMAGED)
    assert found.window_at(1_011.0, None) is not None
    before = found.before(found.end)
    assert before is not None
    assert len(before) == 18


def test_windows_that_were_merged_meanwhile_are_found() -> None:
    file = MemoryFile.of(second(number) for number in range(20))
    recording = OpenedRecording(file)
    found = InFile.of(recording)
    assert InFile.of(recording).is_as(found)
    file.windows = {1: second(0, seconds=10.0), **{n: file.windows[n] for n in range(11, 21)}}
    file.new = True
    one = found.window_at(1_008.0, 1.0)
    assert one is not None
    assert (one.start, one.seconds) == (1_000.0, 10.0)
    assert not InFile.of(recording).is_as(found)
    assert len(InFile.of(recording).stretch.end) == 11
    assert found.before(1_020.0) is not None


def test_a_past_moment_has_the_baseline_of_its_time() -> None:
    windows = [replace(second(n), normals={key(): (n, 2 * n)}) for n in range(20)]
    found = kept(MemoryFile.of(windows))
    for at in (5, 19, 5):
        one = found.window_at(windows[at].end, 10.0)
        assert one is not None
        assert one.normals == {key(): (at, 2 * at)}


def test_empty_and_closed_recordings_are_rejected() -> None:
    with pytest.raises(StalltopError, match="no window yet"):
        kept(MemoryFile())
    file = MemoryFile.of([second(0)])
    recording = OpenedRecording(file)
    recording.close()
    recording.close()
    with pytest.raises(StalltopError, match="closed"):
        InFile.of(recording)
    assert file.closed.is_set()


def test_two_threads_can_read_at_once() -> None:
    file = MemoryFile.of(second(number) for number in range(200))
    found = InFile.of(OpenedRecording(file, most_bytes=20 * pack(second(0)).bytes))
    failed: list[BaseException] = []

    def look(step: int) -> None:
        try:
            for at in range(1_000, 1_200, step):
                assert found.window_at(at + 1.0, 10.0) is not None
                found.at_hand(at + 1.0)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=look, args=(step,)) for step in (3, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert failed == []
