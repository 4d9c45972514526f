"""What stays on the terminal once the screen is gone: the last table, which files were saved, what failed."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from stalltop.model.errors import StalltopError, described
from stalltop.model.window import Window
from stalltop.tui.terminal.streams import drop_output
from stalltop.widgets.strips import printable


def print_last(window: Window | None, *, colour: bool, unicode: bool) -> None:
    """Leave the last table on the terminal, below what was there before."""
    if window is None:
        return
    from stalltop.formats.text.window import table

    colour = colour and sys.stdout.isatty()
    text = table(window, width=shutil.get_terminal_size().columns, colour=colour, unicode=unicode)
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except OSError:
        drop_output()  # the terminal went away


def print_saved(paths: Iterable[Path]) -> None:
    """Say on stderr what was saved: the screen that said so is gone."""
    for path in paths:
        with contextlib.suppress(OSError):
            print(f"stalltop: saved {printable(str(path))}", file=sys.stderr)  # noqa: T201


def explain(what: str, error: BaseException) -> int:
    """Say on stderr why there is no more data, or no more screen, and return the exit code."""
    if isinstance(error, StalltopError):
        text, code = str(error), error.exit_code
    else:
        text, code = f"{what} failed: {described(error)}", 1
    print(f"stalltop: {text}", file=sys.stderr)  # noqa: T201
    return code
