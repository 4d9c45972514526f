"""Textual driver for a browser: it reads keys and writes output as packets, through pipes to the server."""

from __future__ import annotations

import array
import fcntl
import os
import termios
from pathlib import Path
from typing import BinaryIO, Literal, TextIO

from textual import messages

from stalltop.serving.packets import FilePacket, packed_file
from stalltop.tui.terminal.keyboard import Keyboard, lost
from stalltop.tui.terminal.textual_internals import ByteStream, PipeDriver

STDIN = 0
"""File descriptor of the pipe from the server."""
BEHIND_BYTES = 16 << 10
"""Largest number of bytes that may wait in the output pipe before the screen skips updates: about one full
screen."""


class BrowserDriver(PipeDriver):
    """Extends Textual's web driver: ends when its server ends, and sends each file in one packet."""

    @property
    def is_behind(self) -> bool:
        """Returns True if the browser reads output more slowly than the screen writes it. The screen then
        skips updates: a write to a full pipe would block the screen, which could then handle no keys."""
        waiting = array.array("i", [0])
        fcntl.ioctl(self.fileno, termios.FIONREAD, waiting)
        return waiting[0] > BEHIND_BYTES

    def run_input_thread(self) -> None:
        """Reads keys; ends the screen when the server closes the pipe."""
        keyboard, stream = Keyboard(*self.app_and_loop, self.exit_event), ByteStream()
        try:
            for data in keyboard.read(STDIN):
                for kind, content in stream.feed(data) if data else (("D", b""),):
                    if kind == "D":
                        for message in keyboard.feed(content):
                            self.process_message(message)
                    else:
                        self.handle_meta(kind, content)
        except EOFError:
            self.app_and_loop[0].post_message(messages.ExitApp())
        except Exception as error:  # end the screen: without this thread, it can read no keys, not even q
            self.app_and_loop[0].post_message(lost(error))

    def deliver_binary(
        self,
        binary: BinaryIO | TextIO,
        *,
        delivery_key: str,
        save_path: Path,
        open_method: Literal["browser", "download"] = "download",
        encoding: str | None = None,
        mime_type: str | None = None,
        name: str | None = None,
    ) -> None:
        """Sends a file to the browser, which stores it."""
        with binary:
            content = binary.read()
        if isinstance(content, str):
            content = content.encode(encoding or "utf-8")
        packet = memoryview(packed_file(FilePacket(save_path.name, content)))
        while packet:
            packet = packet[os.write(self.fileno, packet) :]
