"""Conditions of ``stalltop diff --fail-if``, such as ``p99 > 1.5x``, evaluated for each row of a difference.

A condition is ``FIGURE > LIMIT`` (or ``>=``, ``<``, ``<=``). If the limit ends in ``x``, it is compared with
the ratio of the figure now to the figure then; otherwise it is compared with the figure now. Durations need a
unit, as in ``20ms``. A percentile meets a condition only if its whole 95 % confidence interval is beyond the
limit, so that a row with few calls does not meet the condition by chance.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from stalltop.model.comparing.chain_difference import ChainChange
from stalltop.model.comparing.difference import ComparedSide, Difference, Flags, Floats, of_rows
from stalltop.model.rows.pivot import PERCENTS

_COMPARED: Final[dict[str, Callable[[Floats, float], Flags]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_DURATIONS_NS: Final = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_PERCENTILES: Final = {f"p{percent:.0f}": percent for percent in PERCENTS}
_UNITS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys((*_PERCENTILES, "max", "mean"), ("x", *_DURATIONS_NS)),
    "calls": ("x",),
    "errors": ("", "x"),
    "lost": tuple(f"{unit}/s" for unit in _DURATIONS_NS),
    "faults": ("",),
}
FIGURES: Final = tuple(_UNITS)
"""Figures that a condition may name. ``errors``: number of failed calls (with ``x``: failed calls per
second); ``lost``: time per second lost because calls take longer now than then; ``faults``: number of new
chains, without those of severity ``info``."""
_FORM: Final = re.compile(r"\s*([a-z]+[0-9]*)\s*(>=|<=|>|<)\s*([0-9]+(?:\.[0-9]*)?)\s*([a-zµ/]*)\s*")


@dataclass(frozen=True, slots=True)
class Met:
    """Rows and faults that meet a condition."""

    rows: tuple[int, ...]
    """Indices of the rows of the difference that meet the condition significantly."""
    unsure: tuple[int, ...] = ()
    """Indices of the rows that meet the condition, but with too few calls to be significant."""
    faults: int | None = None
    """Number of new faults if the figure of the condition is ``faults`` and the condition is met; else
    None."""

    @property
    def sure(self) -> bool:
        """Returns whether the condition is met beyond doubt."""
        return bool(self.rows) or self.faults is not None


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition."""

    text: str
    """The condition as typed."""
    figure: str
    sign: str
    limit: float
    """A ratio if ``ratio`` is True; otherwise ns, ns per second, or a count, depending on ``figure``."""
    ratio: bool
    """True if the limit was typed with an ``x``."""

    def judge(self, difference: Difference, faults: Sequence[ChainChange]) -> Met:
        """Evaluates the condition for each row of ``difference``. If the figure of the condition is
        ``faults``, compares the number of new ``faults`` with the limit instead.

        Rows without calls now, and rows of host gaps and host work, never meet a condition. A row that is in
        only one of the windows never meets a condition on a ratio.
        """
        beyond = _COMPARED[self.sign]
        if self.figure == "faults":
            new = sum(change.fault and change.state == "new" for change in faults)
            return Met((), faults=new if beyond(np.array([float(new)]), self.limit)[0] else None)
        now = difference.now
        calls = now.of(now.groups.calls) > 0
        judged = calls & ~difference.between
        value = self._value(difference)
        holds = judged & beyond(value, self.limit)
        sure = holds & self._sure(difference)
        return Met(tuple(np.flatnonzero(sure).tolist()), unsure=tuple(np.flatnonzero(holds & ~sure).tolist()))

    def _value(self, difference: Difference) -> Floats:
        """Returns, for each row, the value to compare with the limit. A row without such a value gets NaN,
        which meets no condition."""
        if self.figure == "lost":
            return difference.lost_ns_per_s
        now, then = _figure(difference.now, self.figure), _figure(difference.then, self.figure)
        if not self.ratio:
            return _whole(difference.now, self.figure) if self.figure == "errors" else now
        # If there are errors now and there were none then, the ratio is infinite and above every limit.
        with np.errstate(divide="ignore", invalid="ignore"):
            return now / then

    def _sure(self, difference: Difference) -> Flags:
        """Returns for which rows the comparison with the limit is significant. The figure ``lost`` is
        significant in rows that changed (``Difference.changed``). All other figures without a confidence
        interval are always significant."""
        if self.figure == "lost":
            return difference.changed
        percent = _PERCENTILES.get(self.figure)
        if percent is None:
            return np.ones(len(difference.now.at), np.bool_)
        low, high = of_rows(difference.now, percent)
        if self.ratio:
            then_low, then_high = of_rows(difference.then, percent)
            with np.errstate(divide="ignore", invalid="ignore"):
                low, high = low / then_high, high / then_low
        return _COMPARED[self.sign](low if self.sign.startswith(">") else high, self.limit)


def _figure(side: ComparedSide, name: str) -> Floats:
    """Returns the figure ``name`` of each row in one window; NaN for rows without calls. Counts are returned
    as rates per second."""
    groups = side.groups
    calls = side.of(groups.calls)
    calls = np.where(calls > 0, calls, np.nan)
    if name in _PERCENTILES:
        found = side.of(groups.percentiles_ns[:, PERCENTS.index(_PERCENTILES[name])])
    elif name == "max":
        found = side.of(groups.max_ns)
    elif name == "mean":
        found = side.of(groups.total_ns) / calls
    else:
        found = side.of(getattr(groups, name)) / side.seconds
    return np.where(np.isnan(calls), np.nan, found)


def _whole(side: ComparedSide, name: str) -> Floats:
    return side.of(getattr(side.groups, name))


def condition(text: str) -> Condition:
    """Parses the condition ``text``. If it is invalid, raises ValueError with a message of one line."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueError(
            f"{text!r} is not a condition; examples: p99 > 1.5x, max > 20ms, errors > 0, faults > 0"
        )
    figure, sign, number, unit = form.groups()
    if figure not in _UNITS:
        raise ValueError(f"{text!r}: unknown figure {figure}; use one of {', '.join(FIGURES)}")
    units = _UNITS[figure]
    if unit not in units:
        known = " or ".join(unit or "no unit" for unit in units)
        raise ValueError(f"{text!r}: write the limit of {figure} with {known}")
    scale = _DURATIONS_NS.get(unit.removesuffix("/s"), 1.0) if unit not in ("", "x") else 1.0
    return Condition(text, figure, sign, float(number) * scale, unit == "x")
