"""The driver of the screen: Textual's driver with shorter output, and with the input of ``keyboard``."""

from __future__ import annotations

import time

from stalltop.tui.terminal.keyboard import Keyboard, lost
from stalltop.tui.terminal.lean import Lean
from stalltop.tui.terminal.textual_internals import StoppingDriver


class LeanDriver(StoppingDriver):
    """Draws the same as Textual's own driver with a fraction of the bytes."""

    _lean: Lean | None = None
    _unsure_until = 0.0

    def forget(self, seconds: float = 0.0) -> None:
        """Forget what the terminal shows, now and before each write in the next ``seconds`` seconds, so that
        such a write sends all of its cells."""
        self._unsure_until = time.monotonic() + seconds
        if self._lean is not None:
            self._lean.forget()

    def run_input_thread(self) -> None:
        """Pass the input to the app until the app ends. If the input cannot be read, report the error to the
        app."""
        keyboard = Keyboard(*self.app_and_loop, self.exit_event)
        try:
            for data in keyboard.read(self.fileno):
                for message in keyboard.feed(data):
                    self.process_message(message)
        except Exception as error:  # without this the screen would stay and take no keys
            self.app_and_loop[0].post_message(lost(error))

    @property
    def lean(self) -> Lean:
        """Return what the terminal shows, to paint on it. The next ``write`` sends what was painted."""
        if self._lean is None:
            self._lean = Lean()
        if time.monotonic() < self._unsure_until:
            self._lean.forget()
        return self._lean

    def write(self, data: str) -> None:
        """Write ``data`` to the terminal."""
        short = self.lean.shorten(data)
        if short:
            super().write(short)
