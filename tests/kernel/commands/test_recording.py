"""Tests ``stalltop record`` on real tracing: it is killed, started again, and ended in the regular way."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from stalltop.demo.build import Built
from stalltop.demo.tenants import DemoTenants
from stalltop.model.window import Window
from stalltop.recordings.read.reading import Recorded, WindowGoneError, open_file
from tests.kernel.commands.program import started
from tests.kernel.harness import wait_until

DEADLINE_SECONDS = 120.0
"""Longest wait for the recorder to compile and attach its BPF programs and to count the first call."""

pytestmark = [
    pytest.mark.beside,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can trace"),
    pytest.mark.timeout(600),
]


def callers(windows: list[Window]) -> set[int]:
    """Return the PIDs of processes with recorded calls."""
    return {
        key.pid
        for window in windows
        for key, calls in zip(window.rows.keys, window.rows.calls.tolist(), strict=True)
        if calls and key.layer in ("runtime", "driver")
    }


def read(path: Path) -> list[Window]:
    """Return the windows in the file, to which a recorder may be writing at the same time."""
    if not path.exists() or not Path(f"{path}-wal").exists():
        return []
    with open_file(path) as recorded:
        return found(recorded)


def found(recorded: Recorded) -> list[Window]:
    windows = []
    for number in recorded.moments.window_id.tolist():
        try:
            windows.append(recorded.window(number))
        except WindowGoneError:
            continue
    assert not recorded.warnings
    return windows


def test_recorded_calls_survive_a_kill_and_another_start(built: Built, tmp_path: Path) -> None:
    path = tmp_path / "recording.stalltop"
    with DemoTenants("trio", built=built) as tenants:
        pids = set(tenants.pids)
        with started(tmp_path, "record", "--to", str(path)) as process:
            wait_until(
                lambda: callers(read(path)) >= pids, deadline=DEADLINE_SECONDS, what="calls of all tenants"
            )
            before = len(read(path))
            process.send_signal(signal.SIGKILL)
            process.wait()
        after = read(path)
        assert len(after) >= before
        with started(tmp_path, "record", "--to", str(path)) as process:
            wait_until(
                lambda: len(more := read(path)[len(after) :]) >= 3 and callers(more) >= pids,
                deadline=DEADLINE_SECONDS,
                what="calls of all tenants, again",
            )
            process.terminate()
            _, told = process.communicate(timeout=DEADLINE_SECONDS)
            assert process.returncode == 0, told
    assert not Path(f"{path}-wal").exists()
    with open_file(path) as recorded:
        moments = recorded.moments
        windows = found(recorded)
    assert len(windows) >= len(after) + 3
    assert np.all(np.diff(moments.start) > 0)
    # Each window begins where the previous one ended, except after the time without a recorder.
    pauses = moments.start[1:] - moments.end[:-1]
    assert np.sum(np.abs(pauses) > 0.5) == 1
    assert callers(windows[: len(after)]) >= pids
    assert callers(windows[len(after) :]) >= pids
    assert all(window.coverage.attached for window in windows[-2:])
    assert not any(window.simulated for window in windows)
