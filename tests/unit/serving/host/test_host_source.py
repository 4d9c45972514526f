"""Tests that a client goes on when its tracer ends, or says why not."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.model.errors import StalltopError, TracingError
from stalltop.model.merge.history import History
from stalltop.model.source import Source
from stalltop.recordings.message.encoding import encode
from stalltop.serving.host import (
    host_source,
    messages,
)
from stalltop.serving.host.host_source import HostSource, NoMoreWindowsError
from stalltop.serving.host.messages import MessageError, message
from stalltop.serving.host.place import TracerPlace, TracerSeat
from stalltop.serving.host.tracer_link import TracerLink, TracerRefusesError
from tests.tui.sources import FedSource, numbered
from tests.unit.serving.host.tracers import TRACER, linked, seated, tracing, until


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
    monkeypatch.setattr(host_source, "SEARCH_SECONDS", 0.4)
    monkeypatch.setattr(host_source, "SAY_SECONDS", 0.0)
    said: list[str] = []
    shared = tracing(seated(tracer_socket), FedSource())

    def trace(seat: TracerSeat) -> Source:
        seat.close()
        raise TracingError(why)

    client = HostSource(
        linked(tracer_socket), TracerPlace(tracer_socket), trace if why else None, tell=said.append
    )
    shared.close()
    with pytest.raises(StalltopError, match=f"there is no other.*{why}") as failed:
        client.read()
    assert "stalltop record" in failed.value.remedy
    (line,) = said  # long before it gives up
    assert line.endswith("looking for another one")
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
