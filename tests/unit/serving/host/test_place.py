"""Tests which process becomes the tracer, and who may be its client."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.model.errors import TracingError, UsageError
from stalltop.serving.host import place as places
from stalltop.serving.host.peers import Peer, is_admitted, peer_of
from stalltop.serving.host.place import NoSeat, TracerPlace, TracerSeat, TracerSilentError, claim, connected


@pytest.fixture
def spot(tracer_socket: Path) -> TracerPlace:
    return TracerPlace(tracer_socket)


@pytest.fixture
def seat(spot: TracerPlace) -> Iterator[TracerSeat]:
    found = claim(spot)
    assert isinstance(found, TracerSeat)
    yield found
    found.close()


def test_the_first_is_the_tracer_and_the_next_ones_are_clients(spot: TracerPlace, seat: TracerSeat) -> None:
    for _ in range(3):
        link = claim(spot)
        assert isinstance(link, socket.socket)
        link.close()
    assert stat.S_IMODE(spot.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(spot.path.parent.stat().st_mode) == 0o755


def test_the_files_of_a_killed_tracer_are_released_before_its_links(
    spot: TracerPlace, seat: TracerSeat
) -> None:
    """The Linux kernel releases the file with the highest number first."""
    high = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 16) * 3 // 4
    of_seat = {
        name
        for name in map(int, os.listdir("/proc/self/fd"))
        if name >= high and os.readlink(f"/proc/self/fd/{name}").startswith(("socket:", str(spot.path)))
    }
    assert seat.listener.fileno() in of_seat
    assert len(of_seat) == 2


def test_few_open_files_are_no_error(spot: TracerPlace) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    reading, writing = os.pipe()
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        assert places.released_first(reading) == reading
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    os.close(reading)
    os.close(writing)


def test_the_socket_of_an_ended_tracer_is_replaced(spot: TracerPlace, seat: TracerSeat) -> None:
    seat.close()
    assert connected(spot.path) is None
    again = claim(spot)
    assert isinstance(again, TracerSeat)
    link = connected(spot.path)
    assert link is not None
    link.close()
    again.close()


def test_a_tracer_that_holds_the_lock_and_listens_late_is_awaited(
    spot: TracerPlace, seat: TracerSeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "WAIT_SECONDS", 0.1)
    spot.path.unlink()
    with pytest.raises(Exception, match="holds the lock"):
        claim(spot)


def test_a_tracer_that_accepts_nobody_is_an_error_at_once(spot: TracerPlace) -> None:
    """A stopped process accepts no connection: without a time limit, connect waits for ever."""
    spot.path.parent.mkdir(mode=0o755)
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as links:
        listener.bind(os.fspath(spot.path))
        listener.listen(0)
        found = connected(spot.path)
        assert found is not None
        links.enter_context(found)
        began = time.monotonic()
        with pytest.raises(TracerSilentError, match="does not answer"):
            connected(spot.path)
        assert time.monotonic() - began < places.ANSWER_SECONDS


def test_a_file_that_is_no_socket_is_not_removed(spot: TracerPlace) -> None:
    spot.path.parent.mkdir(mode=0o755)
    spot.path.write_text("precious")
    with pytest.raises(UsageError, match="no socket"):
        claim(spot)
    assert spot.path.read_text() == "precious"


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_nobody_is_the_tracer_where_others_may_write(spot: TracerPlace, mode: int) -> None:
    spot.path.parent.mkdir()
    spot.path.parent.chmod(mode)
    found = claim(spot)
    assert isinstance(found, NoSeat)
    assert found.reason.endswith(f"others may write in {spot.path.parent}")
    assert not spot.path.exists()


def test_a_client_does_not_trust_a_stranger(
    spot: TracerPlace, seat: TracerSeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "peer_of", lambda link: Peer(1, 4_242, frozenset((7,))))
    link = connected(spot.path)  # nobody else could have made the socket in this folder
    assert link is not None
    link.close()
    spot.path.parent.chmod(0o777)
    with pytest.raises(TracingError, match="is that of user 4242"):
        connected(spot.path)
    monkeypatch.undo()
    link = connected(spot.path)
    assert link is not None
    link.close()


def test_a_lock_on_a_removed_file_is_none(spot: TracerPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    flock = fcntl.flock
    removed: list[Path] = []

    def remove(descriptor: int, operation: int) -> None:
        lock = Path(f"{spot.path}.lock")
        if not removed:
            lock.unlink()
            removed.append(lock)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", remove)
    found = claim(spot)
    assert isinstance(found, TracerSeat)
    with Path(f"{spot.path}.lock").open() as lock, pytest.raises(BlockingIOError):
        flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    found.close()


def test_places_beside_each_other_have_locks_of_their_own(spot: TracerPlace, seat: TracerSeat) -> None:
    other = claim(TracerPlace(spot.path.with_suffix(".other")))
    assert isinstance(other, TracerSeat)
    other.close()


def test_a_path_that_is_too_long_is_an_error() -> None:
    with pytest.raises(UsageError, match="longer than 107"):
        connected(Path("/run/" + "x" * 110))


def test_a_path_without_a_tracer_is_no_error(tmp_path: Path) -> None:
    assert connected(tmp_path / "none" / "x") is None
    (tmp_path / "file").write_text("")
    assert connected(tmp_path / "file") is None
    assert connected(tmp_path / "file" / "x") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_group_is_admitted_by_the_file_and_by_the_tracer(tracer_socket: Path) -> None:
    found = claim(TracerPlace(tracer_socket, "nogroup"))
    assert isinstance(found, TracerSeat)
    with contextlib.closing(found):
        assert stat.S_IMODE(tracer_socket.stat().st_mode) == 0o660
        gid = tracer_socket.stat().st_gid
        open_way(tracer_socket)
        assert as_user(12_345, [gid], tracer_socket) == 0
        link, _ = found.listener.accept()
        peer = peer_of(link)
        assert peer.uid == 12_345
        assert is_admitted(peer, gid)
        link.close()
        assert as_user(12_345, [], tracer_socket) == 3


def open_way(path: Path) -> None:
    """Lets other users reach the folder of ``path``."""
    for folder in path.parents:
        if folder.stat().st_uid == os.geteuid() and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)


def as_user(uid: int, groups: list[int], path: Path) -> int:
    """Connects in a process of another user; returns the exit code that a command would have."""
    child = os.fork()
    if not child:
        code = 99
        try:
            os.setgroups(groups)
            os.setgid(uid)
            os.setuid(uid)
            link = connected(path)
            code = 0 if link is not None else 98
        except TracingError as error:
            code = error.exit_code if "join the group" in error.remedy else 97
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(
    ("peer", "group", "admitted"),
    [
        (Peer(1, 0, frozenset((0,))), None, True),
        (Peer(1, os.geteuid(), frozenset((7,))), None, True),
        (Peer(1, 4_242, frozenset((7,))), None, False),
        (Peer(1, 4_242, frozenset((7,))), 8, False),
        (Peer(1, 4_242, frozenset((7, 8))), 8, True),
        (Peer(1, 4_242, frozenset((0,))), None, False),
    ],
)
def test_root_the_same_user_and_the_group_are_admitted(peer: Peer, group: int | None, admitted: bool) -> None:
    assert is_admitted(peer, group) is admitted
