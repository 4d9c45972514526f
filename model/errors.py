"""Errors that are reported to the user: what happened, and what to do."""

from __future__ import annotations

import os
import traceback


class StalltopError(Exception):
    """Ends the program with a message and a documented exit code, without a traceback.

    ``reason`` says what happened to what; ``remedy`` says what to do and is printed on a line of its own.
    """

    exit_code = 1

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.reason}\n  {self.remedy}" if self.remedy else self.reason


class UsageError(StalltopError):
    """Invalid option, argument or config file."""

    exit_code = 2


class TracingError(StalltopError):
    """Tracing is impossible on this host, with this Linux kernel or for this user; functions that do not
    trace still work. `Monitor` keeps this error in ``cannot_trace``. The commands ``live`` and ``serve`` then
    show only figures that need no tracing; all other commands that trace end with ``exit_code``."""

    exit_code = 3


class UnsafeTracingError(TracingError):
    """Tracing would harm the traced programs. After this error stalltop does not try another attach
    method."""


def described(error: BaseException) -> str:
    """Describes an unexpected error in one line: its class, its message, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"
