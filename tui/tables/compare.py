"""Two rows of a table side by side: what each of them consists of, and where they differ. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from stalltop.model.rows.filter import Filter
from stalltop.model.rows.pivot import Dimension
from stalltop.model.window import Window
from stalltop.tui.keys import key
from stalltop.tui.tables.columns.kind import Look
from stalltop.tui.tables.columns.pair import BY_ID, KINDS
from stalltop.tui.tables.groups import PathStep, decided, grouped, outermost_ns, scope
from stalltop.tui.tables.split import legend
from stalltop.tui.tables.table import Line, drawn, sorted_by
from stalltop.tui.tables.view import BELOW, PLURAL, View
from stalltop.widgets.table import Column, Role, TableData

NAME_CELLS = 15
LEGEND_FROM = 160
"""Cells from which it is said what the parts of a split are."""
PLACES: frozenset[Dimension] = frozenset({"host", "namespace", "pod", "container", "process"})
"""What calls run in: each of them in one of the one before."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two rows of one kind, each as the way down to it."""

    a: tuple[PathStep, ...]
    b: tuple[PathStep, ...]

    @staticmethod
    def of(a: tuple[PathStep, ...], b: tuple[PathStep, ...]) -> Pair | None:
        """The two rows; None where they are no two of one kind."""
        if not a or a == b or [step.dimension for step in a] != [step.dimension for step in b]:
            return None
        return Pair(a, b)

    @property
    def view(self) -> View:
        """How each of the two is looked at: by the first thing that both may have in common."""
        apart = {a.dimension for a, b in zip(self.a, self.b, strict=True) if a != b}
        taken = {step.dimension for step in self.a}
        if apart & PLACES:
            taken |= PLACES  # what runs in one of them does not run in the other
        if "layer" in taken:
            taken |= {"operation"}  # an operation is of one layer
        by: Dimension = next((one for one in BELOW if one not in taken), "operation")
        return View(by=by, path=self.a)


def pair_table(
    window: Window,
    pair: Pair,
    *,
    sort: str = "more",
    descending: bool = True,
    width: int,
    unicode: bool = True,
    letters: bool = False,
) -> TableData:
    """What both rows of ``pair`` consist of, the largest difference first.

    ``letters``: there are no colours to tell parts of the time apart by.
    """
    view = pair.view
    a, b = scope(window, pair.a), scope(window, pair.b)
    by = view.levels()[0].by
    rows = grouped(b, by, all_rows=decided(pair.b), whole_ns=outermost_ns(b), against=a)
    kind = BY_ID.get(sort)
    order = sorted_by(rows, kind.values if kind else None, descending)
    lines = [Line(rows, i, 0) for i in order.tolist()]
    name = Column("name", view.by.upper(), NAME_CELLS, right=False, fixed=True, most=44)
    measured = window.rows.split_ns is not None
    kinds = [one for one in KINDS if measured or one.needs != "split"]
    closes: tuple[tuple[str, Role], ...] = ((f"{key('versus')} or Esc closes ", "dim"),)
    told = legend(letters=letters) if measured and width >= LEGEND_FROM else ()
    return TableData(
        title=_title(pair, view, unicode=unicode),
        columns=(name, *(Column(one.id, one.title, one.width, one.right) for one in kinds)),
        rows=drawn(lines, view, kinds, Look(unicode=unicode, letters=letters), Filter(), {}),
        sort=sort,
        descending=descending,
        empty=(
            "Neither of them has a call in this window.",
            f"Esc goes back, {key('longer')} takes a longer window.",
        ),
        legend=(*told, *closes),
    )


def _title(pair: Pair, view: View, *, unicode: bool) -> tuple[tuple[str, Role], ...]:
    parts: list[tuple[str, Role]] = []
    arrow = " › " if unicode else " > "
    # What both have in common stands once.
    shared = next(at for at, steps in enumerate(zip(pair.a, pair.b, strict=True)) if steps[0] != steps[1])
    for name, path in (("A ", pair.a), ("   B ", pair.b[shared:])):
        parts += [(name, "dim"), (arrow.join(step.label for step in path), "accent")]
    return (*parts, ("   ", "dim"), (PLURAL[view.by], "head"))
