"""Runs commands of a fleet."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import stalltop
from stalltop.cli import main as cli
from stalltop.fleet.connection import ServerAccess


def start(access: ServerAccess, *arguments: str) -> subprocess.Popen[str]:
    """Starts a command of stalltop."""
    command = [sys.executable, "-P", "-m", "stalltop", *arguments, "--nats", access.urls[0]]
    environment = {**os.environ, "PYTHONPATH": str(Path(stalltop.__file__).parents[1])}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)


def ended(process: subprocess.Popen[str]) -> str:
    """Ends a command as Ctrl-C does, and returns what it said."""
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 0, said
    return said


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Returns the JSON object that a command prints."""
    assert cli.main(arguments) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found
