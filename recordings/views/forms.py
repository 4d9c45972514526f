"""The forms in which a SELECT can read the calls of a view of single calls (``catalogue.EVENTS``).

A row of ``SUMS`` has the counts of one series: a weight, sums and a maximum. They are of one window if the
SELECT distinguishes windows, and of one CUDA kernel if it distinguishes CUDA kernels. A row of ``ALIKE``
stands for several calls with the same values; its weight is their number. A row of ``SINGLE`` is one call.
There are few rows of sums, but there may be very many single calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Form(IntEnum):
    """The form in which a SELECT reads calls; the docstring of this module describes the forms."""

    SUMS = 0
    ALIKE = 1
    SINGLE = 2


@dataclass(slots=True)
class Need:
    """The view that one SELECT needs in place of a view of single calls."""

    events: str
    """Name of the view of single calls that is replaced."""
    form: Form
    kernels: bool
    """Whether the SELECT distinguishes CUDA kernels."""
    windows: bool
    """Whether the SELECT distinguishes windows."""
    name: str
    """The name that stands in place of this view in the rewritten query."""
    longest: bool = False
    """Whether the SELECT uses the longest call of each sum."""
    rows: str = ""
    """A query for the rows of ``counts`` that the SELECT needs, as (window_id, place). '' if it needs all
    rows."""
    most: int | None = None
    """Largest weight that is needed. With a LIMIT of n, the SELECT uses at most n of several equal calls.
    None if there is no limit."""
