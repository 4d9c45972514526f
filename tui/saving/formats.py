"""What can be saved of the screen, in which formats, and where to. None of it touches the screen."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from textual.strip import Strip

from stalltop.formats.files.complete import Taken, write
from stalltop.formats.files.places import SUFFIX, free, state_directory, window_name
from stalltop.formats.tables.sheet import Sheet
from stalltop.model.chain import Chain
from stalltop.model.text.figures import moment
from stalltop.model.window import Window
from stalltop.tui.past.moments import Picture
from stalltop.tui.tables.trends import RowTrends
from stalltop.tui.tables.view import View

Kind = Literal["window", "text", "html", "csv", "svg", "png"]
_TRIES: Final = 100
"""Names that are tried where others take them at the same time."""


@dataclass(frozen=True, slots=True)
class Format:
    """One format."""

    kind: Kind
    suffix: str
    label: str
    about: str
    """What one gets, in a few words."""


FORMATS: Final = (
    Format("window", SUFFIX, "window", "everything; stalltop open shows it on this screen again"),
    Format("text", ".txt", "text", "a report: what is wrong, what helps, this table"),
    Format("html", ".html", "HTML", "the report as one page for a browser, with bars"),
    Format("csv", ".csv", "CSV", "this table: every row and column, raw figures"),
    Format("svg", ".svg", "SVG", "a picture of the screen"),
    Format("png", ".png", "PNG", "a picture of the screen"),
)
"""The first one is meant where nothing is chosen."""


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """The screen as it was when the key was pressed: later windows change nothing of it."""

    window: Window
    view: View
    """Of the table that had the keys."""
    against: Picture | None
    """What the table compares with, where it does."""
    past: RowTrends
    """What its rows were before; used by one thread at a time."""
    chains: tuple[Chain, ...]
    """Those that mark rows."""
    lines: tuple[Strip, ...]
    """The picture, line by line."""
    width: int
    """Cells of the terminal."""
    unicode: bool

    @property
    def sheet(self) -> Sheet:
        """The table that had the keys, with all its rows."""
        from stalltop.tui.saving.table import sheet_of

        return sheet_of(self.window, self.view, self.chains, self.against, self.past, unicode=self.unicode)

    def default(self, chosen: Format) -> Path:
        """Where it goes unless another place is named."""
        return state_directory() / (window_name(self.window) + chosen.suffix)


def problem(chosen: Format, *, still: bool) -> str:
    """Why that format cannot be had, and what to do; empty where it can. ``still``: a file is shown."""
    if chosen.kind == "window" and still:
        return "saved already: it is the file that was opened"
    if chosen.kind == "png":
        from stalltop.formats.html.picture import png_problem

        return png_problem()
    return ""


def content(shown: Shown, chosen: Format) -> bytes:
    """What the file holds. Raises Told where it cannot be made."""
    window = shown.window
    if chosen.kind == "window":
        from stalltop.recordings.write.saving import dump

        return dump(window)
    if chosen.kind == "text":
        from stalltop.formats.text.report import report

        return report(window, shown.sheet, width=shown.width, unicode=shown.unicode).encode()
    if chosen.kind == "html":
        from stalltop.formats.html.page import html_page

        return html_page(window, shown.sheet).encode()
    if chosen.kind == "csv":
        from stalltop.formats.tables.csv_table import csv_table

        return csv_table(shown.sheet, window).encode()
    from stalltop.formats.html.picture import png, svg

    picture = svg(shown.lines, shown.width, f"stalltop {window.host} {moment(window.end)}")
    return picture.encode() if chosen.kind == "svg" else png(picture)


# ---- where to


@dataclass(frozen=True, slots=True)
class Place:
    """Where a file would go."""

    path: Path
    note: str = ""
    """What is to be known of it; empty where it is free and its folder is there."""
    good: bool = True
    """False: nothing can be saved there."""


def wanted(typed: str, default: Path) -> Path:
    """The path that was typed: ``~`` is the home, a folder takes the default name, nothing is the default."""
    typed = typed.strip()
    if not typed:
        return default
    path = Path(os.path.abspath(os.path.expanduser(typed)))
    return path / default.name if typed.endswith("/") or os.path.isdir(path) else path


def place(typed: str, default: Path) -> Place:
    """Where what was typed leads to now. It asks the file system, which may take its time."""
    path = wanted(typed, default)
    folder = path.parent
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    if not os.path.isdir(folder):
        return Place(path, f"{folder} is no folder", good=False)
    if not os.access(folder, os.W_OK | os.X_OK):
        return Place(path, f"you may not write in {folder}", good=False)
    if os.path.lexists(path):
        other = free(path)
        return Place(other, f"that name is taken: it will be {other.name}")
    return Place(path, "" if folder == path.parent else f"new folder: {path.parent}")


def save(shown: Shown, chosen: Format, typed: str) -> Path:
    """Save it in a new file, whose path is given back: what is there is never replaced.

    Raises Told where it cannot be made or written, and OSError where the file system fails.
    """
    made = content(shown, chosen)
    path = wanted(typed, shown.default(chosen))
    for _ in range(_TRIES):
        try:
            return write(made, free(path))
        except Taken:
            continue  # somebody was quicker
    return write(made, free(path))


def with_format(typed: str, chosen: Format) -> str:
    """``typed`` with the ending of ``chosen`` in place of that of another format; other endings stay."""
    for other in FORMATS:
        if typed.endswith(other.suffix) and not typed.endswith("/" + other.suffix):
            return typed.removesuffix(other.suffix) + chosen.suffix
    return typed
