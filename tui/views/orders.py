"""Orders of rows that are no column. Imports nothing: the command line needs the names."""

from __future__ import annotations

from typing import Final

WORST: Final = "worst"
"""Rows that lose time against normal come first."""
