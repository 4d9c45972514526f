"""Keeps the baseline of this host from run to run, without delaying windows. Code and files call it
normals."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

from stalltop.diagnosis.diagnosed import Diagnosed
from stalltop.diagnosis.normals import Normals
from stalltop.files.normals_file import (
    NormalsDamagedError,
    NormalsNewerError,
    put_aside,
    read_normals,
    write_normals,
)
from stalltop.model.window import Window

SAVE_SECONDS = 180.0
"""Seconds between two writes of the baseline."""
LEAVE_SECONDS = 0.15
"""Seconds that ``close`` waits for the last write of the baseline. If the disk is slower, what this run
learned since the previous write is lost."""


def load(path: Path, say: Callable[[str], object]) -> tuple[Normals, bool]:
    """Reads the baseline from ``path``. If there is no file, or it cannot be read, makes an empty baseline.

    Returns the baseline, and whether it may be written to ``path`` later. If the file is damaged or cannot be
    used, calls ``say`` with a line about it.
    """
    try:
        plain = read_normals(path)
        return (Normals() if plain is None else Normals.from_plain(plain)), True
    except NormalsNewerError as reason:
        say(
            f"{path} is from a newer stalltop ({reason}): this run starts with an empty baseline and "
            "does not save it"
        )
        return Normals(), False
    except (NormalsDamagedError, ValueError) as reason:
        try:
            aside = put_aside(path)
        except OSError as error:
            say(
                f"the baseline {path} is damaged ({reason}) and cannot be renamed: "
                f"{error.strerror or error}; "
                "this run starts with an empty baseline and does not save it"
            )
            return Normals(), False
        say(f"the baseline {path} is damaged ({reason}): renamed to {aside.name}, starting with an empty one")
        return Normals(), True
    except OSError as error:
        say(
            f"cannot read the baseline {path}: {error.strerror or error}; "
            "this run starts with an empty baseline and does not save it"
        )
        return Normals(), False


class BaselineKeeper:
    """A source that passes on the windows of ``source`` and writes the baseline to ``path`` every
    ``SAVE_SECONDS``. For one thread only."""

    def __init__(
        self,
        source: Diagnosed,
        normals: Normals,
        path: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._normals = normals
        self._path = path
        self._clock = clock
        self._saved_at = clock()
        self._writing: threading.Thread | None = None
        self._closed = False

    def read(self) -> Window:
        """Returns the next window of the source."""
        window = self._source.read()
        if self._clock() - self._saved_at >= SAVE_SECONDS:
            self._save()
        return window

    def close(self) -> None:
        """Writes for the last time and closes the source. May be called twice."""
        if not self._closed:
            self._closed = True
            self._save()
        self._source.close()
        if self._writing is not None:
            self._writing.join(LEAVE_SECONDS)

    def _save(self) -> None:
        """Starts a thread that writes the baseline, so that a disk that hangs does not delay windows. Does
        nothing if the baseline is empty or the previous write is still running."""
        self._saved_at = self._clock()
        if not len(self._normals) or (self._writing is not None and self._writing.is_alive()):
            return
        plain = self._normals.to_plain()
        self._writing = threading.Thread(
            target=_write, args=(self._path, plain), name="stalltop-normals", daemon=True
        )
        self._writing.start()


def _write(path: Path, plain: dict[str, object]) -> None:
    with contextlib.suppress(OSError, ValueError):  # what is not saved now, the next run learns again
        write_normals(path, plain)
