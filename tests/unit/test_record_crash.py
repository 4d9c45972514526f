"""Recorders that are killed at any moment, and logs that a loss of power cut off."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from stalltop.model.merge.merging import merge
from stalltop.model.window import Window
from stalltop.recordings.read.reading import open_file
from stalltop.recordings.write.recording import Recording
from tests.unit.record_until_killed import ROWS
from tests.unit.recorded_windows import START, second
from tests.unit.windows import row_table

KILLS = int(os.environ.get("STALLTOP_KILLS", "200"))
ROUNDS = 8
"""Files that these kills are spread over."""
MOST_WINDOWS = 8
"""What a recorder may write before it is killed; where it is nothing, it may not even have made the file."""
LONGEST = 0.03
"""Seconds that it may live after that."""


@contextmanager
def recorders() -> Iterator[tuple[IO[str], IO[str]]]:
    """What is written to it, and read from it: see ``record_until_killed``."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.unit.record_until_killed"],
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        try:
            yield parent.stdin, parent.stdout
        finally:
            parent.stdin.close()
            parent.stdout.close()
            parent.kill()


def killed(commands: IO[str], said: IO[str], path: Path, windows: int, seconds: float) -> int | None:
    """Let one record, kill it so many seconds after so many windows; gives the last one that it said it had
    written."""
    commands.write(f"{path}\n")
    pid = int(said.readline())
    last = None
    for _ in range(windows):
        last = int(said.readline())
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    while (line := said.readline()) != "ended\n":
        assert line, "the recorder failed"
        last = int(line)
    return last


def begun(path: Path) -> bool:
    """Whether a recorder came as far as to make the tables."""
    return path.exists() and path.stat().st_size > 0 and not Path(f"{path}-journal").exists()


def check(windows: list[Window], numbers: int) -> None:
    """``windows`` are all seconds from the first to ``numbers``, each equal to what was sent."""
    at = 0
    for one in windows:
        assert one.start == START + at
        sent = merge([second(number, rows=ROWS) for number in range(at, at + round(one.seconds))])
        assert row_table(one.rows) == row_table(sent.rows)
        assert one.loss == sent.loss
        at += round(one.seconds)
    assert at == numbers


def test_killed_at_any_moment_nothing_that_was_written_is_lost(tmp_path: Path) -> None:
    chance = random.Random(1)
    with recorders() as (commands, said):
        for round_ in range(ROUNDS):
            path = tmp_path / f"{round_}.stalltop"
            written = -1
            for _ in range(KILLS // ROUNDS):
                last = killed(
                    *(commands, said, path),
                    *(chance.randrange(MOST_WINDOWS), chance.random() * LONGEST),
                )
                written = written if last is None else last
                if written < 0 and not begun(path):
                    continue
                # What was being written may be there, too: never less, and never in part.
                with open_file(path) as recorded:
                    moments = recorded.moments
                    seconds = round(float(np.sum(moments.seconds)))
                    assert seconds in (written + 1, written + 2)
                written = seconds - 1
            with open_file(path) as recorded:
                check(recorded.between(0, 1e18), written + 1)
                assert not recorded.warnings


def test_a_loss_of_power_costs_only_what_was_not_flushed(tmp_path: Path) -> None:
    # The log as it may be found: cut off, or with other bytes, anywhere after what was flushed.
    path = tmp_path / "recording.stalltop"
    recording = Recording(path)
    connection = recording._db
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    lengths = []
    for number in range(6):
        recording.add(second(number, rows=ROWS))
        lengths.append(Path(f"{path}-wal").stat().st_size)
    chance = random.Random(2)
    found = tmp_path / "found.stalltop"
    for case in range(30):
        at = case % 5  # the windows to this one were flushed
        shutil.copy(path, found)
        log = bytearray(Path(f"{path}-wal").read_bytes())
        cut = chance.randrange(lengths[at], lengths[at + 1])
        log[cut:] = chance.randbytes(len(log) - cut) if case % 2 else b""
        Path(f"{found}-wal").write_bytes(log)
        Path(f"{found}-shm").unlink(missing_ok=True)
        with open_file(found) as recorded:
            check(recorded.between(0, 1e18), at + 1)
        going_on = Recording(found)
        assert going_on.windows == at + 1
        going_on.add(second(at + 1, rows=ROWS))
        going_on.close()
        with open_file(found) as recorded:
            check(recorded.between(0, 1e18), at + 2)
    recording.close()


def test_a_recorder_that_died_while_it_began_leaves_no_wreck(tmp_path: Path) -> None:
    path = tmp_path / "recording.stalltop"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.close()
    recording = Recording(path)
    recording.add(second(0, rows=ROWS))
    recording.close()
    with open_file(path) as recorded:
        check(recorded.between(0, 1e18), 1)
