"""Tests which client prepares to take the place of the tracer."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.model.errors import TracingError
from stalltop.serving.host import host_source
from stalltop.serving.host.host_source import HostSource
from stalltop.serving.host.place import TracerPlace, TracerSeat
from stalltop.serving.host.shared_source import SharedSource
from stalltop.serving.host.standby import Standby, another_goes_first
from tests.tui.sources import MadeSource, numbered
from tests.unit.serving.host.tracers import linked, seated, tracing, until

HOLDER = """
import sys, time
from pathlib import Path
from stalltop.serving.host.place import TracerPlace
from stalltop.serving.host.standby import Standby
standby = Standby(TracerPlace(Path(sys.argv[1])), lambda: 1, bool)
while not standby._made:
    time.sleep(0.01)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tracer_socket: Path) -> TracerPlace:
    tracer_socket.parent.mkdir(mode=0o755, exist_ok=True)
    return TracerPlace(tracer_socket)


@pytest.fixture
def holder(place: TracerPlace) -> Iterator[subprocess.Popen[str]]:
    """Another process that is prepared."""
    command = [sys.executable, "-c", HOLDER, str(place.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        yield holder
        holder.kill()


class Making:
    """Counts what was made and dropped."""

    def __init__(self) -> None:
        self.made = 0
        self.dropped: list[int] = []
        self.may_end = threading.Event()
        self.may_end.set()

    def make(self) -> int:
        self.may_end.wait()
        self.made += 1
        return self.made

    def standby(self, place: TracerPlace) -> Standby[int]:
        return Standby(place, self.make, self.dropped.append)


def test_one_client_prepares_and_the_next_one_when_it_takes_what_it_made(place: TracerPlace) -> None:
    making = Making()
    first = making.standby(place)
    until(lambda: making.made)
    second = making.standby(place)
    time.sleep(0.1)
    assert making.made == 1
    assert first.goes_first
    assert not second.goes_first
    assert another_goes_first(place, second)
    assert not another_goes_first(place, first)
    assert first.take() == 1
    until(lambda: making.made == 2)
    assert another_goes_first(place, first)
    second.close()
    first.close()
    assert making.dropped == [2]
    assert not another_goes_first(place, None)


def test_the_next_client_prepares_when_the_prepared_one_is_killed(
    place: TracerPlace, holder: subprocess.Popen[str]
) -> None:
    making = Making()
    mine = making.standby(place)
    time.sleep(0.1)
    assert making.made == 0
    assert another_goes_first(place, mine)
    holder.kill()
    until(lambda: making.made)
    assert mine.take() == 1


def test_a_client_that_is_not_prepared_takes_nothing_and_prepares_no_more(
    place: TracerPlace, holder: subprocess.Popen[str]
) -> None:
    making = Making()
    mine = making.standby(place)
    assert mine.take() is None
    holder.kill()
    holder.wait()
    time.sleep(0.2)
    assert making.made == 0
    assert not another_goes_first(place, None)


def test_what_is_being_prepared_is_awaited_or_dropped_later(place: TracerPlace) -> None:
    making = Making()
    making.may_end.clear()
    mine = making.standby(place)
    until(lambda: mine.goes_first)
    threading.Timer(0.2, making.may_end.set).start()
    assert mine.take() == 1
    making.may_end.clear()
    other = making.standby(place)
    until(lambda: other.goes_first)
    began = time.monotonic()
    other.close()
    assert time.monotonic() - began < 5.0
    assert making.dropped == []
    making.may_end.set()
    until(lambda: making.dropped == [2])


def test_a_client_that_cannot_prepare_leaves_it_to_others(place: TracerPlace) -> None:
    def refused() -> int:
        raise TracingError("this user may not trace")

    mine = Standby(place, refused, bool)
    until(lambda: not mine._thread.is_alive())
    assert not mine.goes_first
    assert mine.take() is None
    making = Making()
    other = making.standby(place)
    until(lambda: making.made)
    other.close()


def test_a_client_lets_the_prepared_one_go_first_but_not_for_ever(
    place: TracerPlace, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_source, "FIRST_SECONDS", 0.5)
    tracer = tracing(seated(place.path), MadeSource(numbered))
    taken: list[float] = []

    def trace(seat: TracerSeat) -> SharedSource:
        taken.append(time.monotonic())
        return tracing(seat, MadeSource(numbered))

    source = HostSource(linked(place.path), place, trace, tell=lambda _: None)
    tracer.read()
    source.read()
    ended = time.monotonic()
    tracer.close()
    source.read()
    assert taken[0] - ended >= 0.5
    source.close()
