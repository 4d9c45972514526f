"""The page about one device, from which the user can turn to the others; and the list of devices."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding

from stalltop.formats.text import sharing_text
from stalltop.model.devices.device import DEVICE_FIGURE, Device
from stalltop.model.merge.packing import Packed
from stalltop.model.text import figures
from stalltop.model.window import Window
from stalltop.tui.device import page as device_page
from stalltop.tui.device import parts as device_parts
from stalltop.tui.device import past as device_past
from stalltop.tui.device.sharers import sharers
from stalltop.tui.keys.actions import bindings
from stalltop.tui.pages.live import Drawn, LivePage, past_of
from stalltop.tui.pages.network import network
from stalltop.tui.pages.sections import Frame
from stalltop.tui.pages.table_screen import TableScreen
from stalltop.widgets.charts import LEAST_LINES, Charts
from stalltop.widgets.devices import is_hot
from stalltop.widgets.drawing.sparkline import sparkline
from stalltop.widgets.table import HEAD_LINES, Table
from stalltop.widgets.table_data import Cell, Column, Role, TableData, TableRow

BESIDE_FROM = 150
"""Least width in cells at which a page has two columns."""
GRAPHS_FIRST_FROM = 40
"""Least number of terminal lines at which the past of a device comes before its figures."""


class DeviceScreen(LivePage):
    """Shows the device at position ``at`` (from 0) in the window's list of devices, or the reason why there
    is none."""

    BINDINGS = [
        Binding("D", "close", show=False),
        Binding("left", "device(-1)", show=False, priority=True),
        Binding("right", "device(1)", show=False, priority=True),
    ]

    def __init__(self, at: int = 0) -> None:
        super().__init__()
        self._at = at
        self._devices = 0

    def draw(self, window: Window, past: Sequence[Packed], frame: Frame) -> Drawn:
        """Return the page of the device."""
        devices = window.devices.devices
        self._devices = len(devices)
        hint = self.keys_hint
        if not devices:
            return Drawn("Devices", hint, (device_page.none(window),))
        self._at = min(self._at, len(devices) - 1)
        device = devices[self._at]
        several = f"{self._at + 1} of {len(devices)}  Left Right  " if len(devices) > 1 else ""
        title, graphs = device_page.title(device), device_past.past(device, past, frame)
        wide = frame.width >= BESIDE_FROM
        half = frame.half if wide else frame
        now, shared = device_page.now(device, window, half), sharers(device, window, half)
        rest = (
            device_parts.parts(device, window, half),
            device_page.processes(device, window, half),
            network(window, device.host, frame.glyphs),
            device_page.unread(device),
        )
        name, hint = f"GPU {device.index}", several + hint
        if wide:
            return Drawn(name, hint, (title, graphs), ((now,), (shared, *rest)))
        # With room for everything the past comes first, otherwise the current figures.
        first = (graphs, now, shared) if frame.height >= GRAPHS_FIRST_FROM else (now, shared, graphs)
        return Drawn(name, hint, (title, *first, *rest))

    def action_device(self, step: int) -> None:
        """Show the previous (-1) or next (1) device."""
        at = min(max(self._at + step, 0), max(self._devices - 1, 0))
        if at != self._at:
            self._at = at
            self.start_over()


class DeviceTable(Table, can_focus=True):
    """The list of devices, with the key bindings of tables."""

    BINDINGS = bindings("table")


class DevicesScreen(TableScreen):
    """Shows all devices, one line each. Enter opens the page of the device under the cursor."""

    BINDINGS = [Binding("D", "close", show=False)]

    def __init__(self, on: Sequence[int] = ()) -> None:
        """``on`` holds numbers of devices. The cursor starts on the device with the first of these
        numbers."""
        super().__init__(DeviceTable("list"))
        self._on = on

    def on_mount(self) -> None:
        """Put the cursor on the device with the first number in ``on``."""
        window = self.main.shown
        for device in window.devices.devices if window is not None else ():
            if device.index in self._on[:1]:
                self.table.put_cursor((device.uuid, device.index))

    def compose(self) -> ComposeResult:
        """Yield the list and the charts below it."""
        yield from super().compose()
        yield Charts("charts")

    def data(self, window: Window) -> TableData:
        """Return the rows for the devices of ``window``."""
        frame = Frame(self.app.size.width, self.app.size.height, self.stalltop.glyphs)
        past, devices = past_of(self.main, window), window.devices.devices
        charts = self.query_one("#charts", Charts)
        charts.display = bool(devices) and frame.height >= CHARTS_FROM
        data = table(window, past, frame, charted=charts.display)
        if charts.display:
            self.table.styles.height = min(len(devices) + HEAD_LINES + 1, frame.height // 2)
            # If there is no room for the charts of all devices, the charts begin at the device under the
            # cursor.
            at = data.find(self.table.cursor_key) or 0
            fitting = max((frame.height - len(devices) - 4) // LEAST_LINES, 1)
            first = at if len(devices) > fitting else 0
            charts.show(device_past.charts(devices[first:], past, frame))
        else:
            self.table.styles.height = "1fr"
        return data

    @on(Table.Moved)
    def _moved(self) -> None:
        """Draw the charts again, because they may begin at the device under the cursor."""
        self.show_page()

    @on(Table.RowChosen)
    def _chosen(self, message: Table.RowChosen) -> None:
        at = message.table.data.find(message.key)
        if at is not None:
            self.app.push_screen(DeviceScreen(at))


PAST_CELLS = 18
"""Cells of the sparkline of utilization, in a table that is wide enough for it."""
_WIDE = 120


CHARTS_FROM = 20
"""Least number of terminal lines at which the list has charts below it."""


def table(window: Window, past: Sequence[Packed], frame: Frame, *, charted: bool = False) -> TableData:
    """Return one row for each device of ``window``.

    ``past``: earlier windows, oldest first. ``charted``: whether charts are shown below the list.
    """
    columns = [
        Column("name", "GPU", 16, right=False, fixed=True, most=40),
        Column("busy", "BUSY", 5),
        Column("memory", "MEMORY", 7),
        Column("of", "OF", 7),
        Column("power", "POWER", 6),
        Column("heat", "TEMP", 5),
        Column("clock", "CLOCK", 7),
        Column("held", "THROTTLED BY", 17, right=False),
        Column("users", "USED BY", 14, right=False),
        Column("errors", "ERRORS", 6),
    ]
    wide = frame.width >= _WIDE
    if wide:
        columns.insert(2, Column("past", f"LAST {PAST_CELLS} WINDOWS", PAST_CELLS))
    rows = tuple(_row(device, past if wide else None, frame) for device in window.devices.devices)
    empty = (f"No GPU can be read: {window.devices.unavailable or 'none found'}",)
    title: tuple[tuple[str, Role], ...] = (("devices", "head"), ("   Enter opens one, Esc goes back", "dim"))
    span = device_past.span_text(window.devices.devices, past, frame) if charted else ""
    if any(device.ages for device in window.devices.devices):
        title = (*title, ("   *: older than this window", "dim"))
    if span:
        title = (*title, (f"   charts: {span}", "dim"))
    return TableData(title, tuple(columns), rows, empty=empty)


def _row(device: Device, past: Sequence[Packed] | None, frame: Frame) -> TableRow:
    glyphs = frame.glyphs

    ages = dict(device.ages)

    def whole(field: str, role: Role = "") -> Cell:
        value = getattr(device, field)
        if value is None:
            return Cell(frame.missing(), "dim")
        old = field in ages
        return Cell(f"{value:.0f}{DEVICE_FIGURE[field].unit}{'*' * old}", role or ("dim" if old else ""))

    wrong = (device.ecc_uncorrected or 0) + len(device.xids)
    reasons = ", ".join(device.throttle_reasons)
    busy = [Cell(_busy(device, past, frame), "accent")] if past is not None else []
    held = Cell("no longer answers", "bad") if device.lost else Cell(reasons, "warn" if reasons else "")
    if not (device.lost or reasons or device.throttle_told):
        held = Cell(frame.missing(), "dim")
    cells = (
        Cell(f"{device.index} {device.name.removeprefix('NVIDIA ')}", "bad" if device.lost else ""),
        whole("utilization_percent"),
        *busy,
        Cell(figures.memory(device.memory_used_bytes, glyphs)),
        Cell(figures.memory(device.memory_total_bytes, glyphs), "dim"),
        whole("power_watts"),
        whole("temperature_celsius", "warn" if is_hot(device) else ""),
        whole("sm_clock_mhz"),
        held,
        Cell(sharing_text.short(device) or frame.missing()),
        Cell(figures.count(wrong, glyphs), "bad" if wrong else "dim"),
    )
    return TableRow((device.uuid, device.index), cells, f"GPU {device.index}")


def _busy(device: Device, past: Sequence[Packed], frame: Frame) -> str:
    """Return the sparkline of the utilization in the latest windows."""
    found = [
        next(
            (one.utilization_percent for one in part.window.devices.devices if one.index == device.index),
            None,
        )
        for part in past[-PAST_CELLS:]
    ]
    return sparkline(found, high=100.0, glyphs=frame.glyphs).rjust(PAST_CELLS)
