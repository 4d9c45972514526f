"""What must not have become of a window, such as ``p99 > 1.5x``: judged row by row against another one.

A condition is ``FIGURE > LIMIT`` (or ``>=``, ``<``, ``<=``). A limit with an ``x`` is a ratio, now against
then; any other is what the figure is now, durations with their unit. A percentile only counts where its 95 %
confidence interval lies beyond the limit as a whole: a figure of few calls fails nothing by chance.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from stalltop.model.comparing.chain_difference import ChainChange
from stalltop.model.comparing.difference import Difference, Flags, Floats, Side, of_rows
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
"""What can be judged. ``errors`` counts calls that failed (``x``: a second); ``lost`` is the time lost a
second to calls that take longer than then; ``faults`` are causal chains that are new."""
_FORM: Final = re.compile(r"\s*([a-z]+[0-9]*)\s*(>=|<=|>|<)\s*([0-9]+(?:\.[0-9]*)?)\s*([a-zµ/]*)\s*")


@dataclass(frozen=True, slots=True)
class Met:
    """Where a condition holds."""

    rows: tuple[int, ...]
    """Of the difference: those that hold beyond what chance explains."""
    unsure: tuple[int, ...] = ()
    """Those that hold as well, but whose calls are too few to say so."""
    faults: int = 0
    """New ones, where the condition is on these and holds."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition."""

    text: str
    """As it was typed."""
    figure: str
    sign: str
    limit: float
    """A ratio, or ns, ns a second, or a count."""
    ratio: bool

    def judge(self, difference: Difference, faults: Sequence[ChainChange]) -> Met:
        """Where it holds. Time between calls is compared, never judged; nor is a row that is only on one side
        by a ratio."""
        beyond = _COMPARED[self.sign]
        if self.figure == "faults":
            new = sum(change.fault and change.state == "new" for change in faults)
            return Met((), faults=new if beyond(np.array([float(new)]), self.limit)[0] else 0)
        now = difference.now
        calls = now.of(now.groups.calls) > 0
        judged = calls & ~difference.between
        value = self._value(difference)
        holds = judged & beyond(value, self.limit)
        sure = holds & self._sure(difference)
        return Met(tuple(np.flatnonzero(sure).tolist()), unsure=tuple(np.flatnonzero(holds & ~sure).tolist()))

    def _value(self, difference: Difference) -> Floats:
        """The figure of each row; NaN, which holds nowhere, where there is none."""
        if self.figure == "lost":
            return difference.lost_ns_per_s
        now, then = _figure(difference.now, self.figure), _figure(difference.then, self.figure)
        if not self.ratio:
            return _whole(difference.now, self.figure) if self.figure == "errors" else now
        # More errors than none at all are infinitely more.
        with np.errstate(divide="ignore", invalid="ignore"):
            return now / then

    def _sure(self, difference: Difference) -> Flags:
        """Rows whose figure is beyond chance; figures without an interval are taken as they are."""
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


def _figure(side: Side, name: str) -> Floats:
    """A figure of each row on one side; rates for what is counted, NaN where there is no call."""
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


def _whole(side: Side, name: str) -> Floats:
    return side.of(getattr(side.groups, name))


def condition(text: str) -> Condition:
    """The condition ``text``. Raises ValueError, in one line, where it is none."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueError(
            f"{text!r} is no condition: one is like p99 > 1.5x, max > 20ms, errors > 0, faults > 0"
        )
    figure, sign, number, unit = form.groups()
    if figure not in _UNITS:
        raise ValueError(f"{text!r}: {figure} is none of {', '.join(FIGURES)}")
    units = _UNITS[figure]
    if unit not in units:
        known = ", ".join(unit or "a number alone" for unit in units)
        raise ValueError(f"{text!r}: {figure} takes {known}")
    scale = _DURATIONS_NS.get(unit.removesuffix("/s"), 1.0) if unit not in ("", "x") else 1.0
    return Condition(text, figure, sign, float(number) * scale, unit == "x")
