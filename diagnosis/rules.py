"""All rules, in one list."""

from __future__ import annotations

from typing import Final

from diagnosis.suspicion import Rule

RULES: Final[tuple[Rule, ...]] = ()
