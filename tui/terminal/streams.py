"""The standard streams of a program whose terminal or reader may go away."""

from __future__ import annotations

import contextlib
import os
import sys


def drop_output(*, keep_errors: bool = False) -> None:
    """Discard the buffered output of stdout and stderr: otherwise the interpreter's last flush would fail.

    With ``keep_errors`` discard only the output of stdout, so that an error can be reported on stderr.
    """
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout,) if keep_errors else (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
