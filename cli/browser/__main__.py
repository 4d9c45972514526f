"""The screen of one browser, as a process: ``python -m stalltop.cli.browser [OPTIONS] SOCKET``.

The server (``serving.session``) starts it. The screen reads windows from the socket with the file descriptor
SOCKET; stdin and stdout carry the terminal in packets (``serving.packets``).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace

from stalltop.serving.confine import confine

AHEAD = 0.9
"""Interval of the screen as a fraction of the server's interval. The screen asks for each window a little
before the server sends it, so that no window waits for the screen."""


def parser() -> argparse.ArgumentParser:
    """Builds the parser for the options of a screen and the file descriptor of its socket."""
    from stalltop.cli.screen_options import add_screen_options

    found = argparse.ArgumentParser(prog="stalltop serve", allow_abbrev=False)
    add_screen_options(found)
    found.add_argument("--demo", action="store_true")
    found.add_argument("link", type=int)
    return found


def main(arguments: Sequence[str]) -> int:
    """Shows the screen until the user leaves, and returns the exit code."""
    confine(parent=os.getppid())
    # Imported after confine(), because imports may start threads, which must be confined as well.
    from stalltop.cli.browser.app import BrowserApp
    from stalltop.cli.screen_options import run_options
    from stalltop.model.errors import StalltopError, described
    from stalltop.serving.link import LinkSource

    options = parser().parse_args(arguments, argparse.Namespace(state=False))
    source = LinkSource(socket.socket(fileno=options.link))
    failure: BaseException | None
    try:
        screen = run_options(options, demo=options.demo)
        app = BrowserApp(source, replace(screen, interval=screen.interval * AHEAD))
        app.run()
        failure = app.failure
    except StalltopError as told:
        failure = told
    if failure is None:
        return 0
    text = str(failure) if isinstance(failure, StalltopError) else described(failure)
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)  # noqa: T201
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
