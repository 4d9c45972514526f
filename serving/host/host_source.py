"""The windows of this host: from its tracer, or traced by this process, which is then the tracer."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from stalltop.model.errors import StalltopError, TracingError
from stalltop.model.merge.history import History
from stalltop.model.source import Source
from stalltop.model.window import Window
from stalltop.serving.host.place import NoSeat, TracerPlace, TracerSeat, claim, connected
from stalltop.serving.host.standby import FIRST_SECONDS, Standby, another_goes_first
from stalltop.serving.host.tracer_link import TracerLink

SILENT_SECONDS: Final = 10.0
"""Without any sign of life for longer than this, a tracer counts as stopped."""
WINDOW_SECONDS: Final = 30.0
"""Longest wait for a window of a tracer that gives signs of life. While it compiles BPF programs, there is
none."""
LEAVE_SECONDS: Final = 1.5
"""Longest wait for a last window: as long as a tracer usually needs for one."""
SEARCH_SECONDS: Final = 10.0
"""Longest search for a new tracer by a client that cannot trace itself."""
SAY_SECONDS: Final = 1.5
"""A search that takes longer than this is reported."""
_STEP_SECONDS: Final = 0.05

Trace = Callable[[TracerSeat], Source]
"""Traces this host and passes the windows to clients at the seat. If that is impossible, closes the seat and
raises TracingError."""


class NoMoreWindowsError(StalltopError):
    """After ``HostSource.leave``, no further window has come."""


class HostSource:
    """A client of the tracer. If the tracer ends and this process may trace, it takes the tracer's place;
    otherwise it looks for the next one."""

    def __init__(
        self,
        link: TracerLink,
        place: TracerPlace,
        trace: Trace | None,
        *,
        tell: Callable[[str], object],
        history: History | None = None,
        patient: bool = False,
        standby: Standby[Any] | None = None,
    ) -> None:
        """``trace``: None: this process may not become the tracer. ``tell`` is called, in any thread, with a
        line about another tracer. ``history`` gets the windows that the tracer has kept. ``patient``: wait
        for a tracer that is silent, without an error. ``standby``: what prepares this process to trace; it is
        closed with this source."""
        self._link = link
        self._place = place
        self._trace = trace
        self._tell = tell
        self._history = history
        self._patient = patient
        self._standby = standby
        self._own: Source | None = None
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._closed = False
        self._until = math.inf
        """When reads wait no longer, by ``time.monotonic()``."""
        link.start(self._ended)

    @property
    def is_client(self) -> bool:
        """Whether the windows come from a tracer: this process has not taken its place."""
        return self._own is None

    def read(self) -> Window:
        """Return what happened since the last read. Waits for the tracer's next window.

        Raises StalltopError if the tracer has ended and there is no other, and if it is silent; RuntimeError
        if another thread closes this source.
        """
        while True:
            link = self._link
            window = link.take(_STEP_SECONDS * 4)
            if self._history is not None and (past := link.past()):
                self._history.prepend(past)
            if window is not None:
                return window
            with self._changed:
                if self._closed:
                    raise RuntimeError("read after close")
                own, error = self._own, self._error
                if own is None and error is None and link is self._link and link.ended:
                    self._changed.wait(_STEP_SECONDS)
            if own is not None:
                return own.read()
            if error is not None:
                raise error
            if time.monotonic() > self._until:
                raise NoMoreWindowsError("the tracer of this host sent no further window")
            if not self._patient and not link.ended:
                _expect_windows(link)

    def leave(self) -> None:
        """From now on, a read waits for at most ``LEAVE_SECONDS``, then raises NoMoreWindowsError. A signal
        handler may call this."""
        self._until = time.monotonic() + LEAVE_SECONDS

    def close(self) -> None:
        """Leave the tracer; or end tracing, if this process has become the tracer. May be called twice."""
        with self._changed:
            self._closed = True
            own, self._own = self._own, None
            self._changed.notify_all()
        self._link.close()
        if self._standby is not None:
            self._standby.close()
        if own is not None:
            own.close()

    # ---- in the thread of the link that has ended

    def _ended(self) -> None:
        if self._closed or self._link.error is not None:
            return  # the read raises the error of the link
        try:
            self._go_on()
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _go_on(self) -> None:
        """Find the next tracer, or become it."""
        before, why = self._link.tracer, ""
        began, said = time.monotonic(), False
        while not self._closed:
            try:
                found = connected(self._place.path) if self._waits(began) else claim(self._place)
                if isinstance(found, TracerSeat):
                    self._take_over(found, before.text)
                    return
                if isinstance(found, NoSeat):
                    why = found.reason
                elif found is not None:
                    link = TracerLink(found)
                    with self._changed:
                        if self._closed:
                            link.close()
                            return
                        self._link = link
                    self._tell(f"the tracer ended ({before.text}); its place has {link.tracer.text}")
                    link.start(self._ended)
                    return
            except TracingError as error:
                why, self._trace = error.reason, None
            except StalltopError as error:
                why = error.reason
            cannot = f"; this process cannot trace: {why}" if why else ""
            searched = time.monotonic() - began
            if searched > SAY_SECONDS and not said:
                said = True
                self._tell(f"the tracer ended ({before.text}){cannot}; looking for another one")
            if searched > SEARCH_SECONDS:
                raise StalltopError(
                    f"the tracer of this host ended ({before.text}) and there is no other{cannot}",
                    "start one as root: stalltop record",
                )
            time.sleep(_STEP_SECONDS)

    def _waits(self, began: float) -> bool:
        """Whether another process has to be the next tracer: this one cannot, or another one is prepared.
        ``began``: when the tracer ended."""
        if self._trace is None:
            return True
        first = time.monotonic() - began < FIRST_SECONDS
        return first and another_goes_first(self._place, self._standby)

    def _take_over(self, seat: TracerSeat, before: str) -> None:
        assert self._trace is not None
        own = self._trace(seat)
        with self._changed:
            if not self._closed:
                self._own = own
                self._changed.notify_all()
                self._tell(f"the tracer ended ({before}); this stalltop traces now")
                return
        with contextlib.suppress(Exception):
            own.close()


def _expect_windows(link: TracerLink) -> None:
    """Raise StalltopError if the tracer has been silent, or has sent no window, for too long."""
    now = time.monotonic()
    if now - link.heard > SILENT_SECONDS:
        raise StalltopError(
            f"the tracer of this host has been silent for {now - link.heard:.0f} s; it may be stopped "
            f"({link.tracer.text})",
            f"let it go on: kill -CONT {link.tracer.pid}; or end it; or trace by yourself: --own",
        )
    if now - link.window_at > WINDOW_SECONDS:
        lost = f"; {link.lost} were lost" if link.lost else ""
        raise StalltopError(
            f"the tracer of this host has sent no window for {now - link.window_at:.0f} s{lost} "
            f"({link.tracer.text})",
            "end it, or trace by yourself: --own",
        )
