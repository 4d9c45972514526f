"""Sends the past to the clients that ask for it: in one thread, window by window in turn."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, Generic, TypeVar

from stalltop.model.merge.packing import Peak
from stalltop.model.window import Window
from stalltop.recordings.message.encoding import encode
from stalltop.serving.host import messages

MOST_PAST: Final = 1_000
"""Most windows of the past that a client gets: of a history in memory, windows of a second for 10 minutes and
of 10 seconds for the hour before."""
CPU_SHARE: Final = 0.25
"""Share of one CPU that encoding the past may take, for all clients together."""
STALLED_SECONDS: Final = 10.0
"""A client that takes nothing for this long gets no more of the past."""
_PAUSE_SECONDS: Final = 0.005
"""Shortest pause between two rounds."""

Past = Callable[[float], Iterable[tuple[Window, Peak]]]
"""Returns the windows that ended by a time (Unix seconds), newest first. ``Recall`` calls it in a thread."""

Client = TypeVar("Client")


def nothing(before: float) -> Iterable[tuple[Window, Peak]]:
    """Return no windows: the past of a tracer that keeps none."""
    return ()


class _Request(Generic[Client]):
    def __init__(self, client: Client, frames: Iterator[bytes]) -> None:
        self.client = client
        self.frames = frames
        self.moved = time.monotonic()
        """When the client last got a window, by ``time.monotonic()``."""


class Recall(Generic[Client]):
    """Encodes windows of ``past`` and passes each to ``give``, while the client ``has_room``. Both are called
    in the thread of this object. ``has_room`` returns None for a client that is gone."""

    def __init__(
        self,
        past: Past,
        give: Callable[[Client, bytes], object],
        has_room: Callable[[Client], bool | None],
    ) -> None:
        self._past = past
        self._give = give
        self._has_room = has_room
        self._asked: queue.SimpleQueue[_Request[Client] | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stalltop-past", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask(self, client: Client, before: float) -> None:
        """Send to ``client`` the windows that ended by ``before``, and then END."""
        self._asked.put(_Request(client, islice(self._frames(before), MOST_PAST)))

    def stop(self) -> None:
        """Send nothing from now on."""
        self._stopping.set()
        self._asked.put(None)

    def _frames(self, before: float) -> Iterator[bytes]:
        for window, peak in self._past(before):
            with contextlib.suppress(Exception):  # a window that cannot be encoded is left out
                yield messages.message(messages.KEPT, encode(window, peak))

    # ---- run by its own thread

    def _run(self) -> None:
        going: list[_Request[Client] | None] = []
        while not self._stopping.is_set():
            while not going or not self._asked.empty():
                going.append(self._asked.get())
            began = time.thread_time()
            going = [one for one in going if one is not None and self._step(one)]
            took = time.thread_time() - began
            self._stopping.wait(max(took * (1.0 / CPU_SHARE - 1.0), _PAUSE_SECONDS))

    def _step(self, request: _Request[Client]) -> bool:
        """Send one window, if there is room. Return whether there may be more to send."""
        room = self._has_room(request.client)
        if room is None:
            return False
        if not room:
            return time.monotonic() - request.moved < STALLED_SECONDS
        try:
            frame = next(request.frames, b"")
        except Exception:
            frame = b""  # the past is then shorter
        self._give(request.client, frame or messages.message(messages.END))
        request.moved = time.monotonic()
        return bool(frame)
