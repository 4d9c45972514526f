"""One line about the host: CPU, memory, swap and load."""

from __future__ import annotations

from textual.strip import Strip

from stalltop.model.devices.device import System
from stalltop.model.text import figures
from stalltop.widgets.drawing.bar import bar
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Part, strip_of


def _share(part: float, whole: float) -> float | None:
    return 100.0 * part / whole if whole else None


class SystemBars(Lines):
    """Shows the CPU, memory, swap and load of a ``System``."""

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self._system: System | None = None

    def show(self, system: System | None) -> None:
        """Show ``system``; None if nothing is known of the host yet."""
        self._system = system
        self.redraw()

    def lines(self, width: int, height: int, paint: Palette) -> list[Strip]:
        """Return the one line. Its bars grow with ``width``."""
        system = self._system
        if system is None:
            return [strip_of([(" CPU and memory not known yet", paint.dim)], width)]
        memory = _share(system.memory_used_bytes, system.memory_total_bytes)
        swap = _share(system.swap_used_bytes, system.swap_total_bytes)
        wide = max(min((width - 80) // 3, 24), 4) if self.pictures else 0
        used = figures.memory(system.memory_used_bytes, self.glyphs)
        total = figures.memory(system.memory_total_bytes, self.glyphs).strip()
        parts: list[Part] = [(" CPU ", paint.label)]
        parts += bar(system.cpu_percent, wide, paint, glyphs=self.glyphs)
        parts.append((" " + figures.percent(system.cpu_percent, self.glyphs), None))
        parts.append((f" of {system.cpus} CPUs" if width >= 100 else f" of {system.cpus}", paint.dim))
        parts.append(("  MEM ", paint.label))
        parts += bar(memory, wide, paint, glyphs=self.glyphs)
        parts.append((f" {used}", None))
        parts.append((f"/{total}", paint.dim))
        if system.swap_total_bytes:
            parts.append(("  SWP ", paint.label))
            if width >= 100:
                parts += bar(swap, wide, paint, glyphs=self.glyphs)
            parts.append((" " + figures.percent(swap, self.glyphs), None))
        parts.append(("  load", paint.label))
        busy = system.load[0] > system.cpus
        parts.append((f"{system.load[0]:6.2f}", paint.warn if busy else None))
        if width >= 100:
            parts.append((f"{system.load[1]:6.2f}{system.load[2]:6.2f}", paint.dim))
        return [strip_of(parts, width)]
