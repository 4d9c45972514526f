"""One line about the host: CPU, memory, swap, load, disks and network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len

from stalltop.model.devices.device import System
from stalltop.model.network_ports import NetworkPort, Throughput, of_rdma, throughput
from stalltop.model.text import figures
from stalltop.model.text.glyphs import Glyphs
from stalltop.widgets.drawing.bar import bar
from stalltop.widgets.drawing.frame import FrameEdge, titled
from stalltop.widgets.drawing.lines import Lines
from stalltop.widgets.drawing.palette import Palette
from stalltop.widgets.drawing.strips import Line, Part, line_of

_LEAST_BAR: Final = 4
"""Cells of the shortest bar."""
_ROOMY_FROM: Final = 100
"""Least width in cells at which the line has all three load averages and a bar for swap."""


class DiskRates(NamedTuple):
    """Bytes that block devices moved per second."""

    read_bytes: float
    written_bytes: float


def _share(part: float, whole: float) -> float | None:
    return 100.0 * part / whole if whole else None


class SystemBars(Lines):
    """Shows the CPU, memory, swap and load of a ``System``, and the throughput of its disks and network."""

    def __init__(self, widget_id: str | None = None) -> None:
        super().__init__(widget_id)
        self.title: tuple[str, str, str] = ("", "", "")
        """The texts on the frame: the badge before the title, the title, and the keys after it."""
        self._system: System | None = None
        self._network: Throughput | None = None
        self._rdma: Throughput | None = None
        self._disk: DiskRates | None = None

    def show(
        self,
        system: System | None,
        ports: Sequence[NetworkPort] = (),
        seconds: float = 0.0,
        disk: DiskRates | None = None,
    ) -> None:
        """Show ``system``; None if nothing is known of the host yet. ``ports`` are the network ports, with
        what they moved in ``seconds`` seconds. ``disk``: None if it was not measured."""
        self._system, self._disk = system, disk
        self._network, self._rdma = throughput(ports, seconds), throughput(of_rdma(ports), seconds)
        self.redraw()

    def edges(self, paint: Palette) -> tuple[FrameEdge, FrameEdge]:
        """Return the title and the keys on the top edge of the frame."""
        return titled(*self.title, paint), FrameEdge()

    def lines(self, width: int, height: int, paint: Palette) -> list[Line]:
        """Return the one line. Its bars grow with ``width``."""
        system = self._system
        if system is None:
            return [line_of([(" CPU and memory not known yet", paint.dim)], width)]
        wide = max(min((width - 80) // 3, 24), _LEAST_BAR) if self.pictures else 0
        return [line_of(self._fitting(system, width, wide, paint), width)]

    def _fitting(self, system: System, width: int, wide: int, paint: Palette) -> list[Part]:
        """Return the parts of the line: CPU, memory and load, then the rates of network and disks that fit
        beside short bars. Fields have fixed widths, so that nothing moves when figures change."""
        roomy = width >= _ROOMY_FROM
        network = _moved("NET", self._network, self.glyphs, paint)
        rdma = _moved("RDMA", self._rdma, self.glyphs, paint) if network else []
        errors = _errors(self._network, self.glyphs, paint)
        disk, brief = _disks(self._disk, self.glyphs, paint)
        wider = [[*network, *rdma, *errors, *disk], [*network, *rdma, *errors], [*network, *disk], network]
        choices = [(added, roomy) for added in wider]
        choices += [(added, False) for added in ([*network, *disk], [*network, *brief], network, disk, brief)]
        for added, all_loads in choices:
            lacking = _length([*self._host(system, wide, paint, roomy=all_loads), *added]) - width
            bars = 3 if all_loads and system.swap_total_bytes else 2
            cells = wide - max(-(-lacking // bars), 0)
            if added and cells >= min(wide, _LEAST_BAR):
                return [*self._host(system, cells, paint, roomy=all_loads), *added]
        return self._host(system, wide, paint, roomy=roomy)

    def _host(self, system: System, wide: int, paint: Palette, *, roomy: bool) -> list[Part]:
        """Return the parts about CPU, memory, swap and load, with bars of ``wide`` cells."""
        memory = _share(system.memory_used_bytes, system.memory_total_bytes)
        swap = _share(system.swap_used_bytes, system.swap_total_bytes)
        used = figures.memory(system.memory_used_bytes, self.glyphs)
        total = figures.memory(system.memory_total_bytes, self.glyphs).strip()
        parts: list[Part] = [(" CPU ", paint.label)]
        parts += bar(
            system.cpu_percent,
            wide,
            paint,
            glyphs=self.glyphs,
            style=paint.level(system.cpu_percent, paint.running_line),
        )
        parts.append((" " + figures.percent(system.cpu_percent, self.glyphs), None))
        parts.append((f" of {system.cpus} CPUs" if roomy else f" of {system.cpus}", paint.dim))
        parts.append(("  MEM ", paint.label))
        parts += bar(memory, wide, paint, glyphs=self.glyphs, style=paint.level(memory, paint.memory_line))
        parts.append((f" {used}", None))
        parts.append((f"/{total}", paint.dim))
        if system.swap_total_bytes:
            parts.append(("  SWP ", paint.label))
            if roomy:
                parts += bar(
                    swap, wide, paint, glyphs=self.glyphs, style=paint.level(swap, paint.memory_line)
                )
            parts.append((" " + figures.percent(swap, self.glyphs), None))
        parts.append(("  load", paint.label))
        busy = system.load[0] > system.cpus
        parts.append((f"{system.load[0]:6.2f}", paint.warn if busy else None))
        if roomy:
            parts.append((f"{system.load[1]:6.2f}{system.load[2]:6.2f}", paint.dim))
        return parts


def _moved(label: str, moved: Throughput | None, glyphs: Glyphs, paint: Palette) -> list[Part]:
    """Return the parts about bytes received and sent per second; empty if they are not known."""
    if moved is None:
        return []
    received = f" {glyphs.received}{figures.size(moved.rx_bytes, glyphs)}/s"
    sent = f" {glyphs.sent}{figures.size(moved.tx_bytes, glyphs)}/s"
    return [(f"  {label}", paint.warn if moved.errors else paint.label), (received + sent, None)]


def _disks(moved: DiskRates | None, glyphs: Glyphs, paint: Palette) -> tuple[list[Part], list[Part]]:
    """Return the parts about bytes read and written per second, and those about their sum; empty if they are
    not known."""
    if moved is None:
        return [], []
    label: Part = ("  DISK", paint.label)
    read, written = figures.size(moved.read_bytes, glyphs), figures.size(moved.written_bytes, glyphs)
    both = figures.size(moved.read_bytes + moved.written_bytes, glyphs)
    return [label, (f" r{read}/s w{written}/s", None)], [label, (f" {both}/s", None)]


def _errors(moved: Throughput | None, glyphs: Glyphs, paint: Palette) -> list[Part]:
    if moved is None or not moved.errors:
        return []
    return [(f" {figures.rate(moved.errors, glyphs).strip()} errors/s", paint.warn)]


def _length(parts: Sequence[Part]) -> int:
    return sum(cell_len(text) for text, _ in parts)
