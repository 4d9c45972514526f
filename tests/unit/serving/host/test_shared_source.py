"""Tests the tracer's own windows, which are also passed to its clients."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from stalltop.model.errors import StalltopError
from stalltop.model.merge.history import History
from stalltop.serving.host import (
    shared_source,
    starting_server,
)
from stalltop.serving.host.shared_source import SharedSource
from stalltop.serving.host.starting_server import StartingServer
from stalltop.serving.host.tracer_server import TracerServer
from tests.tui.sources import FedSource, numbered
from tests.unit.serving.host.tracers import TRACER, linked, seated, tracing, until


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
