"""Builds a screen like stalltop's from Textual's stock widgets, to compare their cost with stalltop's own
widgets."""

from __future__ import annotations

from typing import Final

from textual import on
from textual.app import App, ComposeResult
from textual.widgets import DataTable, Footer, ProgressBar, Static

from stalltop.model.rows.dimensions import Dimension
from stalltop.model.rows.pivot import Groups, pivot
from stalltop.model.source import Source
from stalltop.model.text import figures
from stalltop.model.window import Window
from stalltop.tui.reading.collector import Collector, Tick

COLUMNS: Final = ("calls/s", "p50", "p95", "p99", "max", "total", "share", "errors", "bytes/s", "calls")


class StockApp(App[None]):
    """An app with a header, bars, a table by operation, a table by container, and the keys. The tables are
    sorted by total time, longest first."""

    BINDINGS = [("q", "quit", "Quit"), ("question_mark", "help", "Help"), ("space", "freeze", "Freeze")]
    CSS = """
    #head, #system, #devices { height: 1; }
    #main { height: 2fr; }
    #second { height: 1fr; }
    """
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, source: Source, interval: float) -> None:
        super().__init__()
        self.animation_level = "none"
        self._collector = Collector(source, self.post_message, interval=interval)

    def compose(self) -> ComposeResult:
        """Yields the widgets from top to bottom."""
        yield Static("STARTING", id="head")
        yield Static(id="system")
        yield ProgressBar(100, id="devices", show_eta=False)
        yield Static(id="alerts")
        yield DataTable(id="main", cursor_type="row")
        yield DataTable(id="second", cursor_type="row")
        yield Footer()

    def on_mount(self) -> None:
        """Adds the columns and starts to read."""
        for name, first in (("#main", "operation"), ("#second", "container")):
            table = self.query_one(name, DataTable)
            table.add_column(first, key="name", width=40)
            for column in COLUMNS:
                table.add_column(column, key=column, width=7)
        self.query_one("#main").focus()
        self._collector.start()

    async def action_quit(self) -> None:
        """Stops the collector and ends the app."""
        self._collector.stop(1.0)
        self.exit()

    @on(Tick)
    def _tick(self, message: Tick) -> None:
        window = message.snapshot.window
        calls = figures.rate(float(window.rows.calls.sum()) / window.seconds)
        self.query_one("#head", Static).update(
            f"{window.host} LIVE last {window.seconds:.0f}s {calls} calls/s"
        )
        if window.system is not None:
            used = figures.memory(window.system.memory_used_bytes)
            cpu = figures.percent(window.system.cpu_percent)
            load = window.system.load[0]
            self.query_one("#system", Static).update(f"CPU {cpu}  MEM {used}  load {load:.2f}")
        if window.devices.devices:
            busy = window.devices.devices[0].utilization_percent
            self.query_one("#devices", ProgressBar).update(progress=busy or 0.0)
        self._fill("#main", "operation", window)
        self._fill("#second", "container", window)

    def _fill(self, name: str, by: Dimension, window: Window) -> None:
        table = self.query_one(name, DataTable)
        groups = pivot(window, (by,))
        totals = {}
        for at, (key, label) in enumerate(zip(groups.keys, groups.labels, strict=True)):
            cells = _cells(groups, at)
            totals[key[0]] = int(groups.total_ns[at])
            if key[0] not in table.rows:
                table.add_row(label[0], *cells, key=key[0])
                continue
            for column, cell in zip(COLUMNS, cells, strict=True):
                table.update_cell(key[0], column, cell)
        names = {label[0]: totals[key[0]] for key, label in zip(groups.keys, groups.labels, strict=True)}
        table.sort("name", key=lambda label: names.get(label, 0), reverse=True)


def _cells(groups: Groups, at: int) -> list[str]:
    durations = (groups.p50_ns, groups.p95_ns, groups.p99_ns, groups.max_ns, groups.total_ns)
    return [
        figures.rate(float(groups.calls_per_s[at])),
        *(figures.duration(int(column[at])) for column in durations),
        figures.percent(100 * float(groups.share[at])),
        figures.count(int(groups.errors[at])),
        figures.size(float(groups.bytes_per_s[at])),
        figures.count(int(groups.calls[at])),
    ]
