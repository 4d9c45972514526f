"""Compares two revisions: pairs each round of one with a round of the other, computes the ratios, and finds
the differences that exceed the noise."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bench.measuring.figures import Figure, FigureColumn, FigureText, figures
from bench.measuring.spread import Spread, ratio

LEAST_PAIRS: Final = 4
"""Minimum number of pairs from which noise is estimated."""
_Z: Final = 2.5758
"""Quantile of the standard normal distribution: 1 % of its values lie outside of plus and minus this
number."""

Key = tuple[str, tuple[str, ...], int, str]
"""Identifies a figure in both revisions: title of the table; the names of the row, without those in columns
that only one revision has; number of earlier rows with equal names; name of the figure."""


@dataclass(slots=True)
class Pairs:
    """The values of one figure in both revisions: ``here`` in this one and ``there`` in the other. Values
    with the same index are a pair, measured in the same round."""

    figure: Figure
    """The figure with the names that this revision gives it. Its ``values`` are those of the first run
    only."""
    here: list[float] = field(default_factory=list)
    there: list[float] = field(default_factory=list)

    def add(self, here: Sequence[float], there: Sequence[float]) -> None:
        """Adds the values of a run, one per round. If one revision has more rounds, its last ones are
        dropped."""
        for one, other in zip(here, there, strict=False):
            self.here.append(one)
            self.there.append(other)

    @property
    def ratio(self) -> Spread | None:
        """Returns the spread of the ratios of this revision to the other, one for each pair; None if fewer
        than half of the pairs have a ratio (a pair has none if the divisor is not above 0)."""
        found = ratio(self.here, self.there)
        return found if found is not None and 2 * found.rounds >= len(self.here) else None

    @property
    def beyond_noise(self) -> bool | None:
        """Returns whether the revisions differ by more than chance explains; None if there are fewer than
        `LEAST_PAIRS` pairs.

        Uses Student's t test of the differences of the pairs, at 1 %: of a hundred figures that are equal in
        both revisions, about one is reported to differ.
        """
        differences = [one - other for one, other in zip(self.here, self.there, strict=True)]
        if len(differences) < LEAST_PAIRS:
            return None
        error = statistics.stdev(differences) / math.sqrt(len(differences))
        return abs(statistics.fmean(differences)) > student(len(differences) - 1) * error

    @property
    def verdict(self) -> str:
        """Returns ``better``, ``worse`` or ``differs`` (neither direction is better) if the difference
        exceeds the noise, ``too few`` if there are too few pairs to tell, else ''."""
        if self.here == self.there:
            return ""
        if self.beyond_noise is None:
            return "too few"
        if not self.beyond_noise:
            return ""
        if not self.figure.better:
            return "differs"
        less = statistics.fmean(self.here) < statistics.fmean(self.there)
        return "better" if less == (self.figure.better == "lower") else "worse"

    def plain(self) -> dict[str, Any]:
        """Returns the figure as a dict for JSON."""
        found = self.ratio
        return {
            "table": self.figure.table,
            "row": self.figure.row,
            "name": self.figure.name,
            "unit": self.figure.unit,
            "better": self.figure.better,
            "this": statistics.median(self.here),
            "against": statistics.median(self.there),
            "this_values": self.here,
            "against_values": self.there,
            "ratio": found and found.median,
            "ratio_low": found and found.low,
            "ratio_high": found and found.high,
            "beyond_noise": self.beyond_noise,
            "verdict": self.verdict,
        }


def student(freedom: int) -> float:
    """Returns the quantile of Student's t with ``freedom`` degrees of freedom: 1 % of the values lie outside
    of plus and minus this number. The error of this approximation is below 4 % if ``freedom`` is 3 or more
    (expansion of Abramowitz and Stegun, 26.7.5)."""
    z = _Z
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def paired(runs: Iterable[Sequence[Sequence[Mapping[str, Any]]]]) -> tuple[list[Pairs], list[str]]:
    """Returns the figures that both revisions have, and the names of rows and figures that only one of them
    has. Each of ``runs`` holds the tables of both revisions, those of this revision first."""
    found: dict[Key, Pairs] = {}
    alone: dict[str, None] = {}
    for here, there in runs:
        for own, other in zip(*_matched(here, there), strict=True):
            labels = _labels(own) & _labels(other)
            ours = dict(_figures(own, own, labels))
            theirs = dict(_figures(other, own, labels))
            for key, figure in ours.items():
                if key in theirs:
                    pairs = found.setdefault(key, Pairs(figure))
                    pairs.add(figure.values, theirs[key].values)
            for key in ours.keys() ^ theirs.keys():
                side = "only in this revision" if key in ours else "only in the other one"
                alone[f"{side}: {', '.join(key[1])}: {key[3]}"] = None
    return list(found.values()), sorted(alone)


def _matched(
    here: Sequence[Mapping[str, Any]], there: Sequence[Mapping[str, Any]]
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Returns the tables that both revisions have: a list of this revision's tables, and a list of their
    counterparts. Tables match by name; if several tables have one name, the n-th matches the n-th of the
    other revision."""
    named = dict(zip(_numbered(_name(table) for table in there), there, strict=True))
    both = [
        (table, named[key])
        for key, table in zip(_numbered(_name(table) for table in here), here, strict=True)
        if key in named
    ]
    return [own for own, _ in both], [other for _, other in both]


def _name(table: Mapping[str, Any]) -> str:
    return str(table["title"]).partition(":")[0]


def _numbered(names: Iterable[str]) -> list[tuple[str, int]]:
    """Returns each name with the number of equal names before it."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        found.append((name, seen[name]))
        seen[name] += 1
    return found


def _labels(table: Mapping[str, Any]) -> set[str]:
    """Returns the headings of the columns that name rows: those without a unit. If the revision gives no
    units at all, returns the headings of all columns."""
    return {one["text"] for one in table["head"] if "unit" not in one}


def _figures(
    table: Mapping[str, Any], own: Mapping[str, Any], labels: set[str]
) -> Iterator[tuple[Key, Figure]]:
    """Yields the figures of ``table``, each with its key. ``own`` is this revision's version of the table;
    its headings tell which columns have figures. ``labels`` are the headings of the columns that name rows in
    both revisions."""
    kinds = {
        key: FigureColumn(one["text"], one["unit"], one["better"], told_only=one["told_only"])
        for key, one in zip(_numbered(one["text"] for one in own["head"]), own["head"], strict=True)
        if "unit" in one
    }
    texts = _numbered(one["text"] for one in table["head"])
    head: list[str] = [kinds.get(key, key[0]) for key in texts]
    rows = [[_cell(cell) for cell in row] for row in table["rows"]]
    shared = [key[0] in labels for key in texts]
    seen: Counter[tuple[str, ...]] = Counter()
    names: dict[int, str] = {}
    for row in rows:
        for column, text in enumerate(row):
            if not isinstance(head[column], FigureColumn) and (text or column not in names):
                names[column] = str(text)
        known = tuple(name for column, name in names.items() if shared[column] and name != "-")
        number = seen[known]
        seen[known] += 1
        if set(names.values()) & set(own["others"]):
            continue
        whole = [names.get(column, text) for column, text in enumerate(row)]
        for figure in figures(table["title"], head, [whole]):
            if figure.better:
                yield (figure.table, known, number, figure.name), figure


def _cell(cell: Mapping[str, Any]) -> str:
    text = str(cell["text"])
    return FigureText(text, cell["values"], cell.get("unit")) if cell.get("values") else text
