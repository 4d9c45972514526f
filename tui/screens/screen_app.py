"""The app as its screens see it: options, theme, and the source that is read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.message import Message

from stalltop.model.source import Source
from stalltop.model.text.glyphs import ASCII, UNICODE, Glyphs
from stalltop.tui.reading.collector import Collector, SourceReader
from stalltop.tui.screens.run_options import RunOptions
from stalltop.tui.settings.colours import Colours
from stalltop.tui.terminal.abilities import speaks_unicode
from stalltop.tui.terminal.app import TerminalApp
from stalltop.tui.terminal.clipboard import Copied, into_file, into_tmux
from stalltop.tui.terminal.slow_line import SlowLine

if TYPE_CHECKING:
    from stalltop.recordings.past.opened import OpenedRecording


class ScreenApp(TerminalApp):
    """Holds what all screens need: the options, the theme, and the reader of the source."""

    def __init__(self, source: Source | OpenedRecording, options: RunOptions) -> None:
        if not os.environ.get("NO_COLOR", "x"):
            # An empty NO_COLOR has no meaning, but Textual takes it for a request for no colours.
            del os.environ["NO_COLOR"]
        # Textual honours NO_COLOR only in a theme that uses the terminal's own (ANSI) colours.
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        self.options = options
        self.glyphs = glyphs_for(options)
        self.colours = Colours(self, options.theme)
        self.slow_line = SlowLine(low=options.low_bandwidth)
        self.began = time.monotonic()
        self.collector = _reader(source, self.post_message, options)
        if options.low_bandwidth:
            self.colours.few(True)

    @property
    def letters(self) -> bool:
        """Return whether bars consist of letters and patterns (``Colours.letters``)."""
        return self.colours.letters

    @property
    def pictures(self) -> bool:
        """Return whether bars and charts are drawn. They take many bytes on a slow connection."""
        return not self.slow_line.low

    def suspend_note(self) -> str:
        """Return a line to print when Ctrl-Z stops the app; '' for none."""
        return self.options.suspend_note()

    def copy(self, text: str) -> str:
        """Copy ``text`` to tmux or to the clipboard of the terminal, and to a file. Return where it went, as
        the beginning of a message."""
        if into_tmux(text):
            self.remember_copied(text)
            return Copied(tmux=True, file=into_file(text)).said
        self.copy_to_clipboard(text)
        return Copied(asked="the terminal", file=into_file(text)).said


def glyphs_for(options: RunOptions) -> Glyphs:
    """Return the characters to draw with."""
    if options.ascii or not speaks_unicode():
        return ASCII
    return replace(UNICODE, braille=False) if options.graph_symbols == "blocks" else UNICODE


def _reader(
    source: Source | OpenedRecording, post: Callable[[Message], object], options: RunOptions
) -> SourceReader:
    """Return the object that reads ``source`` in the background."""
    interval, length = options.interval, options.window
    if not isinstance(source, Source):
        # imported here, because it imports all modules that read files
        from stalltop.tui.reading.follower import Follower

        return Follower(source, post, interval=interval, length=length)
    return Collector(
        *(source, post),
        interval=interval,
        length=length,
        still=options.still,
        history=options.history,
        paced=options.paced,
    )
