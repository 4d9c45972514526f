"""Helps tests of the tracer and its clients, which are in one process."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from stalltop.formats.documents.window import document
from stalltop.model.hosts.tracer import Tracer
from stalltop.model.merge.packing import Packed
from stalltop.model.source import Source
from stalltop.model.window import Window
from stalltop.serving.host.place import TracerPlace, TracerSeat, claim
from stalltop.serving.host.shared_source import SharedSource
from stalltop.serving.host.tracer_link import TracerLink
from stalltop.serving.host.tracer_server import TracerServer

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


def tracing(seat: TracerSeat, source: Source, tracer: Tracer = TRACER, **options: object) -> SharedSource:
    server = TracerServer(seat.listener, tracer)
    server.start()
    return SharedSource(source, seat, server, **options)  # type: ignore[arg-type]


@contextlib.contextmanager
def publishing(path: Path, make: Callable[[], Window]) -> Iterator[None]:
    """A tracer that publishes what ``make`` returns, twenty times a second."""
    seat = seated(path)
    server = TracerServer(seat.listener, TRACER)
    server.start()
    ended = threading.Event()

    def publish() -> None:
        while not ended.wait(0.05):
            server.publish(make())

    thread = threading.Thread(target=publish, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        server.stop()
        seat.close()
