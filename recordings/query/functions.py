"""Adds SQL functions on histograms: ``p(histogram, 99)``, ``p(histogram, 99, max_ns)``, their short forms
such as ``p99(histogram)``, and the aggregate ``hmerge(histogram)``."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from stalltop.model.histograms import payload as hdr_payload
from stalltop.model.histograms.histograms import Histograms

_AT_ONCE = 4096
"""Number of histograms that are collected before they are added up together."""


SHORT = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
"""The percentile of each short form: ``p99(histogram)`` is ``p(histogram, 99)``. A second argument limits the
result, as the third one of ``p`` does."""

NAMES = ("p", "percentile", *SHORT, "hmerge")
"""Names of the SQL functions."""


def add(connection: sqlite3.Connection) -> list[str]:
    """Add the functions to ``connection``. Returns a list. To this list, the functions append the reason of
    each error, because SQLite does not pass the reason on."""
    refused: list[str] = []

    class ReportingSum(_HistogramSum):
        def step(self, payload: object) -> None:
            with _told(refused):
                super().step(payload)

        def finalize(self) -> bytes | None:
            with _told(refused):
                return super().finalize()

    def percentile(payload: object, percent: object, *longest: object) -> int | None:
        with _told(refused):
            return _percentile(payload, percent, *longest)

    for arguments in (2, 3):
        connection.create_function("p", arguments, percentile, deterministic=True)
        connection.create_function("percentile", arguments, percentile, deterministic=True)
    for name, percent in SHORT.items():
        for arguments in (1, 2):
            short = partial(_swapped, percentile, percent)
            connection.create_function(name, arguments, short, deterministic=True)
    connection.create_aggregate("hmerge", 1, ReportingSum)  # type: ignore[arg-type]  # of bytes too
    return refused


def _swapped(
    percentile: Callable[..., int | None], percent: float, payload: object, *rest: object
) -> int | None:
    return percentile(payload, percent, *rest)


@contextlib.contextmanager
def _told(refused: list[str]) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        refused.append(str(error))
        raise


def _percentile(payload: object, percent: object, longest: object = None) -> int | None:
    """Return the percentile in ns. It is the upper bound of that counter of the histogram in which the
    percentile lies, but at most ``longest``. Returns None (NULL) if the histogram is NULL or empty."""
    if payload is None or percent is None:
        return None
    if not isinstance(payload, bytes):
        raise ValueError("p(histogram, percent): the first argument is not a histogram")
    if isinstance(percent, bool) or not isinstance(percent, (int, float)) or not 0 <= percent <= 100:
        raise ValueError(
            "p(histogram, percent): percent must be a number from 0 to 100, for example p(histogram, 99)"
        )
    if longest is not None and (isinstance(longest, bool) or not isinstance(longest, (int, float))):
        raise ValueError("p(histogram, percent, max_ns): max_ns must be a number")
    histogram = hdr_payload.histograms([payload])
    if not len(histogram.index):
        return None
    found = int(histogram.percentiles([float(percent)])[0, 0])
    return found if longest is None else min(found, int(longest))


class _HistogramSum:
    """The aggregate ``hmerge``, which adds up the histograms of a group."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._sum: Histograms | None = None

    def step(self, payload: object) -> None:
        """Add a histogram. NULL is ignored."""
        if payload is None:
            return
        if not isinstance(payload, bytes):
            raise ValueError("hmerge(histogram): the argument is not a histogram")
        self._waiting.append(payload)
        if len(self._waiting) >= _AT_ONCE:
            self._add()

    def finalize(self) -> bytes | None:
        """Return the payload of the sum; None (NULL) if there was no histogram."""
        if self._waiting:
            self._add()
        return None if self._sum is None else hdr_payload.payloads(self._sum)[0]

    def _add(self) -> None:
        many = hdr_payload.histograms(self._waiting)
        self._waiting.clear()
        if self._sum is not None:
            many = Histograms.concatenate((self._sum, many))
        self._sum = many.grouped(np.zeros(len(many), np.int64), 1)
