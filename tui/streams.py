"""The standard streams of a program whose terminal or reader may go away."""

from __future__ import annotations

import contextlib
import os
import sys


def drop_output() -> None:
    """What stdout and stderr still hold goes nowhere: the interpreter's own flush at the end would fail."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
