"""Records windows in a separate thread, so that a slow or full disk never delays reading."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from stalltop.model.errors import StalltopError, UsageError, described
from stalltop.model.evidence import Event
from stalltop.model.window import Window
from stalltop.recordings.file.trouble import DamagedFileError, WriteError, put_aside
from stalltop.recordings.write.bounds import Bounds
from stalltop.recordings.write.clock_watch import ClockWatch, length_text
from stalltop.recordings.write.recording import Recording
from stalltop.recordings.write.thinning import with_events

MOST_WAITING: Final = 60
"""Largest number of windows that wait to be written. If there are more, the oldest are dropped, counted and
reported."""
MOST_ASIDE: Final = 3
"""Largest number of damaged files that a recorder renames and replaces by new ones. With more damaged files,
the device is probably broken."""
RETRY_SECONDS: Final = (1.0, 2.0, 5.0, 10.0)
"""Pauses, in seconds, before the first, second, … retry. The last one applies to all further retries."""


@dataclass(frozen=True, slots=True)
class RecorderState:
    """State of a recorder, which the screen shows."""

    path: Path
    bytes: int = 0
    """Size of the recording on disk, with the files that SQLite keeps beside it."""
    seconds: float = 0.0
    """Total length of the windows that this recorder has written."""
    held_seconds: float = 0.0
    """Total length of the windows that the file has now, including those of earlier recorders."""
    waiting: int = 0
    """Number of windows that are not written yet."""
    missed_seconds: float = 0.0
    """Total length of the windows that were dropped without being written."""
    failure: str = ""
    """Why writing currently fails; '' if it does not fail."""


class Recorder:
    """Writes windows to ``path`` in a separate thread, until ``close``.

    Tries again after errors: recording continues once the device has space, or once the file can be written
    again. Calls ``tell``, in that thread or in ``open``, with a line of text for each event that the user
    should know about.
    """

    def __init__(
        self,
        path: Path,
        bounds: Bounds | None = None,
        *,
        tell: Callable[[str], object] = lambda line: None,
        watch: ClockWatch | None = None,
        retry: tuple[float, ...] = RETRY_SECONDS,
        opening: Callable[[Path, Bounds], Recording] = Recording,
    ) -> None:
        self._path = path
        self._bounds = bounds or Bounds()
        self._tell = tell
        self._watch = watch or ClockWatch()
        self._retry = retry
        self._opening = opening
        self._recording: Recording | None = None
        self._changed = threading.Condition()
        self._waiting: deque[Window] = deque()
        self._closing = False
        self._state = RecorderState(path)
        self._failures = 0
        """Number of failures since the last success."""
        self._asides = 0
        self._replaced = False
        """Whether the file was moved or removed. Another file may then have its name."""
        self._short = False
        """Whether the device had no space for more windows at the last write."""
        self._gap_seconds = 0.0
        """Total length of the dropped windows that no ``not_recorded`` event in the file reports yet."""
        self._thread = threading.Thread(target=self._run, name="stalltop-recorder", daemon=True)

    def open(self, host: str | None = None) -> None:
        """Open the file in the thread of the caller, so that errors are raised to the caller. If ``host`` is
        given, check that the file is a recording of this host. Raises StalltopError."""
        self._recording = recording = self._opened()
        if host is not None:
            try:
                recording.expect(host)
            except StalltopError:
                self._close_file()
                raise
        with self._changed:
            self._state = replace(self._state, bytes=recording.bytes)

    def start(self) -> None:
        """Start the thread that writes."""
        self._thread.start()

    @property
    def state(self) -> RecorderState:
        """The state of the recorder now."""
        with self._changed:
            return replace(self._state, waiting=len(self._waiting))

    @property
    def summary(self) -> str:
        """A line that says how much was recorded, and to which file."""
        state = self.state
        missed = f", {length_text(state.missed_seconds)} could not be written" if state.missed_seconds else ""
        took = f"{length_text(state.seconds)} recorded{missed}"
        gone = state.seconds - state.held_seconds > 1
        held = f" and holds the newest {length_text(state.held_seconds)} of it" if gone else ""
        return f"{took}; {state.path} takes {state.bytes / (1 << 20):,.1f} MiB{held}"

    def add(self, window: Window) -> None:
        """Queue ``window`` for writing, without waiting."""
        events = self._watch.events()
        if events:
            window = with_events(window, events)
        with self._changed:
            self._waiting.append(window)
            self._give_up_oldest()
            self._changed.notify()

    def close(self, timeout: float) -> bool:
        """Write the queued windows and close the file. Returns False if that takes longer than ``timeout``
        seconds."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.ident is None:
            self._close_file()
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # ---- in the thread

    def _run(self) -> None:
        try:
            while (window := self._next()) is not None:
                if not self._write(window) and self._closing:
                    break
        finally:
            with self._changed:
                for window in self._waiting:
                    self._missed(window)
                self._waiting.clear()
            self._close_file()

    def _next(self) -> Window | None:
        """Wait for the next window, and return it. After a failure, first wait for the pause. Return None if
        the recorder is closing and no window is left."""
        with self._changed:
            if self._failures:
                pause = self._retry[min(self._failures, len(self._retry)) - 1]
                self._changed.wait_for(lambda: self._closing, pause)
            self._changed.wait_for(lambda: self._waiting or self._closing)
            return self._waiting.popleft() if self._waiting else None

    def _write(self, window: Window) -> bool:
        """Write one window. Return False if writing failed and the window was queued again."""
        again = True
        try:
            recording = self._open_one()
            with self._changed:
                gap_seconds = self._gap_seconds
            recording.add(after_gap(window, gap_seconds))
            again = False
            with self._changed:
                self._gap_seconds -= gap_seconds
                self._state = replace(self._state, seconds=self._state.seconds + window.seconds)
            recording.tend()
        except (DamagedFileError, UsageError) as error:
            try:
                if isinstance(error, DamagedFileError):
                    self._put_aside(error)
                elif self._replaced:
                    # Another file now has the name of the recording, so that other file is renamed.
                    self._put_aside(error, "other")
                else:
                    self._failed(error.reason)
            except StalltopError as told:
                self._failed(told.reason)
        except StalltopError as told:
            self._failed(told.reason)
        # Any other exception is a bug of stalltop. The window is dropped if it is not written yet; the next
        # one may be written.
        except Exception as error:
            if again:
                again = False
                with self._changed:
                    self._missed(window)
            self._failed(described(error))
        else:
            self._went_well(recording)
        if again:
            with self._changed:
                self._waiting.appendleft(window)
                self._give_up_oldest()
        return not again

    def _open_one(self) -> Recording:
        if self._recording is not None and not self._recording.in_place:
            self._tell(f"{self._path} was moved, removed or replaced: recording goes on in a new one")
            self._replaced = True
            self._close_file()
        if self._recording is None:
            self._recording = self._opened()
        return self._recording

    def _opened(self) -> Recording:
        try:
            return self._opening(self._path, self._bounds)
        except DamagedFileError as error:
            self._put_aside(error)
        return self._opening(self._path, self._bounds)

    def _went_well(self, recording: Recording) -> None:
        if self._failures:
            with self._changed:
                missed = self._state.missed_seconds
            lost = (
                f"; windows of {length_text(missed)} in all were not written"
                if missed
                else "; nothing is missing"
            )
            self._tell(f"recording to {self._path} continues{lost}")
        self._failures = 0
        self._replaced = False
        with self._changed:
            self._state = replace(
                self._state, bytes=recording.bytes, held_seconds=recording.seconds, failure=""
            )
        short, self._short = self._short, recording.short
        if self._short and not short:
            self._tell(
                f"little space for {self._path} on the device: its oldest windows are merged or deleted"
                " to make room for new ones"
            )

    def _failed(self, reason: str) -> None:
        if not self._failures:
            self._tell(f"cannot record to {self._path}: {reason}; stalltop tries again until that works")
        self._failures += 1
        with self._changed:
            self._state = replace(self._state, failure=reason)
        self._close_file()

    def _put_aside(self, error: StalltopError, why: str = "damaged") -> None:
        """Rename a file that is damaged or not a recording, so that a new file can have its name. Raises
        StalltopError."""
        self._close_file()
        if self._asides >= MOST_ASIDE:
            raise WriteError(f"{error.reason}, as were the {MOST_ASIDE} files before it")
        aside = put_aside(self._path, why)
        self._asides += 1
        self._tell(f"{error.reason}: it is now {aside}, and a new one is begun")

    def _close_file(self) -> None:
        recording, self._recording = self._recording, None
        if recording is not None:
            with contextlib.suppress(StalltopError, OSError):
                recording.close()
            with self._changed:
                self._state = replace(self._state, bytes=recording.bytes)

    # ---- windows that were not written

    def _give_up_oldest(self) -> None:
        while len(self._waiting) > MOST_WAITING:
            self._missed(self._waiting.popleft())

    def _missed(self, window: Window) -> None:
        self._gap_seconds += window.seconds
        missed = self._state.missed_seconds + window.seconds
        self._state = replace(self._state, missed_seconds=missed)


def after_gap(window: Window, seconds: float) -> Window:
    """Return ``window`` with an event that says that the windows before it, ``seconds`` long in all, were not
    written. If ``seconds`` is 0, return ``window`` itself."""
    if not seconds:
        return window
    text = f"{length_text(seconds)} before this could not be recorded"
    return with_events(window, (Event(window.start, "not_recorded", "", 0, "", text),))
