"""Starts processes that end with the one that started them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_EXECUTES: Final = (
    f"import ctypes,os,sys;ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG},{int(signal.SIGTERM)})\n"
    # The signal is not sent if the parent has ended before.
    "if os.getppid()==int(sys.argv[1]):os.execv(sys.argv[2],sys.argv[2:])"
)


def ending_with_parent(command: Sequence[str]) -> list[str]:
    """Returns a command that executes ``command`` as a process that gets SIGTERM when the thread that started
    it ends, however that ends. ``command`` begins with a path."""
    # -I: no module of the working directory is imported.
    return [sys.executable, "-I", "-S", "-c", _EXECUTES, str(os.getpid()), *command]
