"""Findings of the readiness check (``stalltop check``)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "fail"]
"""``ok``: nothing is missing; ``warn``: a function of stalltop does not work on this host (the finding names
the function); ``fail``: nothing can be traced on this host."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    name: str
    """Stable key of one or two words, such as ``kernel``."""
    verdict: Verdict
    seen: str
    """What was found, in one line."""
    remedy: str = ""
    """What to do about it, in one line; '' if there is nothing to do."""


def can_trace(findings: Iterable[Finding]) -> bool:
    """Returns True if no finding has failed."""
    return all(finding.verdict != "fail" for finding in findings)
