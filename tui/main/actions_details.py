"""Keys of the main screen that open pages: of a row, of the devices."""

from __future__ import annotations

from textual import on

from stalltop.tui.device.screen import DeviceScreen, DevicesScreen
from stalltop.tui.main.main_view import MainView
from stalltop.tui.row.screen import RowScreen
from stalltop.tui.tables.tables import Tables


class DetailActions(MainView):
    """Opens pages upon the main screen."""

    def action_details(self) -> None:
        """The page of the row under the cursor."""
        path = self.tables.path_here()
        if path:
            self.app.push_screen(RowScreen(path))
        else:
            self.say("there is no row here", "dim")

    @on(Tables.Bottom)
    def _at_the_bottom(self) -> None:
        """Enter on a row with nothing below it."""
        self.action_details()

    def action_devices(self) -> None:
        """The page of the device under the cursor, or of the only one; else the list of all of them."""
        window = self.shown
        if window is None:
            self.say("no device was looked for yet", "dim")
            return
        numbers = [device.index for device in window.devices.devices]
        on = self.tables.devices_here()
        if len(numbers) < 2:
            self.app.push_screen(DeviceScreen())
        elif self.tables.by_here == "device" and len(on) == 1 and on[0] in numbers:
            self.app.push_screen(DeviceScreen(numbers.index(on[0])))
        else:
            self.app.push_screen(DevicesScreen(on))
