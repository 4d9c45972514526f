"""Saves files in the background. The program waits for them for a while before it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from stalltop.model.errors import StalltopError

if TYPE_CHECKING:
    from stalltop.formats.registry import Format
    from stalltop.tui.saving.formats import ShownScreen


class Saved(Message):
    """Reports that a file was saved at ``path``. If ``path`` is None, the file was not saved, and ``text`` is
    the reason."""

    def __init__(self, path: Path | None, text: str = "") -> None:
        super().__init__()
        self.path, self.text = path, text


class Saving:
    """Saves each file in a thread of its own, and posts a message about it."""

    elsewhere = ""
    """Shown instead of a path if files do not go to this host."""

    def __init__(self, post: Callable[[Message], object]) -> None:
        self._post = post
        self._threads: list[threading.Thread] = []
        self.paths: list[Path] = []
        """Paths of the saved files, in order."""

    def start(self, shown: ShownScreen, chosen: Format, typed: str) -> None:
        """Save ``shown`` in the place that ``typed`` names."""

        from stalltop.tui.saving.formats import save

        def work() -> None:
            try:
                path = save(shown, chosen, typed)
            except StalltopError as told:
                self._post(Saved(None, " ".join(str(told).split())))
            except (OSError, ValueError) as error:
                self._post(Saved(None, str(error)))
            else:
                self.paths.append(path)
                self._post(Saved(path))

        thread = threading.Thread(target=work, name="stalltop-save", daemon=True)
        self._threads.append(thread)
        thread.start()

    def join(self, until: float) -> None:
        """Wait for files that are being saved, at most until the time ``until`` of ``time.monotonic``."""
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0.0))
