"""Keeps what is normal on this host from run to run, beside the thread that reads windows."""

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
"""How often normals are written while windows are read."""
LEAVE_SECONDS = 0.15
"""How long closing waits for the last write. A disk that needs longer costs what was learned since the one
before."""


def load(path: Path, say: Callable[[str], None]) -> tuple[Normals, bool]:
    """The normals in ``path``, or new ones, and whether they may be written there; what is wrong is said."""
    try:
        plain = read_normals(path)
        return (Normals() if plain is None else Normals.from_plain(plain)), True
    except NormalsNewerError as reason:
        say(f"{path} is of a newer stalltop ({reason}): what is normal here is learned anew, and not kept")
        return Normals(), False
    except (NormalsDamagedError, ValueError) as reason:
        try:
            aside = put_aside(path)
        except OSError as error:
            say(f"{path} is damaged ({reason}) and cannot be moved: {error.strerror or error}")
            return Normals(), False
        say(f"{path} is damaged ({reason}): it is now {aside.name}, and what is normal here is learned anew")
        return Normals(), True
    except OSError as error:
        say(f"what is normal here cannot be read from {path}: {error.strerror or error}")
        return Normals(), False


class BaselineKeeper:
    """Gives the windows of ``source``, and writes to ``path`` what it has learned. Used from one thread."""

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
        """The next window of the source."""
        window = self._source.read()
        if self._clock() - self._saved_at >= SAVE_SECONDS:
            self._save()
        return window

    def close(self) -> None:
        """Close the source and write for the last time. May be called twice."""
        if not self._closed:
            self._closed = True
            self._save()
        self._source.close()
        if self._writing is not None:
            self._writing.join(LEAVE_SECONDS)

    def _save(self) -> None:
        """Begin to write, unless a write is still under way: a disk that hangs holds nothing up."""
        self._saved_at = self._clock()
        if not len(self._normals) or (self._writing is not None and self._writing.is_alive()):
            return
        plain = self._normals.to_plain()
        self._writing = threading.Thread(
            target=_write, args=(self._path, plain), name="stalltop-normals", daemon=True
        )
        self._writing.start()


def _write(path: Path, plain: dict[str, object]) -> None:
    with contextlib.suppress(OSError, ValueError):  # nobody is there to be told; the next run learns again
        write_normals(path, plain)
