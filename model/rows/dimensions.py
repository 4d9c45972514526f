"""The dimensions by which rows can be grouped. This module imports no other module of stalltop, so that the
command line gets their names quickly."""

from __future__ import annotations

from typing import Literal, get_args

Dimension = Literal["container", "namespace", "pod", "process", "operation", "layer", "device", "host"]

DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
"""All dimensions by which rows can be grouped."""

COMPARED_BY = tuple(name for name in DIMENSIONS if name not in ("device", "host"))
"""Dimensions by which the rows of two runs can be compared. Hosts and devices differ between two runs, so
they are left out."""
