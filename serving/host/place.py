"""Where the socket of the tracer is, and which process of the host is the tracer.

A lock file beside the socket decides: the process that holds its lock is the tracer. The Linux kernel
releases the lock when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import grp
import os
import resource
import socket
import stat
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stalltop.files.host_places import HOST_CONFIG
from stalltop.model.errors import StalltopError, TracingError, UsageError
from stalltop.serving.host.peers import is_owner, peer_of

WAIT_SECONDS: Final = 3.0
"""Longest wait for a process that holds the lock and does not listen yet."""
ANSWER_SECONDS: Final = 5.0
"""Longest wait for the answer of a tracer. One that needs longer than ``starting_server.START_SECONDS`` is
stopped, or gets no CPU."""
ADMISSION: Final = f'run as root; root can admit a group: group = "NAME" in {HOST_CONFIG}'
"""What a user who is not admitted can do."""
_BACKLOG: Final = 64
_MOST_DESCRIPTORS: Final = 1 << 16
"""Limit of the size of the table of open files, which has 8 bytes for each number."""
_MOST_PATH: Final = 107
"""Longest path of a Unix socket in bytes (unix(7))."""


class TracerSilentError(StalltopError):
    """The tracer of this host does not answer: it is stopped, or gets no CPU."""

    def __init__(self, pid: int = 0) -> None:
        """``pid`` is that of the tracer; 0: not known."""
        super().__init__(
            f"the tracer of this host{f' (PID {pid})' if pid else ''} does not answer; it may be stopped",
            f"let it go on: kill -CONT {pid or 'PID'}; or end it; or trace by yourself: --own",
        )


@dataclass(frozen=True, slots=True)
class TracerPlace:
    """Where clients find the tracer, and who may be a client."""

    path: Path
    group: str = ""
    """Name of the group whose members may be clients; '': only root, and the user of the tracer."""

    def group_id(self) -> int | None:
        """Return the number of the group; None if there is none, or it does not exist."""
        with contextlib.suppress(KeyError):
            return grp.getgrnam(self.group).gr_gid if self.group else None
        return None


class TracerSeat:
    """The lock and the listening socket of the tracer. ``close`` gives both up."""

    def __init__(self, lock: int, listener: socket.socket, fault: str = "") -> None:
        self._lock = lock
        self._closing = threading.Lock()
        self.listener = listener
        self.fault = fault
        """Why the group of the settings is not admitted; '' if it is, or there is none."""

    def close(self) -> None:
        """Stop listening and release the lock. Any thread may call it, also twice.

        The socket file stays: only the next holder of the lock may remove it.
        """
        with self._closing:
            self.listener.close()
            lock, self._lock = self._lock, -1
            if lock >= 0:
                os.close(lock)


@dataclass(frozen=True, slots=True)
class NoSeat:
    """There is no tracer, and this process cannot be it."""

    reason: str


def claim(place: TracerPlace) -> TracerSeat | socket.socket | NoSeat:
    """Return a connection to the tracer of this host; if there is none, the seat of the tracer for this
    process, or why it cannot have it.

    Raises TracingError if this user may not connect, and StalltopError if a process holds the lock and does
    not answer.
    """
    until = time.monotonic() + WAIT_SECONDS
    while True:
        found = connected(place.path)
        if found is not None:
            return found
        try:
            lock = _locked(place.path)
        except OSError as error:
            return NoSeat(f"cannot lock {_lock_path(place.path)}: {error.strerror or error}")
        if lock is not None:
            try:
                return TracerSeat(lock, *_listening(place))
            except OSError as error:
                os.close(lock)
                return NoSeat(f"cannot listen at {place.path}: {error.strerror or error}")
            except BaseException:
                os.close(lock)
                raise
        if time.monotonic() > until:
            raise StalltopError(
                f"a process holds the lock {_lock_path(place.path)} and does not answer at {place.path}",
                "find it with fuser, and end it; or trace by yourself: --own",
            )
        time.sleep(0.02)


def connected(path: Path) -> socket.socket | None:
    """Return a connection to the tracer at ``path``; None if none listens there.

    Raises TracingError if this user may not connect or cannot trust who listens, TracerSilentError if too
    many connections wait for the tracer already, and UsageError if ``path`` is no path of a socket.
    """
    if len(os.fsencode(path)) > _MOST_PATH:
        raise UsageError(f"the path of the socket is longer than {_MOST_PATH} bytes: {path}")
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # With a time limit, connect fails if the queue of the listener is full; without, it would wait for ever.
    link.settimeout(ANSWER_SECONDS)
    try:
        link.connect(os.fspath(path))
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
        link.close()
        return None
    except (BlockingIOError, TimeoutError):
        link.close()
        raise TracerSilentError from None
    except PermissionError:
        link.close()
        raise TracingError(
            f"the tracer of this host does not admit this user ({path})", remedy(path)
        ) from None
    except OSError as error:
        link.close()
        if error.errno == errno.EPROTOTYPE:
            raise UsageError(f"{path} is a socket of another program") from None
        raise StalltopError(f"cannot connect to {path}: {error.strerror or error}") from None
    try:
        _expect_trusted(link, path)
    except BaseException:
        link.close()
        raise
    return link


def _expect_trusted(link: socket.socket, path: Path) -> None:
    """Raise TracingError if any user could have made the socket at ``path``: its windows may be invented."""
    peer = peer_of(link)
    with contextlib.suppress(OSError):
        if is_owner(peer) or not _open_to_others(path.parent):
            return
    raise TracingError(
        f"the socket {path} is that of user {peer.uid}, whom this stalltop does not trust",
        "name another one with --socket, or trace by yourself: --own",
    )


def _open_to_others(folder: Path) -> bool:
    """Return whether others than root and this user could exchange the files in ``folder``. Raises
    OSError."""
    found = folder.stat()
    return found.st_uid not in (0, os.geteuid()) or bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def released_first(descriptor: int) -> int:
    """Give ``descriptor`` a high number, and return that number.

    When a process is killed, the Linux kernel releases its files one after the other, the one with the
    highest number first. A BPF link takes 40 ms, and those of a tracer seconds. If the connections came after
    them, clients would wait that long for the end of the tracer, and for its lock.
    """
    least = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], _MOST_DESCRIPTORS) * 3 // 4
    try:
        high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
    except OSError:  # too few open files are allowed
        return descriptor
    os.close(descriptor)
    return high


def remedy(path: Path) -> str:
    """Return what a user who is not admitted can do."""
    with contextlib.suppress(OSError, KeyError):
        found = path.stat()
        if found.st_mode & stat.S_IWGRP and found.st_gid:
            return f"run as root, or join the group {grp.getgrgid(found.st_gid).gr_name} and log in again"
    return ADMISSION


def opened_lock(path: Path) -> int:
    """Return the descriptor of a file for a lock, which is made if there is none. Raises OSError, also if
    others could exchange the file."""
    if _open_to_others(path.parent):
        raise PermissionError(f"others may write in {path.parent}")
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _lock_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def _locked(path: Path) -> int | None:
    """Return the descriptor of the locked file; None if another process holds the lock, or has just removed
    the file. Raises OSError if this process may not lock it, or others could exchange the files."""
    with contextlib.suppress(FileExistsError):
        path.parent.mkdir()
        path.parent.chmod(0o755)  # whatever the umask is
    lock = released_first(opened_lock(_lock_path(path)))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Of a file that was removed meanwhile, the lock keeps nobody out.
        named = os.stat(_lock_path(path), follow_symlinks=False)
        if not os.path.samestat(os.fstat(lock), named):
            raise FileNotFoundError
    except (BlockingIOError, FileNotFoundError):
        os.close(lock)
        return None
    except BaseException:
        os.close(lock)
        raise
    return lock


def _listening(place: TracerPlace) -> tuple[socket.socket, str]:
    """Return the listening socket, in the place of one that a former tracer left, and why the group is not
    admitted."""
    unbound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener = socket.socket(fileno=released_first(unbound.detach()))
    try:
        path = os.fspath(place.path)
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise UsageError(f"{path} exists and is no socket", "choose another path with --socket")
            os.unlink(path)
        os.fchmod(listener.fileno(), 0o600)  # so that bind makes it for this user only
        listener.bind(path)
        fault = _give(path, place)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener, fault


def _give(path: str, place: TracerPlace) -> str:
    """Let the group connect to the socket at ``path``. Return why that is not possible, or ''."""
    if not place.group:
        return ""
    group = place.group_id()
    if group is None:
        return f"group = {place.group}: this host has no such group; the tracer admits root only"
    try:
        os.chown(path, -1, group)
        os.chmod(path, 0o660)
    except OSError as error:
        return (
            f"cannot give {path} to the group {place.group}: {error.strerror or error}; the tracer admits "
            "root only. A service needs SupplementaryGroups"
        )
    return ""
