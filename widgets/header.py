"""The line with the state: host, state, window length, call rate, losses, problems and coverage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len

from stalltop.model.text import figures
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Line, Part, line_of, printable

LEAST_HOST = 9
"""A longer host name is cut to this many cells to make room for missed calls, problems and the call rate."""
CHAINS_CELLS, TRACED_CELLS = 11, 12
"""Cells reserved for ``1C 1H 1M 1L`` and for ``traced 13/14``, so that nothing moves when these change."""
QUOTA_CELLS = 24
"""A longer name of who is over quota is cut to this many cells."""
SPELT_CELLS = 27
"""Cells reserved for ``1 critical 2 high 3 medium``. Longer counts are shown as letters."""
_SPELT_FROM = 160
"""Least width in cells at which severities are shown as words."""
_SEVERITIES = {"C": "critical", "H": "high", "M": "medium", "L": "low"}
_WORDS_FROM = 110
"""Least width in cells at which the counts by severity have the label ``problems``."""


@dataclass(frozen=True, slots=True)
class HeaderState:
    """What the header shows. None means not known yet."""

    host: str = ""
    state: str = "STARTING"
    """What the screen shows, such as LIVE, FROZEN 12:03:44, SIMULATED, SAVED, NO DATA 7s."""
    level: Literal["good", "warn", "bad", "label"] = "label"
    window: str = ""
    """The window's length, such as ``last 10s``."""
    calls_per_s: float | None = None
    chains: tuple[tuple[str, str], ...] = ()
    """The number of open problems by severity, such as ``2H``, each with its role."""
    silenced: int = 0
    """The number of open problems that ``chains`` leaves out, because the user silenced them."""
    recording: tuple[str, str] | None = None
    """The text about the running recording, and its role; None if there is none."""
    lost: int = 0
    """Calls that no row counts."""
    partial: int = 0
    """Events that were counted without some of their figures."""
    over_quota: str = ""
    """The process or container that takes too much memory in the Linux kernel, so that calls are missed."""
    traced: str = ""
    """Coverage, such as ``traced 3/4``."""
    partly: bool = False
    """Whether something is not traced."""
    probe_percent: float | None = None
    """CPU time of the probes in the traced processes, in percent of one CPU."""
    tracer: str = ""
    """The process that traces, such as ``root 4711``, if it is another one."""
    own: tuple[float, int] | None = None
    """CPU time of stalltop's process, in percent of one CPU, and its resident memory, bytes; None if not
    shown."""


class Header(Lines):
    """Shows a ``HeaderState``. The least important fields are left out first where there is no room."""

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self._state = HeaderState()

    def show(self, state: HeaderState) -> None:
        """Show ``state``."""
        if state != self._state:
            self._state = state
            self.redraw()

    def lines(self, width: int, height: int, paint: Palette) -> list[Line]:
        """Return the one line."""
        state, bar = self._state, paint.bar
        rate = figures.rate(state.calls_per_s, self.glyphs)
        lost_style = bar + (paint.bad if state.lost else paint.warn if state.partial else paint.dim)
        # "missed 0" would contradict the page of the coverage if that lists events without some figures.
        losses = "partial " if state.partial and not state.lost else "missed "
        lost = figures.count(state.lost or state.partial, self.glyphs).lstrip()
        lost = lost.ljust(figures.COUNT_WIDTH + cell_len("missed ") - cell_len(losses))
        # The fields at the right end, from left to right. Each has a fixed width, so that nothing moves.
        right: list[list[Part]] = [
            [(rate, bar + paint.text), (" calls/s", bar + paint.dim)],
            [(losses, lost_style), (lost, lost_style)],
        ]
        right.append(self._problems(width, paint))
        if state.lost and state.over_quota:
            who = figures.fit(printable(state.over_quota), QUOTA_CELLS, self.glyphs).rstrip()
            right.append([("over quota ", bar + paint.bad), (who, bar + paint.bad)])
        if state.tracer:
            right.append([("tracer ", bar + paint.dim), (printable(state.tracer), bar + paint.text)])
        if state.traced:
            traced = state.traced.ljust(TRACED_CELLS)
            right.append([(traced, bar + (paint.warn if state.partly else paint.dim))])
        if state.probe_percent is not None:
            cost = figures.percent(state.probe_percent, self.glyphs)
            right.append([("probes ", bar + paint.dim), (cost, bar + paint.text)])
        if state.own is not None:
            percent = figures.percent(state.own[0], self.glyphs)
            memory = figures.memory(state.own[1], self.glyphs)
            right.append([("own ", bar + paint.dim), (f"{percent} {memory}", bar + paint.text)])
        left: list[Part] = [
            (f" {state.state} ", bar + getattr(paint, state.level)),
            (f" {state.window} " if state.window else "", bar + paint.text),
        ]
        if state.recording is not None:
            text, role = state.recording
            left.append((f" {text} ", bar + getattr(paint, role)))
        room = width - _length(left) - 1
        host = printable(state.host)
        # Fields get room in this order: missed calls if there are any, problems, call rate, missed calls if
        # there are none, the other fields. A long host name is cut to make room for the first three.
        fits = [False] * len(right)
        for number in (*((1, 2, 0) if state.lost else (2, 0, 1)), *range(3, len(right))):
            wanted = min(cell_len(host), 16 if number >= 3 else LEAST_HOST) + 2 if host else 0
            length = _length(right[number]) + 2
            if length + wanted > room:
                continue
            fits[number] = True
            room -= length
        fitting = [field for field, shown in zip(right, fits, strict=True) if shown]
        if host and room >= 5:
            host = figures.fit(host, min(cell_len(host), room - 2), self.glyphs)
            left.insert(0, (f" {host} ", bar + paint.head))
            room -= cell_len(host) + 2
        if room >= 10:
            left.insert(0, (" stalltop", bar + paint.dim))
            room -= 9
        parts = [*left, (" " * max(room, 0), bar)]
        for field in fitting:
            parts.append(("  ", bar))
            parts.extend(field)
        return [line_of(parts, width, bar)]

    def _problems(self, width: int, paint: Palette) -> list[Part]:
        """Return the counts of problems, padded to a width that depends only on ``width``."""
        state, bar = self._state, paint.bar
        label = "problems " if width >= _WORDS_FROM else ""
        kept = SPELT_CELLS if width >= _SPELT_FROM else CHAINS_CELLS
        texts = [(f"{text[:-1]} {_SEVERITIES.get(text[-1], '')}", role) for text, role in state.chains]
        if width < _SPELT_FROM or sum(cell_len(text) + 1 for text, _ in texts) > kept:
            texts = list(state.chains)
        counted: list[Part] = [(label, bar + paint.dim)]
        for number, (text, role) in enumerate(texts):
            counted += [(" " if number else "", bar), (text, bar + getattr(paint, role))]
        if not state.chains and (state.silenced or label):
            none = f"{state.silenced} silenced" if state.silenced else "none"
            counted.append((none, bar + paint.dim))
        elif state.silenced:
            room = kept + cell_len(label) - _length(counted)
            for text in (f" ({state.silenced} silenced)", f" ({state.silenced})"):
                if len(text) <= room:
                    counted.append((text, bar + paint.dim))
                    break
        return [*counted, (" " * (kept + cell_len(label) - _length(counted)), bar)]


def _length(parts: list[Part]) -> int:
    return sum(cell_len(text) for text, _ in parts)
