"""Tests the collector, the thread that reads the source: window lengths, failures and hung reads."""

from __future__ import annotations

import queue
from typing import TypeVar

import pytest
from textual.message import Message

from stalltop.model.merge.merging import merge
from stalltop.model.merge.packing import pack
from stalltop.tui.reading.collector import FIRST_SECONDS, Collector, Failed, Tick
from stalltop.tui.reading.since_start import SinceStart
from tests.tui.sources import FedSource, MadeSource, numbered

DEADLINE = 30.0
Kind = TypeVar("Kind", bound=Message)


class Inbox:
    """Stores the messages that the collector posts, in order."""

    def __init__(self) -> None:
        self._messages: queue.Queue[Message] = queue.Queue()

    def __call__(self, message: Message) -> None:
        self._messages.put(message)

    def next(self, kind: type[Kind]) -> Kind:
        message = self._messages.get(timeout=DEADLINE)
        assert isinstance(message, kind)
        return message


def test_windows_of_every_length_end_at_the_same_moment() -> None:
    inbox = Inbox()
    source = FedSource(*(numbered(i) for i in range(20)))
    collector = Collector(source, inbox, interval=0.0, length=10.0)
    collector.start()
    for _ in range(19):
        inbox.next(Tick)
    snapshot = inbox.next(Tick).snapshot
    calls = int(numbered(0).rows.calls.sum())
    for length, seconds in ((10.0, 10), (1.0, 1), (60.0, 20), (None, 20)):
        one = snapshot.of_length(length)
        assert one is not None
        assert one.seconds == pytest.approx(seconds)
        assert int(one.rows.calls.sum()) == seconds * calls
        assert one.end == pytest.approx(numbered(19).end)
    source.release()
    assert collector.stop(DEADLINE)
    assert source.closed.is_set()


def test_the_first_reads_do_not_wait_for_the_interval() -> None:
    inbox = Inbox()
    source = MadeSource(numbered)
    collector = Collector(source, inbox, interval=3600.0)
    collector.start()
    for _ in range(1 + len(FIRST_SECONDS)):
        inbox.next(Tick)
    assert collector.stop(DEADLINE)


def test_another_window_length_needs_no_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stalltop.tui.reading.collector.FIRST_SECONDS", ())
    inbox = Inbox()
    source = MadeSource(numbered)
    collector = Collector(source, inbox, interval=3600.0, length=10.0)
    collector.start()
    assert inbox.next(Tick).snapshot.length == 10.0
    collector.choose(None)
    assert inbox.next(Tick).snapshot.length is None
    assert source.reads == 1
    assert collector.stop(DEADLINE)


def test_a_failing_source_is_reported_and_closed() -> None:
    inbox = Inbox()
    source = FedSource(numbered(0))
    source.put(OSError("broken"))
    collector = Collector(source, inbox, interval=0.0)
    collector.start()
    inbox.next(Tick)
    assert str(inbox.next(Failed).error) == "broken"
    assert collector.stop(DEADLINE)
    assert source.closed.is_set()


def test_stop_does_not_wait_for_a_hung_read() -> None:
    source = FedSource()
    collector = Collector(source, Inbox(), interval=0.0)
    collector.start()
    assert not collector.stop(0.05)
    source.release()
    assert collector.stop(DEADLINE)
    assert source.closed.is_set()


def test_a_source_that_never_changes_is_read_once() -> None:
    inbox = Inbox()
    source = MadeSource(numbered)
    collector = Collector(source, inbox, interval=0.0, still=True)
    collector.start()
    inbox.next(Tick)
    collector.choose(1.0)
    inbox.next(Tick)
    assert source.reads == 1
    assert collector.stop(DEADLINE)


def test_a_collector_that_never_began_stops() -> None:
    assert Collector(FedSource(), Inbox()).stop(0.0)


def test_memory_of_the_past_is_bounded() -> None:
    inbox = Inbox()
    bound = 3 * max(pack(numbered(i)).bytes for i in range(10))
    source = FedSource(*(numbered(i) for i in range(10)))
    collector = Collector(source, inbox, interval=0.0, most_bytes=bound)
    collector.start()
    for _ in range(9):
        inbox.next(Tick)
    snapshot = inbox.next(Tick).snapshot
    assert 2 <= len(snapshot.kept.parts) < 6
    assert sum(part.bytes for part in snapshot.kept.parts) <= bound
    assert snapshot.whole is not None
    assert snapshot.whole.window().seconds == pytest.approx(10)
    source.release()
    assert collector.stop(DEADLINE)


def test_a_window_too_large_to_be_kept_is_shown() -> None:
    inbox = Inbox()
    source = FedSource(numbered(0), numbered(1))
    collector = Collector(source, inbox, interval=0.0, length=10.0, most_bytes=1)
    collector.start()
    inbox.next(Tick)
    snapshot = inbox.next(Tick).snapshot
    assert [part.window.start for part in snapshot.kept.parts] == [snapshot.newest.start]
    assert snapshot.window.seconds == pytest.approx(2)
    shorter = snapshot.of_length(1.0)
    assert shorter is not None
    assert shorter.seconds == pytest.approx(1)
    source.release()
    assert collector.stop(DEADLINE)


def test_the_window_since_the_start_has_every_window_at_any_time() -> None:
    windows = [numbered(i) for i in range(25)]
    found = SinceStart()
    for number, window in enumerate(windows, 1):
        found.take_in(window)
        later = found.whole
        if number in (7, 21):
            assert found.window.seconds == pytest.approx(number)
        for one in (later.window(), found.whole.window()):
            expected = merge(windows[:number])
            assert one.start == expected.start
            assert one.seconds == pytest.approx(expected.seconds)
            assert dict(zip(one.rows.keys, one.rows.calls.tolist(), strict=True)) == dict(
                zip(expected.rows.keys, expected.rows.calls.tolist(), strict=True)
            )
