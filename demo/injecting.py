"""Injects the faults of a scenario into its running tenants, one after the other, and sets the caption."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from stalltop.demo.caller import CallerError
from stalltop.demo.faults import InjectedFault, Timetable
from stalltop.model.caption import Caption
from stalltop.model.source import Source
from stalltop.model.window import Window


class Injectable(Protocol):
    """Tenants into which faults can be injected (`demo.tenants.DemoTenants`)."""

    def inject(self, fault: InjectedFault) -> None:
        """Begins ``fault``."""
        ...

    def restore(self, fault: InjectedFault) -> None:
        """Ends ``fault``."""
        ...


class FaultInjector:
    """Injects the faults of ``timetable`` into ``tenants`` at their times, in a thread of its own, because an
    injection may take a second: a process completes its present cycle first."""

    def __init__(
        self,
        tenants: Injectable,
        timetable: Timetable,
        caption: Caption,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tenants = tenants
        self._timetable = timetable
        self._caption = caption
        self._clock = clock
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stalltop-faults", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Injects no more faults. Does not wait for a command in progress: the command ends soon, together
        with the tenants."""
        self._ended.set()

    def join(self, seconds: float) -> None:
        """Waits until the thread has ended, at most ``seconds``."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._inject()
        except (CallerError, OSError, ValueError) as error:  # ValueError: the pipe to a process was closed.
            if not self._ended.is_set():
                self._caption.lines = ("The tour has ended: a sample tenant failed", str(error))

    def _inject(self) -> None:
        began, active = self._clock(), None
        while not self._ended.is_set():
            age = self._clock() - began
            fault = self._timetable.at(age)
            if fault is not active:
                if active is not None:
                    self._tenants.restore(active)
                if fault is not None:
                    self._tenants.inject(fault)
                active = fault
            self._caption.lines = self._timetable.caption(age)
            self._ended.wait(max(self._timetable.next_change(age) - (self._clock() - began), 0.01))


class CaptionedSource:
    """A source of simulated windows that sets the caption for each window."""

    def __init__(self, source: Source, timetable: Timetable, caption: Caption) -> None:
        self._source = source
        self._timetable = timetable
        self._caption = caption
        self._began: float | None = None

    def read(self) -> Window:
        """Returns the next window, and sets the caption that belongs to its end."""
        window = self._source.read()
        if self._began is None:
            self._began = window.start
        self._caption.lines = self._timetable.caption(window.end - self._began)
        return window

    def close(self) -> None:
        """Closes the source."""
        self._source.close()
