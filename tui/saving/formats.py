"""What is saved of the screen, and where. Nothing here uses the screen itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from textual.strip import Strip

from stalltop.files.complete import PathTakenError, write
from stalltop.files.places import SUFFIX, free, state_directory, window_name
from stalltop.formats.registry import SAVED, Format
from stalltop.formats.tables.sheet import Sheet
from stalltop.model.chain import Chain
from stalltop.model.text.glyphs import Glyphs
from stalltop.model.window import Window
from stalltop.tui.past.moments import Picture
from stalltop.tui.views.trends import RowTrends
from stalltop.tui.views.view import View

_TRIES: Final = 100
"""Attempts to find a free file name while other programs create files."""


@dataclass(frozen=True, slots=True, eq=False)
class ShownScreen:
    """The screen at the moment that a key was pressed. Later windows do not change it."""

    window: Window
    view: View
    """The view of the table that had the focus."""
    against: Picture | None
    """The moment that the table compares with; None if it does not compare."""
    past: RowTrends
    """The earlier figures of the table's rows. Only one thread at a time may use them."""
    chains: tuple[Chain, ...]
    """The chains whose rows are marked."""
    lines: tuple[Strip, ...]
    """The lines of the screen."""
    width: int
    """Columns of the terminal."""
    glyphs: Glyphs

    @property
    def sheet(self) -> Sheet:
        """Return the table that had the focus, with all its rows."""
        from stalltop.tui.saving.table import sheet_of

        return sheet_of(self.window, self.view, self.chains, self.against, self.past, self.glyphs)

    def default(self, chosen: Format) -> Path:
        """Return the default path of the file."""
        return state_directory() / (window_name(self.window) + chosen.suffix)


def problem(chosen: Format, *, still: bool) -> str:
    """Return why this format is not available, and what to do; empty if it is available. ``still``: a saved
    window is shown."""
    if chosen.suffix == SUFFIX and still:
        return "saved already: it is the file that was opened"
    return chosen.problem()


# ---- where to


@dataclass(frozen=True, slots=True)
class SavePlace:
    """The place of a new file."""

    path: Path
    note: str = ""
    """What the user should know about the place; empty if it is free and its folder exists."""
    good: bool = True
    """Whether a file can be saved there."""


def wanted(typed: str, default: Path) -> Path:
    """Return the path that the user typed. ``~`` is the home directory; a folder gets the default name; an
    empty text is the default."""
    typed = typed.strip()
    if not typed:
        return default
    path = Path(os.path.abspath(os.path.expanduser(typed)))
    return path / default.name if typed.endswith("/") or os.path.isdir(path) else path


def place(typed: str, default: Path) -> SavePlace:
    """Return where a file would be saved for the typed path: under a free name if that name is taken. Reads
    the file system, which may take long."""
    path = wanted(typed, default)
    folder = path.parent
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    if not os.path.isdir(folder):
        return SavePlace(path, f"not a folder: {folder}", good=False)
    if not os.access(folder, os.W_OK | os.X_OK):
        return SavePlace(path, f"you may not write in {folder}", good=False)
    if os.path.lexists(path):
        other = free(path)
        return SavePlace(other, f"that name is taken; the file will be {other.name}")
    return SavePlace(path, "" if folder == path.parent else f"new folder: {path.parent}")


def save(shown: ShownScreen, chosen: Format, typed: str) -> Path:
    """Save the screen in a new file and return its path. An existing file is never replaced.

    Raises StalltopError if the content cannot be made or written, and OSError if the file system fails.
    """
    assert chosen.save is not None
    made = chosen.save(shown)
    path = wanted(typed, shown.default(chosen))
    for _ in range(_TRIES):
        try:
            return write(made, free(path))
        except PathTakenError:
            continue  # another program created this file meanwhile
    return write(made, free(path))


def with_format(typed: str, chosen: Format) -> str:
    """If ``typed`` has the file ending of another format, replace this ending by that of ``chosen``. Other
    endings stay."""
    for other in SAVED:
        if typed.endswith(other.suffix) and not typed.endswith("/" + other.suffix):
            return typed.removesuffix(other.suffix) + chosen.suffix
    return typed
