"""Passes alerts to all receivers, each in a thread of its own: one that is slow or away delays no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from stalltop.model.errors import described
from stalltop.model.telling import Tellings
from stalltop.model.window import Window
from stalltop.serving.notify.alerts import ProblemAlert, alerts_of
from stalltop.serving.notify.ledger import Ledger
from stalltop.serving.notify.receivers import Receiver
from stalltop.serving.notify.told_file import ToldFile
from stalltop.serving.notify.wording import worded
from stalltop.serving.web_post import DeliveryError

LONGEST_PAUSE_SECONDS: Final = 300.0
"""Longest pause after a delivery that failed; the first one is ``_FIRST_PAUSE_SECONDS``, each further one
twice as long."""
_FIRST_PAUSE_SECONDS: Final = 2.0
_STEP_SECONDS: Final = 0.5


class Notifier:
    """Tells receivers about the problems in the newest window."""

    def __init__(
        self,
        receivers: Sequence[tuple[Receiver, Ledger]],
        told: ToldFile,
        tellings: Tellings,
        recording: Path,
        tell: Callable[[str], object],
    ) -> None:
        """``told`` keeps what was delivered. ``recording``: path of the recording of this host, if it exists.
        ``tell`` is called, in any thread, with a line about a receiver that fails or works again."""
        self._told = told
        self._tellings = tellings
        self._recording = recording
        self._tell = tell
        self._alerts: tuple[ProblemAlert, ...] | None = None
        """The alerts of the newest window; None before the first."""
        self._host = ""
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=pair, name=f"notify-{pair[0].name}", daemon=True)
            for pair in receivers
        ]

    def start(self) -> None:
        """Starts the threads."""
        for thread in self._threads:
            thread.start()

    def take(self, window: Window) -> None:
        """Takes a window, which replaces the one before."""
        self._host = window.host
        self._alerts = alerts_of(window)

    def stop(self, seconds: float) -> None:
        """Ends the threads; waits for deliveries in progress, but for at most ``seconds`` altogether."""
        self._stopping.set()
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0.0))

    def _run(self, receiver: Receiver, ledger: Ledger) -> None:
        pause, failed = 0.0, False
        while not self._stopping.wait(max(pause, _STEP_SECONDS)):
            alerts = self._alerts
            if alerts is None:
                continue
            try:
                self._deliver(receiver, ledger, alerts)
            except Exception as error:
                reason = error.reason if isinstance(error, DeliveryError) else described(error)
                if not failed:
                    self._tell(f"{receiver.name}: {reason}; trying again")
                failed, pause = True, min(max(2 * pause, _FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
            else:
                if failed:
                    self._tell(f"{receiver.name}: works again")
                failed, pause = False, 0.0

    def _deliver(self, receiver: Receiver, ledger: Ledger, alerts: Sequence[ProblemAlert]) -> None:
        recording = self._recording if self._recording.exists() else None
        for message in ledger.due(alerts, time.time()):
            said = worded(message, self._host, self._tellings, recording)
            receiver.deliver(said)
            ledger.delivered(message, said.sentence, time.time())
            self._told.save(receiver.name, ledger.told)
