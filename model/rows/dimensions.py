"""The dimensions that rows can be grouped by. Imports nothing else: the command line needs the names."""

from __future__ import annotations

from typing import Literal, get_args

Dimension = Literal["container", "namespace", "pod", "process", "operation", "layer", "device", "host"]

DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
"""All dimensions that rows can be grouped by."""
