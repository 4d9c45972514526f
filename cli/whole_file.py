"""A file as one window: the one that was saved, or all of a recording added up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stalltop.cli.progress import ProgressLine
from stalltop.cli.tracing import say
from stalltop.model.chain import Chain
from stalltop.model.comparing.chain_difference import ChainTally
from stalltop.model.window import Window
from stalltop.widgets.strips import printable


def whole_file(path: Path) -> tuple[Window, Sequence[Chain]]:
    """The window of a file, and the causes that were seen in it, each as it was when it was worst.

    What could not be read is told on stderr. Raises UsageError where nothing can be.
    """
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
    """The chains of ``window``: those followed while it was traced, else what its own evidence says."""
    from stalltop.diagnosis.engine import explain

    return window.chains or explain(window)
