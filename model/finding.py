"""What a look at a host found, one thing at a time: for the readiness check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "fail"]
"""``warn`` costs something that is named; ``fail`` means that nothing can be traced here."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    name: str
    """A stable key of one or two words, such as ``kernel``."""
    verdict: Verdict
    seen: str
    """What was seen, one line."""
    remedy: str = ""
    """What to do about it, one line; empty where there is nothing to do."""


def can_trace(findings: Iterable[Finding]) -> bool:
    """Whether nothing stands in the way of tracing."""
    return all(finding.verdict != "fail" for finding in findings)
