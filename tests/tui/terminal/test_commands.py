"""Tests the commands that record and open a file, in a real terminal."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.tui.pseudo_terminal import ROOT, PseudoTerminal

DEADLINE = 120.0


def test_opening_a_recording_leaves_the_file_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "made.stalltop"
    recorded = subprocess.run(
        (
            sys.executable,
            "-P",
            "-m",
            "stalltop",
            "record",
            "--simulated",
            "--seconds",
            "5",
            "--to",
            str(path),
        ),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        timeout=DEADLINE,
    )
    assert recorded.returncode == 0, recorded.stderr
    before = hashlib.sha256(path.read_bytes()).digest()
    with PseudoTerminal("-P", "-m", "stalltop", "open", str(path), "--no-state", "--window", "1") as terminal:
        terminal.sees("RECORDED 20")
        terminal.until(
            lambda: re.search(r"recorded \d+s: \[ \] step", terminal.text), "no message about the recording"
        )
        terminal.press("[")
        terminal.until(lambda: "-1s" in terminal.text, "no step back")
        terminal.press("Tstart\r")
        terminal.until(
            lambda: "-1s" not in terminal.text and " -" in terminal.text.splitlines()[2],
            "the start was not shown",
        )
        terminal.press("P")
        terminal.sees("PLAY 1x")
        terminal.press(" ")
        terminal.sees("RECORDED 20")
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.restored()
    assert hashlib.sha256(path.read_bytes()).digest() == before
    assert os.listdir(tmp_path) == [path.name]


def test_a_file_that_is_no_recording_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "none.stalltop"
    path.write_bytes(b"")
    with PseudoTerminal("-P", "-m", "stalltop", "open", str(path), "--at", "-2h", size=(400, 24)) as terminal:
        assert terminal.wait() == 2
        assert "it is an empty file" in terminal.text
