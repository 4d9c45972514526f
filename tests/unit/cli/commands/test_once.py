"""Tests how ``once`` adds many reads up to one window."""

from __future__ import annotations

from itertools import pairwise

import pytest

from stalltop.cli.commands import once
from stalltop.model.rows.pivot import pivot
from stalltop.model.window import Window
from tests.windows.by_hand import Calls, key, window


class SleepClock:
    """Stands for the module ``time``; only sleeping advances it."""

    def __init__(self) -> None:
        self.now = 50.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds


class ShortLivedProcesses:
    """A source whose reads take 40 ms. Each window shows a new process that made one call and then ended."""

    def __init__(self, clock: SleepClock) -> None:
        self.clock = clock
        self.read_at: list[float] = []
        self._last = clock.now

    def read(self) -> Window:
        self.clock.now += 0.04
        number = len(self.read_at)
        self.read_at.append(self.clock.now)
        seconds, self._last = self.clock.now - self._last, self.clock.now
        return window(
            [Calls(key(pid=100 + number), [1000 * (number + 1)])], seconds=seconds, loss={"no_slot": 1}
        )

    def close(self) -> None:
        """Does nothing, as there is nothing to release."""


@pytest.mark.parametrize(
    ("seconds", "reads"), [(0.1, 1), (1.0, 1), (1.4, 1), (3.0, 3), (9.7, 10), (60.0, 60)]
)
def test_once_reads_every_second_and_adds_up(
    seconds: float, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SleepClock()
    monkeypatch.setattr(once, "time", clock)
    source = ShortLivedProcesses(clock)
    whole = once.watch(source, seconds)
    assert len(source.read_at) == 1 + reads
    assert whole.seconds == pytest.approx(seconds, abs=0.05)
    assert all(0.1 <= after - before <= 1.5 for before, after in pairwise(source.read_at))
    # Calls before ``once`` began to watch are left out; all later calls are counted.
    assert sorted(row.pid for row in whole.rows.keys) == [101 + number for number in range(reads)]
    assert whole.lost == reads
    groups = pivot(whole, ())
    assert groups.calls.tolist() == [reads]
    assert groups.max_ns.tolist() == [1000 * (reads + 1)]
