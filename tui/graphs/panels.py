"""The graphs of the main screen: fills their widgets from past windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stalltop.model.chain import SEVERITIES, Chain
from stalltop.model.evidence import shown_operation
from stalltop.model.merge.packing import Packed
from stalltop.model.text.figures import whole_seconds
from stalltop.model.text.glyphs import Glyphs
from stalltop.tui.graphs.choice import HeldChoice, chosen
from stalltop.tui.graphs.course import Floats, GraphAxis, PastValues, axis_of, spread, within
from stalltop.tui.graphs.figures import BY_ID, EVERYTHING, MOST, GraphFigure, Path, Subject, high_of
from stalltop.tui.settings.settings import AUTO
from stalltop.tui.views.path import PathStep
from stalltop.widgets.graph import Graph, GraphData, columns

_ROLES = ("bad", "bad", "warn", "label", "dim")
"""The style of a column of the graph, by the index in ``SEVERITIES`` of the worst problem at that time."""
_MOST_COURSES = 12
"""The most figures whose values are kept."""


class GraphPanels:
    """Chooses the figures of the graphs, and fills their widgets."""

    def __init__(self) -> None:
        self.widgets = tuple(Graph(f"graph{number}") for number in range(1, MOST + 1))
        self.wanted: tuple[str, ...] = (AUTO,)
        """The figures that the user wants, or one of ``AUTO`` and ``NONE``."""
        self.shown: tuple[str, ...] = ()
        """The figures that were chosen last."""
        self._held = HeldChoice()
        self._courses: dict[tuple[str, Subject], PastValues] = {}

    def choose(self, parts: Sequence[Packed], worst: Chain | None, *, live: bool = True) -> int:
        """Choose the figures for the windows ``parts``, oldest first, and the problem ``worst``. Returns how
        many graphs there are to show. While ``live`` the choice stays for some seconds."""
        if not parts:
            self.shown = ()
            return 0
        newest = parts[-1]
        chain = self._held.hold(worst, newest.window.end, live=live)

        def known(name: str) -> bool:
            figure = BY_ID[name]
            if figure.of == "row":
                return chain is not None and figure.value(newest, _row_of(chain, newest)) is not None
            return figure.value(newest, EVERYTHING) is not None

        self.shown = chosen(self.wanted, chain, known, lambda name: self._varies(name, parts))
        return len(self.shown)

    def _varies(self, name: str, parts: Sequence[Packed]) -> bool:
        """Return whether a figure was not the same all the time, as far as known."""
        subject = self._subject(BY_ID[name], parts[-1], lambda: ((), ""))
        return self._course(BY_ID[name], subject).varies(parts)

    def fill(
        self,
        parts: Sequence[Packed],
        cells: Mapping[str, int],
        shown_at: float | None,
        cursor: Callable[[], tuple[Path, str]],
        glyphs: Glyphs,
        *,
        file: bool,
    ) -> None:
        """Fill the visible graphs. ``cells`` has the width inside the frame of each visible widget, by its
        id. ``shown_at`` is the moment that the screen shows; None: the newest. ``cursor`` returns the path to
        the row under the cursor, and its name."""
        for name, widget in zip(self.shown, self.widgets, strict=False):
            inside = cells.get(str(widget.id))
            if inside is None or not parts:
                continue
            figure = BY_ID[name]
            subject = self._subject(figure, parts[-1], cursor)
            number = columns(inside, glyphs)
            widget.show(self._data(figure, subject, parts, number, shown_at, glyphs, file=file))

    def _subject(
        self, figure: GraphFigure, newest: Packed, cursor: Callable[[], tuple[Path, str]]
    ) -> Subject:
        """Return what the graph of ``figure`` is about: with ``AUTO`` the GPU or the row of the worst
        problem, otherwise all GPUs, or the row under the cursor."""
        chain = self._held.chain if AUTO in self.wanted else None
        if figure.of == "device":
            return _device_of(chain, newest)
        if figure.of != "row":
            return EVERYTHING
        if chain is not None:
            return _row_of(chain, newest)
        path, name = cursor()
        return Subject(path=path, name=name)

    def _data(
        self,
        figure: GraphFigure,
        subject: Subject,
        parts: Sequence[Packed],
        number: int,
        shown_at: float | None,
        glyphs: Glyphs,
        *,
        file: bool,
    ) -> GraphData:
        axis = axis_of(parts, number)
        course = self._course(figure, subject)
        inside = within(parts, axis)
        ends = np.array([part.window.end for part in inside])
        starts = np.array([part.window.start for part in inside])
        values = spread(ends, starts, course.values(inside), axis, peak=figure.peak)
        known = values[~np.isnan(values)]
        end = figure.end(parts[-1], subject)
        most = float(known.max()) if len(known) else 0.0
        high = max(end, most) if end else high_of(most, figure.least)
        here = parts[-1]
        if shown_at is not None:
            here = next((part for part in reversed(inside) if part.window.end <= shown_at + 1e-3), here)
        now = course.value(here)
        marks = _worst(inside, ends, starts, axis) if figure.id == "problems" else None
        return GraphData(
            title=f"{figure.title} {subject.name}".rstrip(),
            now=figure.text(None if np.isnan(now) else now, glyphs),
            values=values,
            high=high,
            top=figure.text(high, glyphs),
            since=f"-{whole_seconds(axis.seconds)}",
            until="end" if file else "now",
            role=figure.role,
            roles=_ROLES if marks is not None else (),
            marks=marks,
            shown=None if shown_at is None else axis.column(shown_at),
        )

    def _course(self, figure: GraphFigure, subject: Subject) -> PastValues:
        found = self._courses.pop((figure.id, subject), None) or PastValues(figure, subject)
        self._courses[figure.id, subject] = found  # at the end: used most recently
        while len(self._courses) > _MOST_COURSES:
            del self._courses[next(iter(self._courses))]
        return found


def _worst(parts: Sequence[Packed], ends: Floats, starts: Floats, axis: GraphAxis) -> NDArray[np.int64]:
    """Return for each column the index in ``SEVERITIES`` of the worst problem; ``len(SEVERITIES)`` if there
    was none."""
    none = len(SEVERITIES)
    better = np.array([float(none - part.peak.worst) for part in parts])
    found = spread(ends, starts, better, axis, peak=True)
    return none - np.nan_to_num(found).astype(np.int64)


def _device_of(chain: Chain | None, newest: Packed) -> Subject:
    """Return the GPU that ``chain`` names; all GPUs if it names none."""
    devices = newest.window.devices.devices
    for device in devices:
        names = (f"GPU {device.index}", f"GPU{device.index}", device.uuid)
        if chain is not None and any(link.device in names for link in chain.links):
            return Subject(device=device.uuid, name=f"GPU {device.index}" if len(devices) > 1 else "")
    return Subject(name=f"{len(devices)} GPUs" if len(devices) > 1 else "")


def _row_of(chain: Chain, newest: Packed) -> Subject:
    """Return the row that ``chain`` says is slow; no row if it names no operation."""
    if not (chain.tenant and chain.operation):
        return EVERYTHING
    tenant, name = newest.window.tenants.get(chain.tenant), shown_operation(chain.operation)
    path = (
        PathStep("container", chain.tenant, tenant.name if tenant else chain.tenant),
        PathStep("operation", chain.operation, name),
    )
    return Subject(path=path, name=name)
