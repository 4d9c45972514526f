"""The standard streams of a program whose terminal or reader may go away."""

from __future__ import annotations

import contextlib
import os
import sys


def drop_output(*, keep_errors: bool = False) -> None:
    """What stdout and stderr still hold goes nowhere: the interpreter's own flush at the end would fail.

    ``keep_errors``: stdout's only, so that something can be said of it."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout,) if keep_errors else (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
