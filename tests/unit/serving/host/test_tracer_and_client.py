"""Tests the tracer's server and its clients, in one process."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.formats.documents.window import document
from stalltop.model.errors import StalltopError, TracingError
from stalltop.model.hosts.tracer import Tracer
from stalltop.model.merge.history import History
from stalltop.model.merge.packing import Packed, Peak
from stalltop.model.source import Source
from stalltop.model.window import Window
from stalltop.recordings.message.encoding import encode
from stalltop.serving.host import (
    host_source,
    messages,
    recall,
    shared_source,
    starting_server,
    tracer_link,
    tracer_server,
)
from stalltop.serving.host.host_source import HostSource, NoMoreWindowsError
from stalltop.serving.host.messages import MessageError, MessageInbox, message
from stalltop.serving.host.peers import Peer
from stalltop.serving.host.place import TracerPlace, TracerSeat, TracerSilentError, claim
from stalltop.serving.host.recall import Past, nothing
from stalltop.serving.host.shared_source import SharedSource
from stalltop.serving.host.starting_server import StartingServer
from stalltop.serving.host.tracer_link import TracerEndedError, TracerLink, TracerRefusesError
from stalltop.serving.host.tracer_server import TracerServer
from tests.tui.sources import FedSource, numbered

TRACER = Tracer(4711, "root", 1_700_000_000.0, "stalltop record")


def until(look: Callable[[], object], seconds: float = 60.0) -> None:
    """Waits until ``look`` returns something true."""
    end = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < end
        time.sleep(0.005)


def seated(path: Path) -> TracerSeat:
    found = claim(TracerPlace(path))
    assert isinstance(found, TracerSeat)
    return found


def linked(path: Path, *, past: bool = False) -> TracerLink:
    found = claim(TracerPlace(path))
    assert isinstance(found, socket.socket)
    return TracerLink(found, past=past)


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


def joined(path: Path, server: TracerServer, **options: bool) -> TracerLink:
    before = server.clients
    link = linked(path, **options)
    link.start(lambda: None)
    until(lambda: server.clients > before)
    return link


def past_of(link: TracerLink, count: int) -> list[Packed]:
    """Waits for ``count`` windows of the past."""
    parts: list[Packed] = []

    def enough() -> bool:
        parts.extend(link.past())
        return len(parts) >= count

    until(enough)
    return parts


def of_tracer(window: Window) -> dict[str, object]:
    """Returns what a client shows of ``window``."""
    return document(replace(window, coverage=replace(window.coverage, tracer=TRACER)))


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
    while server.most_waiting < 2 * frame:  # the buffers of the socket are full
        server.publish(numbered(sent))
        assert quick.take(60) is not None  # the slow client delays nobody
        sent += 1
    for _ in range(10):
        server.publish(numbered(sent))
        assert quick.take(60) is not None
        sent += 1
    assert server.most_waiting <= 3 * frame
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


def test_a_client_says_that_windows_were_lost() -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(messages.hello_of_tracer(1, TRACER) + messages.told(messages.LOST, windows=7))
    ours.sendall(message(messages.WINDOW, encode(numbered(0))))
    link = TracerLink(theirs)
    link.start(lambda: None)
    found = link.take(60)
    assert found is not None
    assert found.coverage.missing[-1].reason.startswith("7 windows before this one are missing")
    link.close()
    ours.close()


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


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        message(messages.WINDOW, b"xx"),
        messages.hello_of_tracer(9, TRACER),
        message(messages.HELLO, b"{}"),
    ],
)
def test_a_client_refuses_what_is_no_tracer(sent: bytes) -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(sent)
    ours.shutdown(socket.SHUT_WR)
    with pytest.raises(StalltopError):
        TracerLink(theirs)
    ours.close()


def test_a_tracer_that_does_not_greet_is_an_error_even_if_it_sends_byte_after_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracer_link, "ANSWER_SECONDS", 0.2)
    ours, theirs = socket.socketpair()
    ended = threading.Event()

    def trickle() -> None:
        for byte in messages.hello_of_tracer(1, TRACER):
            if ended.wait(0.05):
                return
            with suppress(BrokenPipeError):
                ours.sendall(bytes((byte,)))

    sender = threading.Thread(target=trickle)
    sender.start()
    with pytest.raises(TracerSilentError, match=f"PID {os.getpid()}.*does not answer") as silent:
        TracerLink(theirs)
    assert f"kill -CONT {os.getpid()}" in silent.value.remedy
    ended.set()
    sender.join()
    ours.close()


def test_a_tracer_that_ends_during_the_greeting_is_told_apart() -> None:
    ours, theirs = socket.socketpair()
    ours.shutdown(socket.SHUT_WR)
    with pytest.raises(TracerEndedError):
        TracerLink(theirs)
    ours.close()


def test_the_reason_of_a_refusal_is_read_although_the_connection_is_closed() -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(messages.told(messages.REFUSED, reason="too many", remedy="end one"))
    ours.close()
    with pytest.raises(TracerRefusesError, match="too many"):
        TracerLink(theirs)


def test_an_invalid_window_is_counted_as_lost() -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(messages.hello_of_tracer(1, TRACER) + message(messages.WINDOW, b"invalid"))
    ours.sendall(message(messages.KEPT, b"invalid") + message(messages.WINDOW, encode(numbered(0))))
    link = TracerLink(theirs)
    link.start(lambda: None)
    found = link.take(60)
    assert found is not None
    assert found.coverage.missing[-1].reason.startswith("1 windows before this one are missing")
    assert link.past() == []
    link.close()
    ours.close()


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (messages.told(messages.LOST, windows="many"), MessageError),
        (b"W" + b"\xff" * 4, MessageError),
        (messages.told(messages.REFUSED, reason="no longer"), TracerRefusesError),
    ],
)
def test_an_invalid_message_ends_the_client_which_then_looks_for_no_tracer(
    tracer_socket: Path, sent: bytes, error: type[StalltopError]
) -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(messages.hello_of_tracer(1, TRACER))
    link = TracerLink(theirs)
    ours.sendall(sent)
    traced: list[TracerSeat] = []

    def trace(seat: TracerSeat) -> Source:
        traced.append(seat)
        return FedSource()

    said: list[str] = []
    client = HostSource(link, TracerPlace(tracer_socket), trace, tell=said.append)
    for _ in range(2):
        with pytest.raises(error):
            client.read()
    link._thread.join(60)
    assert (traced, said) == ([], [])
    client.close()
    ours.close()


# ---- the tracer's own windows, and taking its place


def tracing(seat: TracerSeat, source: Source, tracer: Tracer = TRACER, **options: object) -> SharedSource:
    server = TracerServer(seat.listener, tracer)
    server.start()
    return SharedSource(source, seat, server, **options)  # type: ignore[arg-type]


def count_looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list that gets an element each time the number of clients is asked for."""
    looked: list[int] = []
    count = vars(TracerServer)["clients"].fget

    def clients(server: TracerServer) -> int:
        found: int = count(server)
        looked.append(found)
        return found

    monkeypatch.setattr(TracerServer, "clients", property(clients))
    return looked


def test_clients_get_windows_while_the_tracer_itself_does_not_read(
    tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_source, "PACE_SECONDS", 0.02)
    monkeypatch.setattr(shared_source, "_LATE_SECONDS", 0.01)
    source = FedSource(*(numbered(number) for number in range(3)))
    history = History()
    shared = tracing(seated(tracer_socket), source, history=history)
    looked = count_looks(monkeypatch)
    until(lambda: len(looked) > 3)
    assert source.reads == 0  # nobody wants windows
    link = linked(tracer_socket)
    link.start(lambda: None)
    seconds = 0.0
    while seconds < 2.99:
        found = link.take(60)
        assert found is not None
        seconds += found.seconds
    source.put(numbered(3))
    own = shared.read()  # the tracer's own screen misses nothing
    assert (own.start, own.end) == (numbered(0).start, numbered(3).end)
    assert int(own.rows.calls.sum()) == 4 * int(numbered(0).rows.calls.sum())
    assert len(history) == 4
    link.close()
    source.release()
    shared.close()
    assert source.closed.is_set()


def test_the_server_starts_after_the_first_window_so_that_it_does_not_delay_it(tracer_socket: Path) -> None:
    started: list[int] = []
    source = FedSource(numbered(0), numbered(1))
    seat = seated(tracer_socket)

    def serve() -> TracerServer:
        started.append(source.reads)
        server = TracerServer(seat.listener, TRACER)
        server.start()
        return server

    shared = SharedSource(source, seat, StartingServer(serve))
    shared.read()
    link = linked(tracer_socket)
    assert started == [1]
    link.start(lambda: None)
    until(lambda: shared.clients == 1)
    shared.read()
    assert link.take(60) is not None
    link.close()
    shared.close()


def test_the_server_starts_although_there_is_no_window_yet(
    tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting_server, "START_SECONDS", 0.01)
    seat = seated(tracer_socket)

    def serve() -> TracerServer:
        server = TracerServer(seat.listener, TRACER)
        server.start()
        return server

    starting = StartingServer(serve)
    link = linked(tracer_socket)  # while the BPF programs are compiled, for instance
    assert link.tracer == TRACER
    link.start(lambda: None)
    link.close()
    starting.stop()
    seat.close()


def test_no_server_starts_after_the_end(tracer_socket: Path) -> None:
    seat = seated(tracer_socket)
    started = threading.Event()

    def serve() -> TracerServer:
        started.set()
        return TracerServer(seat.listener, TRACER)

    starting = StartingServer(serve)
    starting.stop()
    starting.publish(numbered(0))
    assert not started.wait(0.1)
    seat.close()


def test_an_error_of_a_read_for_clients_is_raised_by_the_next_read(
    tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_source, "PACE_SECONDS", 0.02)
    monkeypatch.setattr(shared_source, "_LATE_SECONDS", 0.01)
    source = FedSource()
    source.put(StalltopError("the probe broke"))
    shared = tracing(seated(tracer_socket), source)
    link = linked(tracer_socket)
    link.start(lambda: None)
    until(lambda: source.reads == 1)
    with pytest.raises(StalltopError, match="the probe broke"):
        shared.read()
    link.close()
    shared.close()


def test_a_client_takes_the_place_of_a_tracer_that_ended(tracer_socket: Path) -> None:
    first = FedSource(numbered(0))
    shared = tracing(seated(tracer_socket), first)
    one = numbered(1)
    mine = FedSource(replace(one, coverage=replace(one.coverage, tracer=None)))
    said: list[str] = []
    client = HostSource(
        linked(tracer_socket),
        TracerPlace(tracer_socket),
        lambda seat: tracing(seat, mine, replace(TRACER, pid=5_000)),
        tell=said.append,
    )
    until(lambda: shared.clients == 1)
    shared.read()
    assert client.read().coverage.tracer == TRACER
    shared.close()
    assert client.read().coverage.tracer is None
    assert said == [f"the tracer ended ({TRACER.text}); this stalltop traces now"]
    third = linked(tracer_socket)  # it serves others, too
    assert third.tracer.pid == 5_000
    third.start(lambda: None)
    third.close()
    client.close()
    assert mine.closed.is_set()


def test_a_client_that_may_not_trace_goes_on_with_the_next_tracer(tracer_socket: Path) -> None:
    shared = tracing(seated(tracer_socket), FedSource(numbered(0)))
    said: list[str] = []
    history = History()
    client = HostSource(
        linked(tracer_socket), TracerPlace(tracer_socket), None, tell=said.append, history=history
    )
    shared.close()
    following = FedSource(numbered(1))
    next_one = tracing(seated(tracer_socket), following, replace(TRACER, pid=5_000, command="stalltop"))
    until(lambda: next_one.clients == 1)
    next_one.read()
    found = client.read().coverage.tracer
    assert found is not None
    assert found.pid == 5_000
    assert len(said) == 1
    assert "its place has PID 5000" in said[0]
    client.close()
    next_one.close()


def test_a_client_that_is_closed_while_it_connects_leaves_the_next_tracer(
    tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tracing(seated(tracer_socket), FedSource(numbered(0)))
    client = HostSource(linked(tracer_socket), TracerPlace(tracer_socket), None, tell=lambda line: None)
    made: list[TracerLink] = []

    def connect(found: socket.socket) -> TracerLink:
        link = TracerLink(found)
        client.close()
        made.append(link)
        return link

    monkeypatch.setattr(host_source, "TracerLink", connect)
    shared.close()
    next_one = tracing(seated(tracer_socket), FedSource(numbered(1)))
    until(lambda: made)
    until(lambda: next_one.clients == 0)
    next_one.close()


@pytest.mark.parametrize("why", ["", "needs root"])
def test_a_client_without_a_tracer_says_why(
    tracer_socket: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr(host_source, "SEARCH_SECONDS", 0.2)
    shared = tracing(seated(tracer_socket), FedSource())

    def trace(seat: TracerSeat) -> Source:
        seat.close()
        raise TracingError(why)

    client = HostSource(
        linked(tracer_socket), TracerPlace(tracer_socket), trace if why else None, tell=lambda line: None
    )
    shared.close()
    with pytest.raises(StalltopError, match=f"there is no other.*{why}") as failed:
        client.read()
    assert "stalltop record" in failed.value.remedy
    client.close()


def test_a_silent_tracer_is_an_error_unless_the_client_is_patient(
    tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_source, "SILENT_SECONDS", 0.1)
    ours, theirs = socket.socketpair()
    ours.sendall(messages.hello_of_tracer(1, TRACER))
    client = HostSource(TracerLink(theirs), TracerPlace(tracer_socket), None, tell=lambda line: None)
    with pytest.raises(StalltopError, match="silent") as failed:
        client.read()
    assert "kill -CONT 4711" in failed.value.remedy
    client.close()
    ours.close()
    patient, other = socket.socketpair()
    patient.sendall(messages.hello_of_tracer(1, TRACER))
    client = HostSource(
        TracerLink(other), TracerPlace(tracer_socket), None, tell=lambda line: None, patient=True
    )
    late = threading.Timer(0.5, patient.sendall, (message(messages.WINDOW, encode(numbered(0))),))
    late.start()
    assert client.read().coverage.tracer == TRACER
    client.close()
    patient.close()


def test_a_tracer_that_lives_but_sends_no_window_is_an_error(
    tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_source, "WINDOW_SECONDS", 0.1)
    ours, theirs = socket.socketpair()
    ours.sendall(messages.hello_of_tracer(1, TRACER) + messages.told(messages.LOST, windows=7))
    client = HostSource(TracerLink(theirs), TracerPlace(tracer_socket), None, tell=lambda line: None)
    with pytest.raises(StalltopError, match=r"has sent no window for .* 7 were lost"):
        client.read()
    client.close()
    ours.close()


@pytest.mark.parametrize(("end", "error"), [("leave", NoMoreWindowsError), ("close", RuntimeError)])
def test_a_read_that_waits_is_ended(
    tracer_socket: Path, monkeypatch: pytest.MonkeyPatch, end: str, error: type[Exception]
) -> None:
    monkeypatch.setattr(host_source, "LEAVE_SECONDS", 0.1)
    ours, theirs = socket.socketpair()
    ours.sendall(messages.hello_of_tracer(1, TRACER))
    client = HostSource(
        TracerLink(theirs), TracerPlace(tracer_socket), None, tell=lambda line: None, patient=True
    )
    timer = threading.Timer(0.05, getattr(client, end))
    timer.start()
    with pytest.raises(error):
        client.read()
    timer.join()
    client.close()
    ours.close()


def test_the_tracer_gives_signs_of_life(
    serving: Serving, tracer_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracer_server, "ALIVE_SECONDS", 0.02)
    server = serving()
    link = joined(tracer_socket, server)
    before = link.heard
    until(lambda: link.heard > before + 0.05)
    link.close()
