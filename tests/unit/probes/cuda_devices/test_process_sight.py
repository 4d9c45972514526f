"""Tests reading processes whose file systems may hang: no window waits long; other processes are read."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.probes.cuda_devices import process_sight
from stalltop.probes.cuda_devices.process_sight import (
    HANG_SECONDS,
    MOST_HANGING,
    ProcessNotVisibleError,
    Sight,
    Sights,
)
from stalltop.probes.tenants.environment import Environments


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def sights(released: threading.Event, monkeypatch: pytest.MonkeyPatch) -> Sights:
    """Returns Sights; reading a process with a PID of 100 or more hangs until ``released`` is set."""

    def look(pid: int, root: Path, environments: Environments) -> Sight:
        if pid >= 100:
            released.wait()
        if pid == 0:
            raise FileNotFoundError
        return Sight(({"PID": str(pid)},))

    monkeypatch.setattr(process_sight, "sight_of", look)
    return Sights(patience_seconds=60)


@pytest.mark.parametrize("code", [errno.ETIMEDOUT, errno.ECHILD])
def test_a_sight_that_was_not_answered_is_unknown_and_not_asked_again(code: int) -> None:
    asked: list[int] = []

    def read(pid: int) -> Sight:
        asked.append(pid)
        raise OSError(code, "no answer")

    sights = Sights(patience_seconds=60, read=read)
    for _ in range(3):
        sights.begin()
        with pytest.raises(ProcessNotVisibleError):
            sights.of((1, 5))
    assert asked == [1]
    sights.close()


def impatient(sights: Sights) -> Sights:
    sights._left = 0.0
    return sights


def test_each_program_is_read_once(sights: Sights, monkeypatch: pytest.MonkeyPatch) -> None:
    found = sights.of((1, 5))
    assert found == Sight(({"PID": "1"},))
    assert sights.of((0, 5)) is None, "the process has ended"
    monkeypatch.setattr(process_sight, "sight_of", lambda pid, root, environments: Sight(()))
    assert sights.of((1, 5)) is found
    assert sights.of((1, 6)) == Sight(()), "another program of the process is read anew"
    sights.forget(1)
    assert sights.of((1, 5)) == Sight(())
    sights.close()
    sights.close()


def test_a_late_answer_is_used_in_the_next_window(sights: Sights, released: threading.Event) -> None:
    with pytest.raises(ProcessNotVisibleError):
        impatient(sights).of((100, 1))
    with pytest.raises(ProcessNotVisibleError):
        sights.of((1, 1))
    released.set()
    assert sights._aside.wait(60)
    sights.begin()
    assert sights.of((100, 1)) == Sight(({"PID": "100"},))
    assert sights.of((1, 1)) == Sight(({"PID": "1"},))


def test_hanging_reads_are_given_up(sights: Sights, released: threading.Event) -> None:
    now = 0.0
    sights._clock = lambda: now
    for number in range(MOST_HANGING + 1):
        sights.begin()
        with pytest.raises(ProcessNotVisibleError):
            impatient(sights).of((100 + number, 1))
        sights.begin()
        with pytest.raises(ProcessNotVisibleError):
            sights.of((1 + number, 1))  # no other process is read: the slow read may still finish
        now += HANG_SECONDS
        sights.begin()
        with pytest.raises(ProcessNotVisibleError):
            sights.of((100 + number, 1))
        if number < MOST_HANGING:
            assert sights.of((1 + number, 1)) is not None, "other processes must still be read"
    with pytest.raises(ProcessNotVisibleError):
        sights.of((50, 1))


def test_links_in_a_container_resolve_inside_it(tmp_path: Path) -> None:
    own = tmp_path / "proc/7/root"
    for folder in ("dev", "run/pipes", "tmp"):
        (own / folder).mkdir(parents=True)
    (tmp_path / "proc/7/environ").write_bytes(b"")
    (own / "dev/nvidia3").touch()
    (own / "tmp/nvidia-mps").symlink_to("/run/pipes")
    environments = Environments(tmp_path)
    assert process_sight.sight_of(7, tmp_path, environments) == Sight(({},), frozenset({3}), True, False)
    (own / "run/pipes/control").touch()
    assert process_sight.sight_of(7, tmp_path, environments).mps
