"""Draws where the time of calls went as a bar of a few cells, and explains its letters and colours.

Normal work (running, waiting for the GPU) is drawn as a line. Waits are drawn as half blocks that the eye
finds or, where no problem is about them, as lines too. Letters have the colour of text, so that each can be
read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.window import PARTS, SPLITS, U64, PartName
from stalltop.tui.columns.catalogue import SPLIT_CELLS
from stalltop.widgets.table import Role

Pieces = tuple[tuple[str, Role], ...]
_WORK: Final[Collection[PartName]] = ("running", "gpu")
"""The parts that are normal work."""
_LINES: Final[Mapping[PartName, Role]] = {name: f"{name}_line" for name in SPLITS}  # type: ignore[misc]
"""The role of the line of each part."""


def cells(parts_ns: U64, most: int = SPLIT_CELLS) -> list[int]:
    """Divide ``most`` cells among the parts by the largest remainder method; all 0 if there is no time."""
    # Python integers: values from a file may overflow uint64. For ten parts they are faster than numpy, too.
    parts: list[int] = parts_ns.tolist()
    whole = sum(parts)
    if not whole:
        return [0] * len(parts)
    exact = [part * (most / whole) for part in parts]
    full = [int(number) for number in exact]
    lacking = most - sum(full)
    if lacking:
        # Among equal remainders the first part gets the cell, so that equal figures give equal bars.
        for at in sorted(range(len(parts)), key=lambda at: full[at] - exact[at])[:lacking]:
            full[at] += 1
    return full


def piece(
    name: PartName, length: int, *, glyphs: Glyphs, letters: bool = False, quiet: bool = False
) -> Pieces:
    """Draw ``length`` cells of the part ``name``: its letter, then a line or a block in its colour; a line if
    the part is normal work, or ``quiet``.

    With ``letters``, for terminals with few colours, the cells after the letter contain a character that no
    other part uses. So any two parts that are adjacent in a bar look different.
    """
    letter = PARTS[name].letter[:length]
    if letters:
        return ((letter.ljust(length, glyphs.part_fills[SPLITS.index(name)]), "text"),)
    calm = name in _WORK or quiet
    sign = glyphs.part_line if calm else glyphs.part_block
    line: Pieces = ((sign * (length - 1), _LINES[name]),) if length > 1 else ()
    return (letter, "text" if calm else "bright"), *line


def bar(
    parts_ns: U64 | None,
    *,
    glyphs: Glyphs,
    letters: bool,
    most: int = SPLIT_CELLS,
    loud: Collection[str] = PARTS,
) -> Pieces:
    """Draw the bar of one row, from the times of its parts, shape (len(PARTS),); None: not measured.

    Waits are drawn as blocks if they are among ``loud``, the parts that a problem is about, else as lines.
    With ``letters`` the parts are drawn as letters and patterns, for terminals with few colours.
    """
    if parts_ns is None:
        return ((figures.missing(1, glyphs).ljust(most), "dim"),)
    pieces: list[tuple[str, Role]] = []
    for name, length in zip(SPLITS, cells(parts_ns, most), strict=True):
        if length:
            pieces += piece(name, length, glyphs=glyphs, letters=letters, quiet=name not in loud)
    return tuple(pieces) or ((" " * most, "text"),)


def legend(parts: Collection[str] = PARTS, *, glyphs: Glyphs, letters: bool) -> Pieces:
    """Return one line that explains ``parts`` of a bar."""
    pieces: list[tuple[str, Role]] = []
    for name, part in PARTS.items():
        if name not in parts:
            continue
        blanks = "  " if pieces else ""
        sign = ((part.letter, "text"),) if letters else piece(name, 2, glyphs=glyphs)
        pieces += [(blanks, "text"), *sign, (f" {part.short}", "dim")]
    return (*pieces, (" ", "text"))
