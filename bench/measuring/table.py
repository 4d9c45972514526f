"""Formats tables as text: columns are padded to their widest cell, figures are aligned to the right."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from bench.measuring.figures import Figure, figures


@dataclass
class TextTable:
    """A table with a title, headings, rows of cells, and notes below."""

    title: str
    head: Sequence[str]
    """Headings of the columns. A `FigureColumn` heads a column of figures; a plain string heads a column
    whose cells name the row."""
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    others: Collection[str] = ()
    """Names of the rows that do not measure stalltop and are shown for comparison."""

    def add(self, *cells: str) -> None:
        """Appends a row with these cells. ``-`` stands for a figure that was not measured."""
        if len(cells) != len(self.head):
            raise ValueError(f"{len(cells)} cells for {len(self.head)} columns")
        self.rows.append(cells)

    def figures(self) -> list[Figure]:
        """Returns the figures in the rows."""
        return list(figures(self.title, self.head, self.rows))

    def text(self) -> str:
        """Returns the whole table as text that ends with a newline."""
        lines = [self.head, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.head))]
        left = {
            column
            for column in range(len(self.head))
            if not any(row[column][:1].isdigit() for row in self.rows)
        }

        def one(cells: Sequence[str]) -> str:
            return "  ".join(
                cell.ljust(width) if column in left else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
            ).rstrip()

        rule = "  ".join("-" * width for width in widths)
        return "\n".join([self.title, "", one(self.head), rule, *map(one, self.rows), *self.notes]) + "\n"
