"""Files are saved in the background: the screen goes on, and leaving waits for them a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from textual.message import Message

from stalltop.formats.registry import Format
from stalltop.model.errors import StalltopError
from stalltop.tui.saving.formats import Shown, save


class Saved(Message):
    """A file was saved at ``path``; or, without one, not, for the reason in ``text``."""

    def __init__(self, path: Path | None, text: str = "") -> None:
        super().__init__()
        self.path, self.text = path, text


class Saving:
    """Saves files in threads of their own and tells of each with a message."""

    elsewhere = ""
    """Said in place of a path, where files go to no path of this host."""

    def __init__(self, post: Callable[[Message], object]) -> None:
        self._post = post
        self._threads: list[threading.Thread] = []
        self.paths: list[Path] = []
        """What was saved, in order."""

    def start(self, shown: Shown, chosen: Format, typed: str) -> None:
        """Save ``shown`` where ``typed`` says."""

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
        """Wait for files that are being saved, no longer than to that time of ``time.monotonic``."""
        for thread in self._threads:
            thread.join(max(until - time.monotonic(), 0.0))
