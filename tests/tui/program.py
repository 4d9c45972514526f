"""Runs the screen in its own process, for tests in a real terminal: ``python -m tests.tui.program KIND``."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from typing import cast

from stalltop.demo.simulated.windows import SimulatedSource
from stalltop.model.devices.device import System
from stalltop.model.errors import StalltopError, TracingError
from stalltop.model.source import Source
from stalltop.model.window import Window
from stalltop.tui.app import run
from stalltop.tui.screens.run_options import RunOptions
from tests.tui.sources import numbered

RARE_KEYS = (("quit", ("f9",)), ("suspend", ("f10",)), ("interrupt", ("f12",)))
"""Other keys for the actions that leave the screen; random bytes are unlikely to press them."""


class Kinds:
    """A source that returns a first window and then behaves as ``kind`` says."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._reads = 0

    def read(self) -> Window:
        self._reads += 1
        if self._reads > 1:
            if self._kind == "hang":
                threading.Event().wait()
            if self._kind == "deaf":
                # From now on every read of the keyboard fails.
                os.dup2(os.open("/proc/self/mem", os.O_RDONLY), 0)
            if self._kind == "ended":
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            if self._kind == "raise":
                raise ValueError("the probe broke")
            if self._kind == "cannot":
                raise TracingError("no eBPF here", "use another kernel")
            if self._kind == "bug":
                # The screen itself fails on this window, which no real source returns.
                return replace(numbered(1), system=cast(System, "nonsense"))
        return numbered(self._reads - 1)

    def close(self) -> None:
        # The file shows the test that the source was closed, and when.
        path = os.environ.get("CLOSED_FILE")
        if path:
            with open(path, "w") as file:
                file.write(str(time.monotonic()))


def main() -> int:
    kind = sys.argv[1]
    if kind == "nohup":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    flood = kind == "flood"
    # The simulated clock advances by one second with every read, however fast the reads follow each other.
    ticks = itertools.count(1_700_000_000.0)
    simulated = SimulatedSource(clock=lambda: next(ticks))
    source: Source = simulated if kind in ("flood", "steady") else Kinds(kind)
    theme = "dark" if kind == "steady" else ""
    words = sys.argv[2:]
    options = RunOptions(
        interval=0.02 if flood else 0.2,
        ascii="ascii" in words,
        theme=theme,
        mouse="no-mouse" not in words,
        keys=RARE_KEYS if kind == "typed" else (),
    )
    try:
        code = run(source, options)
    except StalltopError as told:
        print(f"error: {told}", file=sys.stderr)
        return told.exit_code
    if code == 0:
        print("left in order", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
