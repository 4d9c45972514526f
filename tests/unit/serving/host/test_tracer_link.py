"""Tests a client's connection to a tracer, also to one that sends anything."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress

import pytest

from stalltop.model.errors import StalltopError
from stalltop.recordings.message.encoding import encode
from stalltop.serving.host import (
    messages,
    tracer_link,
)
from stalltop.serving.host.messages import message
from stalltop.serving.host.place import TracerSilentError
from stalltop.serving.host.tracer_link import TracerEndedError, TracerLink, TracerRefusesError
from tests.tui.sources import numbered
from tests.unit.serving.host.tracers import TRACER


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
