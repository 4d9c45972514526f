"""Reads the host once a second and stores what the diagnosis finds, and when."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stalltop.diagnosis.engine import Diagnosis
from stalltop.diagnosis.normals import Normals
from stalltop.model.chain import Chain
from stalltop.model.window import Window
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions

INTERVAL_SECONDS: Final = 1.0
"""Interval of windows, the default of the screen."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One window with what the diagnosis found."""

    at: float
    """When it was complete: time.monotonic()."""
    window: Window


class Watcher:
    """One tracer for many trials; each trial has a diagnosis of its own, which knows nothing of other trials
    except, if that is asked for, the baselines learned in them."""

    def __init__(self, nvml_environment: Mapping[str, str], normals: Normals | None = None) -> None:
        """``nvml_environment`` is the environment in which NVML is loaded. ``normals`` are the baselines with
        which all trials begin, and which learn from them; if None, each trial begins without any. Raises
        TracingError."""
        self._monitor = Monitor(MonitorOptions(nvml_environment=nvml_environment))
        if self._monitor.cannot_trace is not None:
            self._monitor.close()
            raise self._monitor.cannot_trace
        self._lock = threading.Lock()
        self._normals = normals
        self._diagnosis = Diagnosis(own_pid=os.getpid())
        self._seen: list[Seen] = []
        self._from = 0.0
        """Unix time before which windows belong to an earlier trial of the same containers."""
        self._failure: BaseException | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watcher", daemon=True)
        self._thread.start()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def learns(self) -> bool:
        """Returns whether trials begin with the baselines of earlier ones: then their containers have to be
        the same."""
        return self._normals is not None

    def begin(self) -> None:
        """Forgets what was seen, for a new trial."""
        with self._lock:
            self._diagnosis = Diagnosis(own_pid=os.getpid(), normals=self._normals)
            self._seen = []
            self._from = time.time() if self.learns else 0.0

    def end(self) -> None:
        """Ends a trial: nothing is learned while its tenants end and those of the next one start."""
        with self._lock:
            self._diagnosis = Diagnosis(own_pid=os.getpid())

    def seen(self) -> list[Seen]:
        """Returns everything since `begin`, oldest first. Raises the error that ended the watcher."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            return list(self._seen)

    def taken(self) -> list[Seen]:
        """Returns the same and forgets it, while the diagnosis continues. Raises the error that ended the
        watcher."""
        with self._lock:
            seen, self._seen = self._seen, []
            if self._failure is not None:
                raise self._failure
            return seen

    def close(self) -> None:
        """Ends the watcher."""
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
                    if window.start >= self._from:
                        window = self._diagnosis.add(window)
                        self._seen.append(Seen(time.monotonic(), window))
            except Exception as error:
                self._failure = error
                return


def alarms(window: Window) -> list[Chain]:
    """Returns the open chains that call for action: those of medium severity or worse."""
    return [chain for chain in window.chains if chain.open and chain.severity not in ("low", "info")]
