"""One source for many: what the feed passes on, and what comes out of a link."""

from __future__ import annotations

import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from stalltop.formats.documents.window import document
from stalltop.model.errors import StalltopError
from stalltop.serving import feed as feeds
from stalltop.serving.feed import Feed
from stalltop.serving.link import LinkSource, frame
from tests.tui.sources import Fed, numbered


@pytest.fixture
def link() -> Iterator[tuple[socket.socket, LinkSource]]:
    ours, theirs = socket.socketpair()
    with ours:
        yield ours, LinkSource(theirs)
    theirs.close()


def test_a_window_comes_as_it_was_sent(link: tuple[socket.socket, LinkSource]) -> None:
    ours, source = link
    sender = threading.Thread(target=ours.sendall, args=(frame(numbered(3)),))
    sender.start()
    assert document(source.read()) == document(numbered(3))
    sender.join()


def test_windows_that_waited_are_added_up(link: tuple[socket.socket, LinkSource]) -> None:
    ours, source = link
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    frames = b"".join(frame(numbered(number)) for number in range(3))
    sender = threading.Thread(target=ours.sendall, args=(frames,))
    sender.start()
    calls, start, end = 0, float("inf"), 0.0
    while end < numbered(2).end:  # by one read or by several: as they came
        window = source.read()
        calls += int(window.rows.calls.sum())
        start, end = min(start, window.start), window.end
    sender.join()
    assert calls == 3 * int(numbered(0).rows.calls.sum())
    assert (start, end) == (numbered(0).start, numbered(2).end)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", "the server has ended"),
        (b"\0\0", "the server has ended"),
        (struct.pack(">I", 100) + b"x", "the server has ended"),
        (struct.pack(">I", 3) + b"xyz", "no window"),
        (struct.pack(">I", 0xFFFFFFFF), "no window"),
    ],
)
def test_what_is_no_window_is_told(link: tuple[socket.socket, LinkSource], sent: bytes, said: str) -> None:
    ours, source = link
    ours.sendall(sent)
    ours.close()
    with pytest.raises(StalltopError, match=said):
        source.read()
    source.close()


class Listener:
    def __init__(self) -> None:
        self.frames: queue.Queue[bytes] = queue.Queue()

    def next(self) -> bytes:
        return self.frames.get(timeout=60)


@pytest.fixture
def feeding() -> Iterator[Callable[[Fed], tuple[Feed, list[BaseException]]]]:
    running: list[tuple[Feed, Fed]] = []

    def start(source: Fed) -> tuple[Feed, list[BaseException]]:
        failures: list[BaseException] = []
        feed = Feed(source, 0.01, failures.append)
        feed.start()
        running.append((feed, source))
        return feed, failures

    yield start
    for feed, source in running:
        source.release()
        feed.stop(30)
        assert source.closed.is_set()


Feeding = Callable[[Fed], tuple[Feed, list[BaseException]]]


def test_everybody_gets_every_window_once(feeding: Feeding) -> None:
    source, one, other = Fed(), Listener(), Listener()
    feed, _ = feeding(source)
    feed.listen(one.frames.put)
    source.put(numbered(0))
    assert one.next() == frame(numbered(0))
    feed.listen(other.frames.put)  # later: it gets what was, then what comes
    source.put(numbered(1))
    assert [other.next(), other.next()] == [frame(numbered(0)), frame(numbered(1))]
    assert one.next() == frame(numbered(1))
    feed.leave(one.frames.put)
    source.put(numbered(2))
    assert other.next() == frame(numbered(2))
    assert one.frames.empty()


def test_who_leaves_before_anything_came_gets_nothing(feeding: Feeding) -> None:
    source, one, other = Fed(), Listener(), Listener()
    feed, _ = feeding(source)
    feed.listen(one.frames.put)
    feed.leave(one.frames.put)
    feed.leave(other.frames.put)
    feed.listen(other.frames.put)
    source.put(numbered(0))
    other.next()
    assert one.frames.empty()


def test_who_is_new_gets_the_last_seconds_only(feeding: Feeding, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "BACKLOG_SECONDS", 3.0)
    source, first, late = Fed(), Listener(), Listener()
    feed, _ = feeding(source)
    feed.listen(first.frames.put)
    for number in range(6):
        source.put(numbered(number))
    for _ in range(6):
        first.next()
    feed.listen(late.frames.put)
    source.put(numbered(6))
    found = [late.next()]
    while found[-1] != frame(numbered(6)):
        found.append(late.next())
    assert found == [frame(numbered(number)) for number in (3, 4, 5, 6)]


def test_a_window_that_is_too_large_is_left_out(feeding: Feeding, monkeypatch: pytest.MonkeyPatch) -> None:
    right = frame

    def refuse(window: object) -> bytes:
        if window == numbers[0]:
            raise StalltopError("too large")
        return right(window)  # type: ignore[arg-type]

    monkeypatch.setattr(feeds, "frame", refuse)
    numbers = [numbered(0), numbered(1)]
    source, one = Fed(*numbers), Listener()
    feed, failures = feeding(source)
    feed.listen(one.frames.put)
    found = [one.next()]
    while found[-1] != right(numbers[1]):
        found.append(one.next())
    assert set(found) <= {b"", right(numbers[1])}
    assert failures == []


def test_a_source_that_fails_is_told_once(feeding: Feeding) -> None:
    source = Fed()
    source.put(StalltopError("the probe broke"))
    _, failures = feeding(source)
    assert source.closed.wait(60)
    end = time.monotonic() + 60
    while not failures:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert [str(failure) for failure in failures] == ["the probe broke"]
