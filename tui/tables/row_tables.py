"""The tables of groups with what else keys do to their rows: unfold them, leave some out, compare two."""

from __future__ import annotations

from dataclasses import dataclass

from stalltop.model.devices.labels import gpus_of
from stalltop.model.devices.placing import placement
from stalltop.model.rows.pivot import DIMENSIONS, Dimension
from stalltop.tui import keys
from stalltop.tui.settings.settings import Chosen
from stalltop.tui.tables.columns.choice import defaults
from stalltop.tui.tables.compare import Pair
from stalltop.tui.tables.groups import Key, Step, below
from stalltop.tui.tables.past import NO_PAST, Past
from stalltop.tui.tables.table import available, steps_to
from stalltop.tui.tables.tables import Tables
from stalltop.tui.tables.view import ONLY, PLURAL, View
from stalltop.widgets.table import Cell

PICKED = Cell("v", "accent")
"""Marks the row that is to be compared with another one."""


@dataclass(frozen=True, slots=True)
class _Picked:
    """A row that is to be compared with another one."""

    path: tuple[Step, ...]
    """The way down to it, itself last."""
    inside: tuple[Step, ...]
    """The path of the table that it was picked in."""
    by: tuple[Dimension, ...]
    key: Key
    """Its key, and the parts that this has."""


class RowTables(Tables):
    """Tables of which rows unfold, and of which two can be compared."""

    def __init__(self, widget_id: str, *, unicode: bool) -> None:
        super().__init__(widget_id, unicode=unicode)
        self._picked: _Picked | None = None

    @property
    def past(self) -> Past:
        """What the rows were before, as it is known now; ``NO_PAST`` where nobody looks back."""
        return self._past.copy() if self._looks_back else NO_PAST

    # ---- rows in place

    def unfold(self) -> None:
        """Show what is below the row under the cursor in place, or hide it again."""
        widget, view = self.here
        key = widget.cursor_key
        if not isinstance(key, tuple):
            return
        changed = view.toggled(key)
        if changed is view:
            self.post_message(self.Said("there is nothing below this row"))
            return
        self.change(lambda _: changed, widget)

    def unfold_all(self) -> None:
        """Unfold all rows by one level, or fold all if any is unfolded."""
        widget, view = self.here
        changed = view.all_toggled()
        if changed is view:
            self.post_message(self.Said("there is nothing below these rows"))
            return
        key = widget.cursor_key
        if isinstance(key, tuple) and not changed.is_tree:
            # The row that the cursor was on is gone: it stays on the one that holds it.
            widget.put_cursor(key[: len(view.levels()[0].by)])
        self.change(lambda _: changed, widget)

    def next_only(self) -> str:
        """Leave out other rows; gives which ones are left."""
        self._view = self._view.next_only()
        self.redraw()
        return ONLY[self._view.only]

    def devices_here(self) -> tuple[int, ...]:
        """Numbers of the GPUs that the row under the cursor is on, as far as known."""
        path, window = self.path_here(), self._window
        if not path or window is None:
            return ()
        inside, devices = below(path, window), placement(window).devices
        return gpus_of(on for key in window.rows.keys if inside(key) for on in devices(key))

    # ---- columns

    @property
    def by_here(self) -> Dimension:
        """What the table that has the keys shows."""
        return self.here[1].by

    def usual_columns(self) -> tuple[str, ...]:
        """Ids of the columns of the table that has the keys, where nobody chose."""
        widget, view = self.here
        window = self._window
        past = self._past if self._looks_back else NO_PAST
        return defaults(
            view.by, self.cells_of(widget), set() if window is None else available(window, past=past)
        )

    @property
    def chosen_columns(self) -> Chosen:
        """The columns that were chosen, as a setting."""
        return tuple((by, self.columns[by]) for by in DIMENSIONS if by in self.columns)

    @chosen_columns.setter
    def chosen_columns(self, chosen: Chosen) -> None:
        ids = dict(chosen)
        self.columns = {by: ids[by] for by in DIMENSIONS if by in ids}

    def choose_columns(self, by: Dimension, ids: tuple[str, ...]) -> None:
        """Tables by ``by`` have these columns from now on; none: the usual ones."""
        if ids:
            self.columns[by] = ids
        else:
            self.columns.pop(by, None)
        self.redraw()

    # ---- two rows

    def pick(self) -> Pair | None:
        """Pick the row under the cursor to compare it; gives both once a second one of its kind is picked."""
        widget, view = self.here
        key = widget.cursor_key
        if not isinstance(key, tuple):
            return None
        path = steps_to(widget.data, view, key)
        before, self._picked = self._picked, None
        pair = Pair.of(before.path, path) if before is not None else None
        if pair is None and (before is None or before.path != path):
            self._picked = _Picked(path, view.path, view.levels()[view.level_of(key)].by, key)
            others = PLURAL[path[-1].dimension]
            instead = f", not {before.path[-1].label}" if before is not None else ""
            again = f"{keys.key('versus')} on another one of the {others} compares both"
            picked = f"{path[-1].label} is picked{instead}: {again}"
            self.post_message(self.Said(picked))
        self.post_message(self.Looked())
        self.redraw()
        return pair

    @property
    def way_out(self) -> str:
        """What ``out`` does, in a word; empty: nothing."""
        return "Unpick" if self._unpicks else super().way_out

    @property
    def _unpicks(self) -> bool:
        """Whether ``out`` lets go of the picked row: within another row it leads back, to where a second one
        may be picked."""
        return self._picked is not None and not self._view.path

    def out(self) -> None:
        """One step back; at the top, let go of the row that was picked first."""
        if not self._unpicks:
            super().out()
            return
        self._picked = None
        self.post_message(self.Looked())
        self.redraw()

    def marks(self, view: View) -> dict[Key, Cell]:
        """The marks of the rows of the table of ``view``: that of a picked row hides others."""
        found = super().marks(view)
        picked = self._picked
        if picked is not None and picked.inside == view.path:
            found |= dict.fromkeys([picked.key for level in view.levels() if level.by == picked.by], PICKED)
        return found
