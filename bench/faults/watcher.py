"""Looks at the host once a second and keeps what the diagnosis said, and when."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stalltop.diagnosis.engine import Diagnosis
from stalltop.model.chain import Chain
from stalltop.model.window import Window
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions

INTERVAL_SECONDS: Final = 1.0
"""As the screen does by default."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One look."""

    at: float
    """When the look was over: time.monotonic()."""
    window: Window


class Watcher:
    """One tracer for many trials; every trial gets a diagnosis of its own, which knows nothing of others."""

    def __init__(self, nvml_environment: Mapping[str, str]) -> None:
        """``nvml_environment``: by which the library that tells of devices is found. Raises TracingError."""
        self._monitor = Monitor(MonitorOptions(nvml_environment=nvml_environment))
        if self._monitor.cannot_trace is not None:
            self._monitor.close()
            raise self._monitor.cannot_trace
        self._lock = threading.Lock()
        self._diagnosis = Diagnosis(own_pid=os.getpid())
        self._seen: list[Seen] = []
        self._failure: BaseException | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watcher", daemon=True)
        self._thread.start()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self) -> None:
        """Forget what was seen: a new trial."""
        with self._lock:
            self._diagnosis = Diagnosis(own_pid=os.getpid())
            self._seen = []

    def seen(self) -> list[Seen]:
        """Everything since `begin`, oldest first. Raises what ended the watch."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            return list(self._seen)

    def taken(self) -> list[Seen]:
        """The same, and forget it: the diagnosis goes on. Raises what ended the watch."""
        with self._lock:
            seen, self._seen = self._seen, []
            if self._failure is not None:
                raise self._failure
            return seen

    def close(self) -> None:
        """End it."""
        self._end.set()
        self._thread.join(timeout=10.0)
        self._monitor.close()

    def _look(self) -> None:
        due = time.monotonic() + INTERVAL_SECONDS
        while not self._end.wait(max(due - time.monotonic(), 0.0)):
            due = max(due + INTERVAL_SECONDS, time.monotonic())
            try:
                window = self._monitor.read()
                with self._lock:
                    window = self._diagnosis.add(window)
                    self._seen.append(Seen(time.monotonic(), window))
            except Exception as error:
                self._failure = error
                return


def alarms(window: Window) -> list[Chain]:
    """The open chains that ask for somebody: those that are no mere information and not low."""
    return [chain for chain in window.chains if chain.open and chain.severity not in ("low", "info")]
