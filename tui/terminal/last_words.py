"""What the terminal shows after the screen ended: the last table, the saved files, and errors."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from stalltop.model.errors import StalltopError, described
from stalltop.model.telling import Tellings
from stalltop.model.text.style import Style
from stalltop.model.window import Window
from stalltop.tui.terminal.streams import drop_output
from stalltop.widgets.drawing.strips import printable


def print_last(window: Window | None, style: Style, tellings: Callable[[], Tellings]) -> None:
    """Print the last table on stdout, below earlier output. ``tellings`` returns the words for each cause."""
    if window is None:
        return
    from stalltop.formats.text.answer import answer_lines
    from stalltop.formats.text.window import LEAST_WIDTH, table

    style = style.at_least(LEAST_WIDTH)
    text = table(window, style, answer_lines(window, window.chains, tellings(), style))
    try:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except OSError:
        drop_output()  # the terminal is gone


def print_saved(paths: Iterable[Path]) -> None:
    """Print the saved files on stderr, because the screen that named them is gone."""
    for path in paths:
        with contextlib.suppress(OSError):
            print(f"stalltop: saved {printable(str(path))}", file=sys.stderr)  # noqa: T201


def explain(what: str, error: BaseException) -> int:
    """Print on stderr the error that ended the screen, or the reading of data (``what``). Returns the exit
    code."""
    if isinstance(error, StalltopError):
        text, code = str(error), error.exit_code
    else:
        text, code = f"{what} failed: {described(error)}", 1
    print(f"stalltop: {text}", file=sys.stderr)  # noqa: T201
    return code
