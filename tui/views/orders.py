"""Orders of rows other than by a column. Imports nothing: the command line needs the names."""

from __future__ import annotations

from typing import Final

WORST: Final = "worst"
"""Rows that lose time, or whose p99 is far above its baseline, come first."""
