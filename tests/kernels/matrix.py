"""Formats the table of a run for the terminal and docs/kernels.md: a row per kernel, compiler and way of
attaching.

kernel | compiler | way | loaded | instructions | verifier ms | counted / made
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.kernels.machine import GuestReport

MAX_INSTRUCTIONS: Final = 300_000
"""Most instructions that the verifier may process for a program. The verifier itself allows a million; the
rest is a margin for other kernels and compilers."""
COLUMNS: Final = ("kernel", "compiler", "way", "loaded", "instructions", "verifier ms", "counted / made")
BEGIN: Final = "<!-- kernels -->"
END: Final = "<!-- end of kernels -->"


class MatrixRow(NamedTuple):
    """A row of the table, as text."""

    kernel: str
    compiler: str
    way: str
    loaded: str
    instructions: str
    verifier_ms: str
    counted: str


def lines(told: GuestReport, name: str, compiler: str) -> list[MatrixRow]:
    """Return the rows of one guest."""
    release = next((line["release"] for line in told.of("kernel")), f"{name}: did not boot")
    found: list[MatrixRow] = []
    for variant in dict.fromkeys(line["variant"] for line in told.of("program")):
        programs = told.of("program", variant=variant)
        loaded = [program for program in programs if not program["refused"]]
        worst = max(programs, key=lambda program: program["instructions"])
        counts = [line for line in told.lines if line.get("variant") == variant and "made" in line]
        made, counted = (sum(line.get(word, 0) for line in counts) for word in ("made", "counted"))
        refused = told.of("refused", variant=variant)
        found.append(
            MatrixRow(
                release,
                compiler,
                variant,
                f"{len(loaded)} of {len(programs)}",
                f"{worst['instructions']:,} ({worst['name']})",
                f"{sum(program['verifier_ms'] for program in programs):,.0f}",
                "refused" if refused else f"{counted:,} / {made:,}" if made else "",
            )
        )
    return found or [MatrixRow(release, compiler, "", "", "", "", told.ended or "no report")]


def table(rows: Sequence[MatrixRow]) -> str:
    """Return the table as Markdown, which is also readable on a terminal."""
    widths = [max(map(len, column)) for column in zip(COLUMNS, *rows, strict=True)]

    def row(cells: Sequence[str]) -> str:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        return f"| {' | '.join(padded)} |"

    return "\n".join([row(COLUMNS), f"|{'|'.join('-' * (width + 2) for width in widths)}|", *map(row, rows)])


def page(text: str, rows: Sequence[MatrixRow], refusals: Sequence[str]) -> str:
    """Return ``text``, the content of docs/kernels.md, with ``rows`` and ``refusals``.

    They replace the rows of the same kernel and compiler and the lines about the same kernel; others stay.
    """
    before, found, rest = text.partition(BEGIN)
    content, ended, after = rest.partition(END)
    if not found or not ended:
        raise ValueError(f"no {BEGIN} and {END}")
    new = {(row.kernel, row.compiler) for row in rows}
    kept = [row for row in _rows(content) if row.way and (row.kernel, row.compiler) not in new]
    merged = sorted((*kept, *rows), key=lambda row: (_version(row.kernel), row.kernel, row.compiler))
    named = {row.kernel for row in rows}
    said = [line for line in content.splitlines() if line[:1].isdigit() and line.split(":")[0] not in named]
    told = "".join(f"\n{line}\n" for line in sorted({*said, *refusals}))
    return f"{before}{BEGIN}\n\n{table(merged)}\n{told}\n{END}{after}"


def _rows(content: str) -> list[MatrixRow]:
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in content.splitlines()
        if line.startswith("| ")
    ]
    return [MatrixRow(*row) for row in cells[1:]]


def _version(kernel: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", kernel.split("-")[0])]
