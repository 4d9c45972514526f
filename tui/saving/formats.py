"""What is saved of the screen, and where to. None of it touches the screen."""

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
from stalltop.model.window import Window
from stalltop.tui.past.moments import Picture
from stalltop.tui.tables.trends import RowTrends
from stalltop.tui.tables.view import View

_TRIES: Final = 100
"""Names that are tried where others take them at the same time."""


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
    if chosen.suffix == SUFFIX and still:
        return "saved already: it is the file that was opened"
    return chosen.problem()


# ---- where to


@dataclass(frozen=True, slots=True)
class SavePlace:
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


def place(typed: str, default: Path) -> SavePlace:
    """Where what was typed leads to now. It asks the file system, which may take its time."""
    path = wanted(typed, default)
    folder = path.parent
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    if not os.path.isdir(folder):
        return SavePlace(path, f"{folder} is no folder", good=False)
    if not os.access(folder, os.W_OK | os.X_OK):
        return SavePlace(path, f"you may not write in {folder}", good=False)
    if os.path.lexists(path):
        other = free(path)
        return SavePlace(other, f"that name is taken: it will be {other.name}")
    return SavePlace(path, "" if folder == path.parent else f"new folder: {path.parent}")


def save(shown: Shown, chosen: Format, typed: str) -> Path:
    """Save it in a new file, whose path is given back: what is there is never replaced.

    Raises StalltopError where it cannot be made or written, and OSError where the file system fails.
    """
    assert chosen.save is not None
    made = chosen.save(shown)
    path = wanted(typed, shown.default(chosen))
    for _ in range(_TRIES):
        try:
            return write(made, free(path))
        except PathTakenError:
            continue  # somebody was quicker
    return write(made, free(path))


def with_format(typed: str, chosen: Format) -> str:
    """``typed`` with the ending of ``chosen`` in place of that of another format; other endings stay."""
    for other in SAVED:
        if typed.endswith(other.suffix) and not typed.endswith("/" + other.suffix):
            return typed.removesuffix(other.suffix) + chosen.suffix
    return typed
