"""Reads a file as one window: a saved window, or the sum of a recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stalltop.cli.progress import ProgressLine
from stalltop.cli.tracing import say
from stalltop.model.chain import Chain, in_window
from stalltop.model.comparing.chain_difference import ChainTally
from stalltop.model.window import Window
from stalltop.widgets.drawing.strips import printable


def whole_file(path: Path) -> tuple[Window, Sequence[Chain]]:
    """Returns a file as one window, and its chains. Each chain of a recording is returned in the state in
    which it was worst. Parts that cannot be read are reported on stderr. Raises UsageError if nothing can be
    read."""
    from stalltop.recordings.read.reading import open_file

    tally = ChainTally()
    progress = ProgressLine("window")
    done = 0
    with open_file(path) as recorded, recorded.held():

        def each(window: Window) -> None:
            nonlocal done
            done += 1
            tally.add(window)
            progress.at(done, len(recorded.moments))

        try:
            window = recorded.whole(each=each)
        finally:
            progress.ended()
        for line in recorded.warnings:
            say(f"left out: {printable(line)}")
        if recorded.kind == "recording":
            return window, tally.chains
        return window, chains_of(window)


def chains_of(window: Window) -> Sequence[Chain]:
    """Returns the chains that were stored with ``window``, without those that ended before ``window``. If
    none were stored, diagnoses ``window`` now and returns the chains found."""
    from stalltop.diagnosis.engine import explain

    if not window.chains:
        return explain(window)
    return tuple(chain for chain in window.chains if in_window(chain, window.start))
