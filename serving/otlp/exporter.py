"""Sends requests to an OTLP receiver over HTTP, in order, and again until it takes them:
https://opentelemetry.io/docs/specs/otlp/#otlphttp."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal

from stalltop.model.errors import described
from stalltop.serving.otlp.spool import KeptRequest, Spool
from stalltop.serving.web_post import DeliveryError, post

Signal = Literal["metrics", "logs"]
SIGNALS: Final[tuple[Signal, ...]] = ("metrics", "logs")

LONGEST_PAUSE_SECONDS: Final = 30.0
"""Longest pause after a failure; the first one takes a second, each further one twice as long. A receiver may
ask for a longer one."""
_FIRST_PAUSE_SECONDS: Final = 1.0
_MOST_ASKED_SECONDS: Final = 300.0
_TEMPORARY: Final = frozenset((None, 408, 429, 502, 503, 504))
"""Statuses (None: no answer) after which a request is sent again. The specification forbids that after all
others, except for 408."""


class OtlpExporter:
    """A queue and a thread for each signal: a receiver that refuses one still gets the other."""

    def __init__(
        self,
        url: str,
        folder: Path,
        headers: Mapping[str, str],
        refused: Callable[[Signal, bytes], str],
        tell: Callable[[str], object],
    ) -> None:
        """``url``: the receiver, without ``/v1/metrics``. ``folder``: for the queues. ``refused`` reads what
        an answer says about refused parts ('': none). ``tell`` is called, in any thread, with a line about a
        receiver that fails or works again. Raises OSError if the folder cannot be read."""
        self._senders = {
            signal: _Sender(
                signal, f"{url.rstrip('/')}/v1/{signal}", Spool(folder / signal), headers, refused, tell
            )
            for signal in SIGNALS
        }

    @property
    def waiting(self) -> int:
        """Number of requests that the receiver has not taken yet."""
        return sum(len(one.spool) for one in self._senders.values())

    def start(self) -> None:
        """Sends from now on, first what earlier runs left."""
        for one in self._senders.values():
            one.thread.start()

    def put(self, signal: Signal, request: bytes) -> None:
        """Adds a request; nothing if it is b''."""
        if request:
            self._senders[signal].put(request)

    def stop(self, seconds: float) -> None:
        """Sends for at most ``seconds`` what waits, and ends. The rest stays on disk."""
        until = time.monotonic() + seconds
        for one in self._senders.values():
            one.finish()
        for one in self._senders.values():
            one.thread.join(max(until - time.monotonic(), 0.0))


class _Sender:
    def __init__(
        self,
        signal: Signal,
        url: str,
        spool: Spool,
        headers: Mapping[str, str],
        refused: Callable[[Signal, bytes], str],
        tell: Callable[[str], object],
    ) -> None:
        self.spool = spool
        self.thread = threading.Thread(target=self._run, name=f"otlp-{signal}", daemon=True)
        self._signal = signal
        self._url = url
        self._headers = {**headers, "Content-Encoding": "gzip"}
        self._refused = refused
        self._tell = tell
        self._work = threading.Condition()
        self._ending = False
        self._complaint = ""

    def put(self, request: bytes) -> None:
        try:
            removed = self.spool.put(gzip.compress(request, 6))
        except OSError as error:
            self._complain(f"cannot keep a request on disk, it is lost: {error.strerror or error}")
            return
        if removed:
            self._complain("the queue on disk is full: the oldest requests are lost")
        with self._work:
            self._work.notify()

    def finish(self) -> None:
        with self._work:
            self._ending = True
            self._work.notify()

    def _run(self) -> None:
        pause = 0.0
        while True:
            with self._work:
                if pause and not self._ending:
                    self._work.wait_for(lambda: self._ending, pause)
                self._work.wait_for(lambda: self._ending or len(self.spool))
                ending = self._ending
            sent = self.spool.first()
            if sent is None:
                if ending:
                    return
                continue
            asked = self._deliver(*sent)
            if asked is None:
                pause = 0.0
            elif ending:
                return
            else:
                pause = max(asked, min(max(2 * pause, _FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS))

    def _deliver(self, one: KeptRequest, content: bytes) -> float | None:
        """Sends a request and removes it from the queue, unless the receiver may take it later: then returns
        for how many seconds it wants to be left alone."""
        try:
            part = self._refused(
                self._signal, post(self._url, content, "application/x-protobuf", self._headers)
            )
        except DeliveryError as error:
            if error.status in _TEMPORARY:
                self._complain(f"{error.reason}; trying again")
                return min(error.retry_after, _MOST_ASKED_SECONDS)
            part = f"{error.reason}; what it refuses is lost"
        except Exception as error:
            self._complain(f"{described(error)}; trying again")
            return 0.0
        self.spool.remove(one)
        if part:
            self._complain(part)
        elif self._complaint:
            self._tell(f"OTLP {self._signal}: works again")
            self._complaint = ""
        return None

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            self._complaint = text
            self._tell(f"OTLP {self._signal}: {text}")
