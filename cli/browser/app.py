"""The screen in a browser: it cannot suspend to a shell, and the browser stores saved files."""

from __future__ import annotations

import io
import threading
from pathlib import Path

from textual.driver import Driver
from textual.message import Message

from stalltop.cli.browser.driver import BrowserDriver
from stalltop.formats.registry import Format
from stalltop.model.errors import StalltopError
from stalltop.tui.app import StalltopApp
from stalltop.tui.saving.formats import ShownScreen
from stalltop.tui.saving.saving import Saved, Saving
from stalltop.tui.terminal.clipboard import Copied

NO_PNG = "cannot save PNG: a screen in a browser may not start the program that makes it; save SVG instead"


class Delivered(Message):
    """Message to the screen: a file for the browser has been created."""

    def __init__(self, name: str, made: bytes) -> None:
        super().__init__()
        self.name, self.made = name, made


class Delivering(Saving):
    """Creates files in threads and passes them to the browser, without writing them to this host."""

    elsewhere = "the browser stores it, in its folder for downloads"

    def start(self, shown: ShownScreen, chosen: Format, typed: str) -> None:
        """Creates a file of ``shown`` with its default name; ``typed`` is ignored."""
        name, save = shown.default(chosen).name, chosen.save
        assert save is not None

        def work() -> None:
            try:
                made = save(shown)
            except (StalltopError, OSError, ValueError) as error:
                reason = NO_PNG if chosen.name == "png" else " ".join(str(error).split())
                self._post(Saved(None, reason))
            else:
                self._post(Delivered(name, made))

        threading.Thread(target=work, name="stalltop-save", daemon=True).start()


class BrowserApp(StalltopApp):
    """The live screen in a browser."""

    def new_saving(self) -> Saving:
        """Return the object that passes files to the browser."""
        return Delivering(self.post_message)

    def get_driver_class(self) -> type[Driver]:
        """Returns the driver for a browser."""
        return BrowserDriver

    @property
    def line_is_behind(self) -> bool:
        """Returns True if the browser reads output more slowly than the screen writes it."""
        return isinstance(self.driver, BrowserDriver) and self.driver.is_behind

    def copy(self, text: str) -> str:
        """Ask the browser to copy ``text``. Does not copy to a file or to tmux, because those on this host do
        not belong to the user."""
        self.copy_to_clipboard(text)
        return Copied(asked="the browser").said

    def on_delivered(self, message: Delivered) -> None:
        """Passes the file to the browser."""
        self.deliver_binary(io.BytesIO(message.made), save_filename=message.name)
        self.main.files.saved(Saved(Path(message.name)))

    def action_suspend_process(self) -> None:
        """Tells the user that a screen in a browser cannot be suspended to a shell."""
        self.main.speech.say("in a browser there is no shell to go to", "label")
