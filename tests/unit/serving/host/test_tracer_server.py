"""Tests the server of the tracer: what clients get, and what they cannot do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from stalltop.formats.documents.window import document
from stalltop.model.errors import TracingError
from stalltop.model.merge.history import History
from stalltop.model.merge.packing import Peak
from stalltop.model.window import Window
from stalltop.recordings.message.encoding import encode
from stalltop.serving.host import (
    messages,
    recall,
    tracer_server,
)
from stalltop.serving.host.messages import MessageInbox, message
from stalltop.serving.host.peers import Peer
from stalltop.serving.host.recall import Past, nothing
from stalltop.serving.host.tracer_link import TracerEndedError, TracerRefusesError
from stalltop.serving.host.tracer_server import TracerServer
from tests.tui.sources import numbered
from tests.unit.serving.host.tracers import TRACER, joined, linked, of_tracer, past_of, seated, until


@pytest.fixture
def serving(tracer_socket: Path) -> Iterator[Callable[..., TracerServer]]:
    with ExitStack() as stack:

        def serve(past: Past = nothing) -> TracerServer:
            seat = seated(tracer_socket)
            server = TracerServer(seat.listener, TRACER, past=past)
            server.start()
            stack.callback(seat.close)
            stack.callback(server.stop)
            return server

        yield serve


Serving = Callable[..., TracerServer]


def test_each_client_gets_each_window_and_knows_whose_it_is(serving: Serving, tracer_socket: Path) -> None:
    server = serving()
    links = [joined(tracer_socket, server) for _ in range(3)]
    assert {link.tracer for link in links} == {TRACER}
    for number in range(3):
        server.publish(numbered(number))
        for link in links:
            found = link.take(60)
            assert found is not None
            assert document(found) == of_tracer(numbered(number))
    for link in links:
        link.close()
    until(lambda: server.clients == 0)


def test_windows_are_encoded_once_and_only_for_clients(
    serving: Serving, tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[Window] = []
    right = encode

    def count(window: Window, peak: Peak | None = None) -> bytes:
        encoded.append(window)
        return right(window, peak)

    monkeypatch.setattr(tracer_server, "encode", count)
    server = serving()
    server.publish(numbered(0))
    links = [joined(tracer_socket, server) for _ in range(4)]
    server.publish(numbered(1))
    for link in links:
        assert link.take(60) is not None
        link.close()
    assert len(encoded) == 1


def test_windows_that_wait_are_merged(serving: Serving, tracer_socket: Path) -> None:
    server = serving()
    link = joined(tracer_socket, server)
    calls, seconds = 0, 0.0
    for number in range(5):
        server.publish(numbered(number))
    while seconds < 4.99:
        found = link.take(60)
        assert found is not None
        calls += int(found.rows.calls.sum())
        seconds += found.seconds
    assert calls == 5 * int(numbered(0).rows.calls.sum())
    link.close()


def test_a_client_that_does_not_read_loses_windows_and_is_told_how_many(
    serving: Serving, tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = len(message(messages.WINDOW, encode(numbered(0))))
    monkeypatch.setattr(tracer_server, "MOST_QUEUED", 3 * frame)
    server = serving()
    slow = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    slow.connect(str(tracer_socket))
    slow.sendall(messages.hello_of_client())
    quick = joined(tracer_socket, server)
    until(lambda: server.clients == 2)
    sent = 0
    while server.waiting < 2 * frame:  # the buffers of the socket are full
        server.publish(numbered(sent))
        assert quick.take(60) is not None  # the slow client delays nobody
        sent += 1
    for _ in range(10):
        server.publish(numbered(sent))
        assert quick.take(60) is not None
        sent += 1
    until(lambda: server.waiting <= 3 * frame)
    received, lost, inbox = 0, 0, MessageInbox()
    slow.settimeout(0.2)
    while received + lost < sent:
        try:
            data = slow.recv(1 << 16)
        except TimeoutError:
            server.publish(numbered(sent))  # the number of lost windows comes before the next one
            sent += 1
            continue
        for kind, content in inbox.feed(data):
            received += kind == messages.WINDOW
            lost += messages.lost_of(content) if kind == messages.LOST else 0
    assert lost >= 8
    assert received + lost == sent
    slow.close()
    quick.close()


def test_the_past_comes_newest_first_and_is_bounded(
    serving: Serving, tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall, "MOST_PAST", 3)
    asked: list[float] = []
    peak = Peak(7.5, 1, 2)

    def past(before: float) -> Iterable[tuple[Window, Peak]]:
        asked.append(before)
        for number in (4, 3, 2, 1, 0):
            yield numbered(number), peak

    server = serving(past)
    link = joined(tracer_socket, server, past=True)
    server.publish(numbered(5))
    assert link.take(60) is not None
    history = History()
    history.add(numbered(5))
    parts = past_of(link, 3)
    # What is sent later comes after what was to be sent before, such as a further window of the past.
    server.publish(numbered(6))
    assert link.take(60) is not None
    parts += link.past()
    assert asked == [numbered(5).start]
    assert sorted(part.window.start for part in parts) == [numbered(number).start for number in (2, 3, 4)]
    assert {part.peak for part in parts} == {peak}
    for part in sorted(parts, key=lambda part: -part.window.start):
        history.prepend([part])
    assert [part.window.start for part in history.parts] == [numbered(n).start for n in (2, 3, 4, 5)]
    link.close()


def test_the_past_ends_after_the_most_windows_and_at_a_client_that_takes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recall, "MOST_PAST", 2)
    monkeypatch.setattr(recall, "STALLED_SECONDS", 0.0)
    given: list[tuple[str, bytes]] = []

    def past(before: float) -> Iterable[tuple[Window, Peak]]:
        for number in range(5):
            yield numbered(number), Peak()

    sending = recall.Recall[str](
        past,
        lambda client, frame: given.append((client, frame[:1])),
        lambda client: {"quick": True, "stuck": False}.get(client),
    )
    for client in ("gone", "stuck", "quick"):
        sending.ask(client, 0.0)
    sending.start()
    until(lambda: ("quick", messages.END) in given)
    assert given == [("quick", messages.KEPT), ("quick", messages.KEPT), ("quick", messages.END)]
    sending.stop()


def test_a_client_that_is_not_admitted_is_told_why(
    serving: Serving, tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracer_server, "peer_of", lambda link: Peer(1, 4_242, frozenset((7,))))
    server = serving()
    with pytest.raises(TracerRefusesError, match="does not admit user 4242") as refused:
        linked(tracer_socket)
    assert refused.value.exit_code == TracingError.exit_code
    assert "group" in refused.value.remedy
    assert server.clients == 0


def test_the_number_of_clients_is_bounded(
    serving: Serving, tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracer_server, "MOST_CLIENTS", 2)
    server = serving()
    links = [joined(tracer_socket, server) for _ in range(2)]
    with pytest.raises(TracerRefusesError, match="2 clients already"):
        linked(tracer_socket)
    links.pop().close()
    until(lambda: server.clients == 1)
    links.append(joined(tracer_socket, server))
    for link in links:
        link.close()


def test_a_user_has_few_clients_and_leaves_places_for_root(
    serving: Serving, tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracer_server, "MOST_CLIENTS", 6)
    monkeypatch.setattr(tracer_server, "MOST_OF_USER", 2)
    monkeypatch.setattr(tracer_server, "OWNERS_PLACES", 2)
    monkeypatch.setattr(tracer_server, "is_admitted", lambda peer, group: True)
    users = [4_242]
    monkeypatch.setattr(tracer_server, "peer_of", lambda link: Peer(1, users[0], frozenset((7,))))
    server = serving()
    links = [joined(tracer_socket, server) for _ in range(2)]
    with pytest.raises(TracerRefusesError, match="user 4242 has 2 clients"):
        linked(tracer_socket)
    users[0] = 4_243
    links += [joined(tracer_socket, server) for _ in range(2)]
    users[0] = 4_244
    with pytest.raises(TracerRefusesError, match="keeps 2 places for root"):
        linked(tracer_socket)
    users[0] = 0
    links += [joined(tracer_socket, server) for _ in range(2)]
    for link in links:
        link.close()


def test_what_waits_for_all_clients_together_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(tracer_server, "MOST_QUEUED", 100)
    client = tracer_server._Client(ours, Peer(1, 0, frozenset()))
    client.offer(b"x" * 500, room=-1)  # nothing waits for this client: it has done nothing wrong
    assert (client.queued, client.lost) == (500, 0)
    client.offer(b"x" * 10, room=1_000)
    assert (client.queued, client.lost) == (500, 1)
    client.outbox.clear()
    client.queued = 50
    client.offer(b"x" * 10, room=9)
    assert client.lost == 2
    client.offer(b"x" * 10, room=10)
    assert (client.queued > 60, client.lost) == (True, 0)
    ours.close()
    theirs.close()


def test_a_window_that_cannot_be_encoded_is_lost_and_the_client_is_told_at_once(
    serving: Serving, tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(window: Window, peak: Peak | None = None) -> bytes:
        raise RuntimeError("a fault of the program")

    server = serving()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as raw:
        raw.connect(str(tracer_socket))
        raw.settimeout(60)
        raw.sendall(messages.hello_of_client())
        until(lambda: server.clients == 1)
        monkeypatch.setattr(tracer_server, "encode", fail)
        server.publish(numbered(0))
        kinds: dict[bytes, bytes] = {}
        inbox = MessageInbox()
        while messages.LOST not in kinds:
            kinds.update(inbox.feed(raw.recv(1 << 16)))
        assert messages.lost_of(kinds[messages.LOST]) == 1


def test_an_error_with_one_client_ends_this_client_only(
    serving: Serving, tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serving()
    good = joined(tracer_socket, server)

    def fail(content: bytes) -> int:
        raise RuntimeError("a fault of the program")

    with monkeypatch.context() as patch:
        patch.setattr(messages, "common_version", fail)
        with pytest.raises(TracerEndedError):
            linked(tracer_socket)
    server.publish(numbered(1))
    assert good.take(60) is not None
    good.close()


def test_a_server_that_ends_by_an_error_says_so_and_closes_everything(
    tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Exception] = []
    seat = seated(tracer_socket)

    def failed(error: Exception) -> None:
        seat.close()
        failures.append(error)

    server = TracerServer(seat.listener, TRACER, failed=failed)
    server.start()
    link = joined(tracer_socket, server)

    def fail() -> None:
        raise RuntimeError("a fault of the program")

    monkeypatch.setattr(server, "_pass_on", fail)
    server.publish(numbered(0))
    until(lambda: failures)
    assert str(failures[0]) == "a fault of the program"
    until(lambda: link.ended)
    server.publish(numbered(1))  # does nothing
    server.stop()
    link.close()
    seated(tracer_socket).close()  # another process can be the tracer


def test_the_past_is_sent_to_clients_in_turn_and_ends_at_an_error(
    serving: Serving, tracer_socket: Path
) -> None:
    def past(before: float) -> Iterable[tuple[Window, Peak]]:
        for number in (4, 3):
            yield numbered(number), Peak()
        raise KeyError("a row that was deleted meanwhile")

    def threads() -> int:
        return sum(thread.name == "stalltop-past" for thread in threading.enumerate())

    before = threads()
    server = serving(past)
    links = [joined(tracer_socket, server, past=True) for _ in range(3)]
    server.publish(numbered(5))
    for link in links:
        assert link.take(60) is not None
        assert len(past_of(link, 2)) == 2
    assert threads() <= before + 1
    server.publish(numbered(6))
    for link in links:
        assert link.take(60) is not None
        link.close()


def test_a_server_is_stopped_while_windows_are_published(tracer_socket: Path) -> None:
    for _ in range(5):
        seat = seated(tracer_socket)
        server = TracerServer(seat.listener, TRACER)
        server.start()
        link = joined(tracer_socket, server)
        ended = threading.Event()

        def publish(to: TracerServer = server, ended: threading.Event = ended) -> None:
            while not ended.is_set():
                to.publish(numbered(0))

        publisher = threading.Thread(target=publish)
        publisher.start()
        server.stop()
        ended.set()
        publisher.join()
        link.close()
        seat.close()


def test_a_server_that_was_never_started_can_be_stopped(tracer_socket: Path) -> None:
    seat = seated(tracer_socket)
    server = TracerServer(seat.listener, TRACER)
    server.stop()
    server.stop()
    seat.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        message(messages.PAST, b"{}"),
        message(messages.HELLO, b"[]"),
        message(messages.HELLO, b'{"versions": [7, 9]}'),
        messages.hello_of_client() + message(messages.PAST, b"x"),
        messages.hello_of_client() + b"P" + b"\xff" * 10,
    ],
)
def test_what_is_no_message_ends_this_client_only(serving: Serving, tracer_socket: Path, sent: bytes) -> None:
    server = serving()
    good = joined(tracer_socket, server)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bad:
        bad.connect(str(tracer_socket))
        bad.settimeout(60)
        bad.sendall(sent)
        answer = b""
        while data := bad.recv(1 << 16):
            answer += data
    kinds = [kind for kind, _ in MessageInbox().feed(answer)]
    assert kinds[-1] == messages.REFUSED
    server.publish(numbered(1))
    assert good.take(60) is not None
    good.close()


def test_a_client_that_says_nothing_is_dropped(
    serving: Serving, tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracer_server, "HELLO_SECONDS", 0.05)
    serving()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.connect(str(tracer_socket))
        silent.settimeout(60)
        assert silent.recv(10) == b""


def test_the_tracer_gives_signs_of_life(
    serving: Serving, tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracer_server, "ALIVE_SECONDS", 0.02)
    server = serving()
    link = joined(tracer_socket, server)
    before = link.heard
    until(lambda: link.heard > before + 0.05)
    link.close()
