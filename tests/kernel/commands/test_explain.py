"""Tests ``stalltop explain`` on tenants that are really traced, beside another stalltop."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stalltop.files.normals_file import normals_path, read_normals

ROOT = Path(__file__).resolve().parents[3]
TUI = (sys.executable, "-m", "stalltop")


def started(*arguments: str, state: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*TUI, *arguments],
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def looks(state: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run ``explain`` and ``once``, each with a tracer of its own, at the same time; return their
    documents."""
    arguments = ("--json", "--seconds", "2", "--own")
    lookers = [started(command, *arguments, state=state) for command in ("explain", "once")]
    told = [looker.communicate(timeout=100) for looker in lookers]
    assert [looker.returncode for looker in lookers] == [0, 0], told
    assert [err for _, err in told] == ["", ""]
    explained, window = (json.loads(out) for out, _ in told)
    return explained, window


@pytest.mark.beside
@pytest.mark.timeout(400)
def test_demo_tenants_are_explained_and_a_baseline_is_stored(tmp_path: Path) -> None:
    """The demo runs until the test ends it, so that the test does not depend on the machine's speed."""
    path = normals_path(socket.gethostname(), tmp_path / "stalltop")
    tenants = started("demo", "trio", "--once", "--seconds", "600", state=tmp_path / "demo")
    deadline = time.monotonic() + 300
    try:
        # The demo does not say when all its tenants call, and a baseline needs some quiet windows. So this
        # repeats both commands until there are calls and a baseline. ``looks`` fails at the first wrong exit
        # code or message, so no failure is hidden by the repetition.
        while True:
            explained, window = looks(tmp_path)
            gaps = [row for row in window["operations"] if row["operation"] == "host gap"]
            if (explained["looked_at"]["calls"] and gaps and path.exists()) or time.monotonic() > deadline:
                break
        assert tenants.poll() is None
    finally:
        tenants.terminate()
        tenants.communicate(timeout=100)
    assert explained["schema"] == "stalltop.explain/1"
    assert explained["looked_at"]["calls"] > 0
    assert explained["looked_at"]["tenants"] > 0
    faults = [chain for chain in explained["chains"] if chain["severity"] != "info"]
    assert explained["healthy"] is (not faults)
    assert all(chain["summary"] and chain["title"] for chain in explained["chains"])
    # Host gaps are listed among the operations, and the parts of an operation's time add up to the whole. For
    # each process that makes calls, its use of resources is listed.
    assert gaps
    assert all(sum(row["split_ns"].values()) == row["total_ns"] for row in gaps)
    callers = {row["pid"] for row in window["operations"] if row["layer"] != "host"}
    assert callers & {use["pid"] for use in window["process_use"] if use["link"] == 0}
    assert read_normals(path) is not None
    assert not (tmp_path / "demo").exists(), "the demo stores no baseline of this host"
