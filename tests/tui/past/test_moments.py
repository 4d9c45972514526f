"""Tests, without a screen, the choice of the moment to show: now, a past moment, or the mark to compare
with."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from stalltop.model.merge.packing import pack
from stalltop.model.window import Window
from stalltop.recordings.past.kept import InMemory
from stalltop.tui.past.moments import Asked, Moments, Picture
from stalltop.tui.past.recall import Wanted
from stalltop.tui.reading.collector import Snapshot
from stalltop.tui.reading.latest import Latest
from stalltop.tui.reading.since_start import SummedWindows
from tests.tui.sources import numbered

DEADLINE = 30.0


def snapshot(number: int, *, length: float | None = 1.0) -> Snapshot:
    """Return the snapshot that the collector posts after ``number`` windows of one second."""
    parts = tuple(pack(numbered(at)) for at in range(number))
    newest = numbered(number - 1)
    return Snapshot(newest, length, newest, InMemory(parts), SummedWindows((newest,)), 0.0)


def looking(number: int = 20) -> Moments:
    moments = Moments(1.0)
    moments.newest = snapshot(number)
    return moments


def end(number: int) -> float:
    """Return the time at which window ``number`` ended; the first window has the number 1."""
    return numbered(number - 1).end


def make(asked: Asked | None) -> Picture:
    """Make and return the picture that was requested, as the thread that reads the past does."""
    assert asked is not None
    (picture,) = asked.make(lambda: False)
    return picture


def follow(moments: Moments) -> None:
    """Make the picture that ``moments`` requests and pass it to ``moments``; check that no other picture is
    requested."""
    asked = moments.ask()
    assert asked is not None
    assert moments.made(asked.turn, make(asked))
    assert moments.wanted is None


def test_before_there_is_data_nothing_can_be_done() -> None:
    moments = Moments(10.0)
    moments.freeze()
    assert (moments.window, moments.frozen, moments.age, moments.wanted) == (None, False, 0.0, None)
    assert moments.step(-1) == moments.move(-60) == moments.go_to(0.0) == "there is no past yet"


def test_steps_go_back_and_forward_and_to_now() -> None:
    moments = looking()
    assert moments.step(1) == "this is the newest moment"
    assert moments.step(-1) == ""
    assert moments.frozen
    assert (moments.at, moments.age) == (end(19), 1.0)
    assert moments.wanted == Wanted(end(19), 1.0)
    follow(moments)
    assert moments.window is not None
    assert moments.window.end == end(19)
    moments.newest = snapshot(25)
    assert moments.age == 6.0
    assert moments.step(1) == ""
    follow(moments)
    assert moments.window.end == end(20)
    for _ in range(5):
        assert moments.step(1) == ""
    assert moments.at == end(25)
    assert moments.step(1) == "live"
    assert not moments.frozen


def test_steps_beyond_the_oldest_window_say_so() -> None:
    moments = looking(3)
    assert moments.step(-1) == moments.step(-1) == ""
    assert moments.step(-1) == "nothing older is kept"
    assert moments.at == end(1)
    assert moments.move(-60) == "nothing older is kept"
    assert moments.move(60) == "live"


def test_moves_go_by_minutes_and_to_any_moment() -> None:
    moments = looking(200)
    assert moments.move(-60) == ""
    assert moments.at == end(140)
    assert moments.move(60) == "", "the move reaches the newest window, which is shown frozen"
    assert moments.at == end(200)
    assert moments.go_to(end(50) + 0.2) == ""
    assert moments.at == end(50)
    assert moments.move(-60) == ""
    assert moments.at == end(1)


def test_the_moment_that_is_shown_may_be_asked_for_again() -> None:
    moments = looking(9)
    assert moments.go_to(end(1)) == moments.go_to(end(1)) == ""
    assert moments.at == end(1)


def test_a_frozen_picture_takes_other_lengths() -> None:
    moments = looking()
    moments.freeze()
    moments.newest = snapshot(25)
    assert moments.choose(1)
    assert moments.wanted == Wanted(end(20), 10.0)
    follow(moments)
    assert moments.window is not None
    assert (moments.window.seconds, moments.window.end) == (10.0, end(20))
    assert not [moments.choose(1) for _ in range(4)][-1], "no length is longer than since the start"


def test_a_picture_asked_for_before_the_return_to_now_is_dropped() -> None:
    moments = looking()
    moments.step(-1)
    asked = moments.ask()
    assert asked is not None
    picture = make(asked)
    moments.release()
    assert not moments.made(asked.turn, picture)
    moments.freeze()
    assert not moments.made(asked.turn, picture)
    assert moments.window is not None
    assert moments.window.end == end(20)


def test_pictures_on_the_way_are_shown_until_the_last_one_is_made() -> None:
    moments = looking()
    moments.step(-1)
    passed = moments.ask()
    moments.step(-1)
    assert passed is not None
    assert moments.made(passed.turn, make(passed))
    assert moments.window is not None
    assert moments.window.end == end(19)
    assert moments.wanted == Wanted(end(18), 1.0)


def test_a_picture_of_another_length_is_dropped_once_a_newer_snapshot_has_it() -> None:
    moments = looking()
    moments.choose(1)
    asked = moments.ask()
    follow(moments)
    assert moments.window is not None
    assert moments.window.seconds == 10.0
    assert asked is not None
    late = make(asked)
    moments.newest = snapshot(21, length=10.0)
    assert not moments.made(asked.turn, late), "a picture replaced that of a newer snapshot"


def test_a_comparison_needs_a_mark() -> None:
    moments = looking()
    assert moments.against is None
    moments.comparing = True
    assert moments.against is None, "compared although no mark was set"
    moments.mark = moments.picture
    assert moments.against is not None
    assert moments.against.window is moments.window


@dataclass
class Slow:
    """A slow job: a function that blocks until ``free`` is set."""

    begun: threading.Event = field(default_factory=threading.Event)
    free: threading.Event = field(default_factory=threading.Event)
    stale: list[bool] = field(default_factory=list)

    def __call__(self, stale: Callable[[], bool]) -> None:
        self.begun.set()
        assert self.free.wait(DEADLINE)
        self.stale.append(stale())


def test_of_waiting_work_only_the_newest_is_done() -> None:
    failed: queue.Queue[Exception] = queue.Queue()
    latest = Latest("test", failed.put)
    first = Slow()
    latest.ask(first)
    assert first.begun.wait(DEADLINE)
    done: list[int] = []
    ended = threading.Event()

    def work(number: int) -> Callable[[Callable[[], bool]], None]:
        return lambda stale: done.append(number)

    for number in range(5):
        latest.ask(work(number))
    latest.ask(lambda stale: ended.set())
    first.free.set()
    assert ended.wait(DEADLINE)
    assert (done, first.stale) == ([], [True])

    def broken(stale: Callable[[], bool]) -> None:
        raise ValueError("broken")

    latest.ask(broken)
    assert str(failed.get(timeout=DEADLINE)) == "broken"
    again = threading.Event()
    latest.ask(lambda stale: again.set())
    assert again.wait(DEADLINE)


def test_the_newest_moment_has_a_window() -> None:
    moments = looking()
    assert isinstance(moments.window, Window)
