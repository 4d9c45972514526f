"""Textual's driver for terminals, with less to send."""

from __future__ import annotations

import os
import signal
import time

from textual.drivers.linux_driver import LinuxDriver

from stalltop.tui.terminal.keyboard import Keyboard, lost
from stalltop.tui.terminal.lean import Lean


class LeanDriver(LinuxDriver):
    """Shows what Textual's own driver would, in a fraction of the bytes."""

    _lean: Lean | None = None
    _unsure_until = 0.0

    def forget(self, seconds: float = 0.0) -> None:
        """Whatever the terminal shows is not known now, nor for so many ``seconds``: everything is sent."""
        self._unsure_until = time.monotonic() + seconds
        if self._lean is not None:
            self._lean.forget()

    def _sigtstp_application(self, *_: object) -> None:
        """Leave the terminal as it was, then stop with all that stands between the shell and this program.

        A shell waits for the process that it started, which may be ``timeout``, ``flock`` or a script: while
        that one runs the terminal stays with the job. The others stop after the terminal is restored, as the
        shell takes it over at once.
        """
        if self._auto_restart:
            self.suspend_application_mode()
            self._must_signal_resume = True
        before = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        os.kill(0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)
        os.kill(os.getpid(), signal.SIGSTOP)

    def run_input_thread(self) -> None:
        """Pass on what is typed until the app ends; tell the app where that is not possible."""
        keyboard = Keyboard(self._app, self._loop, self.exit_event)
        try:
            for data in keyboard.read(self.fileno):
                for message in keyboard.feed(data):
                    self.process_message(message)
        except Exception as error:  # nobody else would end the screen
            self._app.post_message(lost(error))

    def write(self, data: str) -> None:
        """Write ``data`` to the terminal."""
        if self._lean is None:
            self._lean = Lean()
        if time.monotonic() < self._unsure_until:
            self._lean.forget()
        short = self._lean.shorten(data)
        if short:
            super().write(short)
