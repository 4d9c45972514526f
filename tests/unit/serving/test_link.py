"""Tests one source for many screens: the feed that sends windows, and the link that receives them."""

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
from tests.tui.sources import FedSource, numbered


@pytest.fixture
def link() -> Iterator[tuple[socket.socket, LinkSource]]:
    ours, theirs = socket.socketpair()
    with ours:
        yield ours, LinkSource(theirs)
    theirs.close()


def test_a_window_arrives_unchanged(link: tuple[socket.socket, LinkSource]) -> None:
    ours, source = link
    sender = threading.Thread(target=ours.sendall, args=(frame(numbered(3)),))
    sender.start()
    assert document(source.read()) == document(numbered(3))
    sender.join()


def test_waiting_windows_are_merged(link: tuple[socket.socket, LinkSource]) -> None:
    ours, source = link
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    frames = b"".join(frame(numbered(number)) for number in range(3))
    sender = threading.Thread(target=ours.sendall, args=(frames,))
    sender.start()
    calls, start, end = 0, float("inf"), 0.0
    while end < numbered(2).end:  # one read or several, depending on when frames arrive
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
        (struct.pack(">I", 3) + b"xyz", "invalid data"),
        (struct.pack(">I", 0xFFFFFFFF), "invalid data"),
    ],
)
def test_anything_but_a_window_is_reported(
    link: tuple[socket.socket, LinkSource], sent: bytes, said: str
) -> None:
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
def feeding() -> Iterator[Callable[[FedSource], tuple[Feed, list[BaseException]]]]:
    running: list[tuple[Feed, FedSource]] = []

    def start(source: FedSource) -> tuple[Feed, list[BaseException]]:
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


Feeding = Callable[[FedSource], tuple[Feed, list[BaseException]]]


def test_every_listener_gets_every_window_once(feeding: Feeding) -> None:
    source, one, other = FedSource(), Listener(), Listener()
    feed, _ = feeding(source)
    feed.listen(one.frames.put)
    source.put(numbered(0))
    assert one.next() == frame(numbered(0))
    feed.listen(other.frames.put)  # a later listener gets the earlier windows first
    source.put(numbered(1))
    assert [other.next(), other.next()] == [frame(numbered(0)), frame(numbered(1))]
    assert one.next() == frame(numbered(1))
    feed.leave(one.frames.put)
    source.put(numbered(2))
    assert other.next() == frame(numbered(2))
    assert one.frames.empty()


def test_a_listener_that_left_gets_nothing(feeding: Feeding) -> None:
    source, one, other = FedSource(), Listener(), Listener()
    feed, _ = feeding(source)
    feed.listen(one.frames.put)
    feed.leave(one.frames.put)
    feed.leave(other.frames.put)
    feed.listen(other.frames.put)
    source.put(numbered(0))
    other.next()
    assert one.frames.empty()


def test_a_new_listener_gets_only_the_last_seconds(feeding: Feeding, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "BACKLOG_SECONDS", 3.0)
    source, first, late = FedSource(), Listener(), Listener()
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
    # Depending on timing, the backlog is passed on before or after window 6 is read.
    assert found in ([frame(numbered(number)) for number in range(oldest, 7)] for oldest in (3, 4))


def test_a_window_that_is_too_large_is_left_out(feeding: Feeding, monkeypatch: pytest.MonkeyPatch) -> None:
    right = frame

    def refuse(window: object) -> bytes:
        if window == numbers[0]:
            raise StalltopError("too large")
        return right(window)  # type: ignore[arg-type]

    monkeypatch.setattr(feeds, "frame", refuse)
    numbers = [numbered(0), numbered(1)]
    source, one = FedSource(*numbers), Listener()
    feed, failures = feeding(source)
    feed.listen(one.frames.put)
    found = [one.next()]
    while found[-1] != right(numbers[1]):
        found.append(one.next())
    assert set(found) <= {b"", right(numbers[1])}
    assert failures == []


def test_a_failing_source_is_reported_once(feeding: Feeding) -> None:
    source = FedSource()
    source.put(StalltopError("the probe broke"))
    _, failures = feeding(source)
    assert source.closed.wait(60)
    end = time.monotonic() + 60
    while not failures:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert [str(failure) for failure in failures] == ["the probe broke"]
