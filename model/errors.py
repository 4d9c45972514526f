"""Failures that a person is told about: what happened, and what to do."""

from __future__ import annotations

import os
import traceback


class StalltopError(Exception):
    """Ends the program with one clear message and a documented exit code, never a traceback."""

    exit_code = 1

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.reason}\n  {self.remedy}" if self.remedy else self.reason


class UsageError(StalltopError):
    """An option or file that makes no sense."""

    exit_code = 2


class TracingError(StalltopError):
    """This host, kernel or user cannot trace; the rest of the program works."""

    exit_code = 3


class UnsafeTracingError(TracingError):
    """Tracing would harm the programs that are traced: no other way of attaching is tried."""


def described(error: BaseException) -> str:
    """One line on an error that nobody expected: what it is, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"
