"""Tests recorders killed at any moment, and logs cut off by a power loss."""

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
from tests.unit.recordings.write.until_killed import ROWS
from tests.windows.by_hand import row_table
from tests.windows.cheap import START, second

KILLS = int(os.environ.get("STALLTOP_KILLS", "48"))
ROUNDS = 8
"""Number of files. The kills are spread evenly over them."""
MOST_WINDOWS = 8
"""A recorder is killed after it has written fewer windows than this; after none, the file may not even
exist."""
LONGEST = 0.03
"""Longest time in seconds between the last window that a recorder writes and the kill."""


@contextmanager
def recorders() -> Iterator[tuple[IO[str], IO[str]]]:
    """Starts ``until_killed.py`` and yields its stdin and stdout."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.unit.recordings.write.until_killed"],
        cwd=Path(__file__).resolve().parents[4],
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
    """Kills a recorder ``seconds`` after it has written ``windows``; returns the number of the last window
    that it reported."""
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
    """Returns whether a recorder has created the tables."""
    return path.exists() and path.stat().st_size > 0 and not Path(f"{path}-journal").exists()


def check(windows: list[Window], numbers: int) -> None:
    """Checks that ``windows`` cover the first ``numbers`` seconds without a gap and have the recorded
    content."""
    at = 0
    for one in windows:
        assert one.start == START + at
        sent = merge([second(number, rows=ROWS) for number in range(at, at + round(one.seconds))])
        assert row_table(one.rows) == row_table(sent.rows)
        assert one.loss == sent.loss
        at += round(one.seconds)
    assert at == numbers


def test_a_killed_recorder_loses_no_written_window(tmp_path: Path) -> None:
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
                # The window that was being written is complete or missing, never in part. No window that was
                # reported is missing.
                with open_file(path) as recorded:
                    moments = recorded.moments
                    seconds = round(float(np.sum(moments.seconds)))
                    assert seconds in (written + 1, written + 2)
                written = seconds - 1
            with open_file(path) as recorded:
                check(recorded.between(0, 1e18), written + 1)
                assert not recorded.warnings


def test_a_power_loss_costs_only_what_was_not_flushed(tmp_path: Path) -> None:
    # After a power loss the log may be cut off or contain garbage, anywhere behind the part that was flushed.
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
        at = case % 5  # windows up to this one were flushed
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


def test_a_recorder_killed_while_it_created_the_file_leaves_a_usable_one(tmp_path: Path) -> None:
    path = tmp_path / "recording.stalltop"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.close()
    recording = Recording(path)
    recording.add(second(0, rows=ROWS))
    recording.close()
    with open_file(path) as recorded:
        check(recorded.between(0, 1e18), 1)
