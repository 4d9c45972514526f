"""Reads a window of the host once a second, and stores the window, the chains that the diagnosis finds in it,
and the time at which the diagnosis was complete."""

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
"""Length of a window: the default of the screen."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One window, with the chains that the diagnosis found in it."""

    at: float
    """When the diagnosis of the window was complete (time.monotonic())."""
    window: Window


class Watcher:
    """One tracer for many trials. Each trial has its own diagnosis, which knows nothing of other trials,
    except for the baselines that ``normals`` learned in them."""

    def __init__(self, nvml_environment: Mapping[str, str], normals: Normals | None = None) -> None:
        """``nvml_environment`` is the environment in which NVML is loaded. ``normals`` are baselines that all
        trials use and learn into; if None, each trial begins without baselines. Raises TracingError if this
        host cannot be traced."""
        self._monitor = Monitor(MonitorOptions(nvml_environment=nvml_environment))
        if self._monitor.cannot_trace is not None:
            self._monitor.close()
            raise self._monitor.cannot_trace
        self._lock = threading.Lock()
        self._normals = normals
        self._diagnosis = Diagnosis(own_pid=os.getpid())
        self._seen: list[Seen] = []
        self._from = 0.0
        """Windows that begin before this Unix time are ignored. With ``normals``, containers have the same
        ids in all trials of a fault, so these windows would be taken for windows of this trial's
        containers."""
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
        """Returns whether trials use baselines of earlier trials. If so, the containers must have the same
        ids in all trials of a fault, because baselines belong to containers."""
        return self._normals is not None

    def begin(self) -> None:
        """Begins a new trial: forgets all windows and starts a new diagnosis."""
        with self._lock:
            self._diagnosis = Diagnosis(own_pid=os.getpid(), normals=self._normals)
            self._seen = []
            self._from = time.time() if self.learns else 0.0

    def end(self) -> None:
        """Ends a trial. Until the next `begin`, no baselines are learned, because the tenants of this trial
        end and those of the next one start."""
        with self._lock:
            self._diagnosis = Diagnosis(own_pid=os.getpid())

    def seen(self) -> list[Seen]:
        """Returns all windows since `begin`, oldest first. If the watcher has failed, raises its error."""
        with self._lock:
            if self._failure is not None:
                raise self._failure
            return list(self._seen)

    def taken(self) -> list[Seen]:
        """Returns all windows since `begin` or the last call of this method, oldest first, and forgets them;
        the diagnosis continues. If the watcher has failed, raises its error."""
        with self._lock:
            seen, self._seen = self._seen, []
            if self._failure is not None:
                raise self._failure
            return seen

    def close(self) -> None:
        """Stops reading windows and ends the tracer."""
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
    """Returns the alarms of a window: its open chains of medium, high or critical severity."""
    return [chain for chain in window.chains if chain.open and chain.severity not in ("low", "info")]
