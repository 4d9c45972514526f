"""Decides which client of the tracer prepares to take its place, and holds what it has prepared.

Preparing takes memory, so only one client does it: the one that holds the lock of a file beside the socket.
When the tracer ends, the other clients let that one go first.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from stalltop.model.errors import StalltopError
from stalltop.serving.host.place import TracerPlace, opened_lock

T = TypeVar("T")

FIRST_SECONDS: Final = 1.0
"""For how long other clients let a client that is prepared go first, s."""
_TAKE_SECONDS: Final = 60.0
"""Longest wait for a preparation that is under way: it takes less time than to begin anew."""


class Standby(Generic[T]):
    """Prepares in a thread, once this process is the next in line."""

    def __init__(
        self,
        place: TracerPlace,
        make: Callable[[], T],
        drop: Callable[[T], object],
        *,
        warm: Callable[[], object] = bool,
        delays_seconds: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        """``make`` prepares, and may raise StalltopError or OSError if that is impossible; ``drop`` undoes
        that. ``warm`` is called in every client, before. ``delays_seconds``: how long to wait before each of
        the two: a client that has just started shows data first, and one that ends soon need not prepare."""
        self._path = _path(place)
        self._make = make
        self._drop = drop
        self._warm = warm
        self._delays = delays_seconds
        self._changed = threading.Condition()
        self._over = False
        """Whether nothing will be prepared any more: `take` or `close` was called."""
        self._closed = False
        self._lock = -1
        self._made: list[T] = []
        self._thread = threading.Thread(target=self._run, name="stalltop-standby", daemon=True)
        self._thread.start()

    @property
    def goes_first(self) -> bool:
        """Whether this process is the one that prepares, or has prepared."""
        return self._lock >= 0

    def take(self) -> T | None:
        """Returns what was prepared, and ends the preparation; None if nothing was. Waits for a preparation
        that is under way. The caller is the tracer now, so another client may prepare."""
        with self._changed:
            self._end()
            self._changed.wait_for(lambda: self._made or not self.goes_first, _TAKE_SECONDS)
            self._release()
            return self._made.pop() if self._made else None

    def close(self) -> None:
        """Drops what was prepared, or will be by a preparation that is under way. May be called twice, and
        after `take`."""
        with self._changed:
            self._closed = True
            self._end()
            self._release()
            made, self._made = self._made, []
        for one in made:
            self._drop(one)

    def _end(self) -> None:
        self._over = True
        self._changed.notify_all()

    def _run(self) -> None:
        if self._waited(self._delays[0]):
            return
        self._warm()
        if self._waited(self._delays[1]):
            return
        with contextlib.suppress(OSError):
            lock = opened_lock(self._path)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)  # It may be hours until the process before this one ends.
            except BaseException:
                os.close(lock)
                raise
            self._prepare(lock)

    def _waited(self, seconds: float) -> bool:
        """Waits; returns whether nothing is to be prepared any more."""
        with self._changed:
            return self._changed.wait_for(lambda: self._over, seconds)

    def _prepare(self, lock: int) -> None:
        with self._changed:
            if self._over:
                os.close(lock)
                return
            self._lock = lock
        try:
            made = self._make()
        except (StalltopError, OSError):
            with self._changed:
                self._release()
                self._changed.notify_all()
            return
        with self._changed:
            if not self._closed:
                self._made.append(made)
                self._changed.notify_all()
                return
        self._drop(made)

    def _release(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def another_goes_first(place: TracerPlace, standby: Standby[T] | None) -> bool:
    """Returns whether another process than the one with this ``standby`` has prepared, or prepares."""
    if standby is not None and standby.goes_first:
        return False
    try:
        lock = os.open(_path(place), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _path(place: TracerPlace) -> Path:
    return place.path.with_name(f"{place.path.name}.next")
