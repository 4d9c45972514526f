"""Tests that a long recording has the right windows and stays within its bound.

``bench/monitor/recording.py`` measures a whole week.
"""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from bench.monitor.week import InventedHost, lengths, make
from stalltop.recordings.read.reading import open_file
from stalltop.recordings.write.bounds import LEAST_BYTES, Bounds
from stalltop.recordings.write.recording import Recording
from stalltop.recordings.write.thinning import LEFT_ALONE, TIERS, Tier

END = 1_750_000_000.0
SECONDS = 4_800
SHORT = (Tier(0, 300.0), Tier(10, 1_200.0), Tier(60, float("inf")))


def test_the_generated_week_has_the_windows_of_a_recorder() -> None:
    made = lengths(7 * 86_400)
    assert sum(seconds for seconds, _ in made) == 7 * 86_400
    for tier, following in pairwise(TIERS):
        newer = sum(seconds for seconds, level in made if level <= tier.length)
        assert tier.seconds <= newer < tier.seconds + following.length
    assert [level for _, level in made] == sorted((level for _, level in made), reverse=True)


def test_a_long_recording_continues_within_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "recording.stalltop"
    host = InventedHost(rows=20)
    number = make(path, host, SECONDS, END, SHORT)
    with open_file(path) as recorded:
        moments = recorded.moments
        assert len(moments) == number
        assert set(moments.level.tolist()) == {0, 10, 60}
        assert float(np.sum(moments.seconds)) == SECONDS
        assert moments.end[-1] == END
        assert any(window.chains for window in recorded.windows())
    # Opening the recording again changes nothing. With a bound below its size, it merges windows.
    recording = Recording(path, tiers=SHORT)
    assert (recording.windows, recording.seconds) == (number, SECONDS)
    recording.close()
    assert path.stat().st_size > LEAST_BYTES
    recording = Recording(path, Bounds(LEAST_BYTES), SHORT)
    end = time.monotonic() + 60.0
    second = 0
    while second < 20 or recording.bytes > LEAST_BYTES:
        recording.add(host.window(END + second, 1.0))
        recording.tend()
        second += 1
        assert time.monotonic() < end
    recording.close()
    # The recording first merged windows and then dropped the oldest ones. The remaining windows have their
    # exact counts.
    with open_file(path) as recorded:
        moments = recorded.moments
        assert len(moments) < number
        assert float(np.sum(moments.seconds)) >= 10 * LEFT_ALONE + LEFT_ALONE
        after = [window for window in recorded.between(END, END + 1e6) if window.start >= END]
    sent = [host.window(END + at, 1.0) for at in range(round(after[0].start - END), second)]
    assert sum(int(window.rows.calls.sum()) for window in after) == sum(
        int(window.rows.calls.sum()) for window in sent
    )
